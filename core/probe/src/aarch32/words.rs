//! A32 and T32 words that are made here (DDI 0406C A8.8). T32 instructions of two halfwords have
//! the first one in the upper half.

use super::{ALWAYS, THUMB};
use crate::code::Code;

/// B with the condition always.
pub(crate) const fn a32_branch(from: u32, to: u32) -> Option<u32> {
    let distance = to.wrapping_sub(from.wrapping_add(8)) as i32;
    if distance & 3 == 0 && distance >> 25 == distance >> 31 {
        Some(ALWAYS << 28 | 0x0a00_0000 | (distance >> 2) as u32 & 0x00ff_ffff)
    } else {
        None
    }
}

/// B of two halfwords (encoding T4): S, then I1 and I2, each inverted and combined with S.
pub(crate) const fn t32_branch(from: u32, to: u32) -> Option<u32> {
    let distance = to.wrapping_sub(from.wrapping_add(4)) as i32;
    if distance & 1 != 0 || distance >> 24 != distance >> 31 {
        return None;
    }
    let offset = distance as u32;
    let sign = offset >> 31;
    let j1 = !(offset >> 23 ^ sign) & 1;
    let j2 = !(offset >> 22 ^ sign) & 1;
    let (upper, lower) = (offset >> 12 & 0x3ff, offset >> 1 & 0x7ff);
    Some(0xf000_9000 | sign << 26 | upper << 16 | j1 << 13 | j2 << 11 | lower)
}

/// MOVW or MOVT of A32: `operation` has the condition.
const fn a32_move(operation: u32, register: u32, half: u32) -> u32 {
    operation | (half >> 12) << 16 | register << 12 | half & 0xfff
}

/// Adds MOVW and, if the upper half is not zero, MOVT. The flags stay as they are.
pub(crate) fn a32_constant(code: &mut Code, condition: u32, register: u32, value: u32) {
    let (low, high) = (value & 0xffff, value >> 16);
    code.word(a32_move(condition << 28 | 0x0300_0000, register, low));
    if high != 0 {
        code.word(a32_move(condition << 28 | 0x0340_0000, register, high));
    }
}

/// MOVW or MOVT of T32.
const fn t32_move(operation: u32, register: u32, half: u32) -> u32 {
    let (imm4, i, imm3, imm8) = (half >> 12, half >> 11 & 1, half >> 8 & 7, half & 0xff);
    operation | i << 26 | imm4 << 16 | imm3 << 12 | register << 8 | imm8
}

/// The same as [`a32_constant`] in T32.
pub(crate) fn t32_constant(code: &mut Code, register: u32, value: u32) {
    let (low, high) = (value & 0xffff, value >> 16);
    code.wide(t32_move(0xf240_0000, register, low));
    if high != 0 {
        code.wide(t32_move(0xf2c0_0000, register, high));
    }
}

/// Adds the ADDs of one byte each that add a constant to a register and set no flags.
pub(crate) fn a32_add(code: &mut Code, condition: u32, register: u32, value: u32) {
    for byte in 0..4 {
        let bits = value >> (8 * byte) & 0xff;
        let rotation = (4 - byte) % 4 * 4;
        let word = condition << 28 | 0x0280_0000 | register << 16 | register << 12;
        if bits != 0 {
            code.word(word | rotation << 8 | bits);
        }
    }
}

/// The same in T32, whose constants have their highest set bit rotated to its place (A6.3.2).
pub(crate) fn t32_add(code: &mut Code, register: u32, value: u32) {
    for byte in 0..4 {
        let part = value & 0xff << (8 * byte);
        let constant = if byte == 0 {
            part
        } else {
            let zeros = part.leading_zeros();
            (8 + zeros) << 7 | (part << (zeros & 31)) >> 24 & 0x7f
        };
        let (i, imm3, imm8) = (constant >> 11 & 1, constant >> 8 & 7, constant & 0xff);
        let word = 0xf100_0000 | i << 26 | register << 16 | imm3 << 12 | register << 8 | imm8;
        if part != 0 {
            code.wide(word);
        }
    }
}

/// Adds an A32 branch that is always taken: B, or LDR of the PC from a literal behind it, which also
/// reaches T32 code (A2.3.1).
pub(crate) fn a32_jump(code: &mut Code, target: u32) {
    let near = a32_branch(code.here() as u32, target);
    match near.filter(|_| target & THUMB == 0) {
        Some(word) => code.word(word),
        None => {
            code.word(0xe51f_f004); // ldr pc, [pc, #-4]
            code.word(target);
        }
    }
}

/// Adds a T32 branch that is always taken, in the same way. The literal is at a multiple of four.
pub(crate) fn t32_jump(code: &mut Code, target: u32) {
    let near = t32_branch(code.here() as u32, target & !THUMB);
    match near.filter(|_| target & THUMB != 0) {
        Some(both) => code.wide(both),
        None if code.here() & 2 == 0 => {
            code.wide(0xf8df_f000); // ldr.w pc, [pc]
            code.word(target);
        }
        None => {
            code.wide(0xf8df_f004); // ldr.w pc, [pc, #4]
            code.half(0xbf00); // nop
            code.word(target);
        }
    }
}
