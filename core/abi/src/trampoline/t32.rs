//! Trampolines for T32 instructions of two halfwords.
//!
//! BX PC at the address of a word goes on in A32 behind that word, and changes nothing else (DDI
//! 0406C A8.8.27). So the site's branch leads to a word with BX PC. Behind it are the same A32
//! instructions as for the A32 instruction that does the same ([`as_a32`]), except that they end in
//! a load of the PC from a literal, which is the trampoline's last word. Bit 0 of the loaded
//! address returns to T32 (A2.3.1).
//!
//! Instructions of one halfword (mostly CPS) have no room for a branch that reaches a trampoline.
//! If the next instruction were replaced along with them, two steps would have to commit where only
//! one may. So they trap.

use super::PIPELINE;

/// The number of words that a T32 trampoline has in addition: the first word, and the literal.
pub(super) const MORE: usize = 2;
/// BX PC in the lower half, and in the upper half a NOP that never executes.
pub(super) const ENTRY: u32 = 0xbf00_4778;
/// The size of [`ENTRY`] in bytes.
pub(super) const ENTRY_BYTES: u32 = 4;
/// Bit 0 of a branch target: the target is T32 code.
pub const THUMB: u32 = 1;

/// LDR of the PC relative to the PC, without U and the distance (DDI 0406C A8.8.64).
const LDR_PC: u32 = 0xe51f_f000;
const U: u32 = 1 << 23;
const DISTANCE: u32 = 0xfff;

/// The A32 instruction, without a condition, that does the same as a T32 instruction of two
/// halfwords, the first one in the upper half; `None` if there is no trampoline for such an
/// instruction.
pub const fn as_a32(both: u32) -> Option<u32> {
    // MRC, MCR and VMRS have the same bits (A6.3.18).
    if both & 0xff00_0010 == 0xee00_0010 {
        return Some(both);
    }
    // MRS (B9.3.8).
    if both & 0xffef_f0ff == 0xf3ef_8000 {
        return Some(0xe10f_0000 | (both & 1 << 20) << 2 | (both & 0xf00) << 4);
    }
    // MSR of a register (B9.3.12).
    if both & 0xffe0_f0ff == 0xf380_8000 {
        let (mask, register) = ((both & 0xf00) << 8, both >> 16 & 0xf);
        return Some(0xe120_f000 | (both & 1 << 20) << 2 | mask | register);
    }
    // CPS that only sets or clears masks (B9.3.2); with imod 0 the words are hints.
    if both & 0xffff_fd1f == 0xf3af_8400 {
        return Some(0xf100_0000 | (both & 0x600) << 9 | (both & 0xe0) << 1);
    }
    None
}

/// The LDR of the PC at `here` from the literal at `literal`.
pub(super) fn back(here: u32, literal: u32) -> Option<u32> {
    let from = here.wrapping_add(PIPELINE);
    let ahead = literal.wrapping_sub(from);
    let (add, distance) = if ahead >> 31 == 0 {
        (U, ahead)
    } else {
        (0, ahead.wrapping_neg())
    };
    (distance <= DISTANCE).then_some(LDR_PC | add | distance)
}

/// The address of the literal that `word` at `at` loads into the PC, if it is such a load.
pub(super) const fn literal(word: u32, at: u32) -> Option<u32> {
    if word & !(U | DISTANCE) != LDR_PC {
        return None;
    }
    let (from, distance) = (at.wrapping_add(PIPELINE), word & DISTANCE);
    Some(if word & U == 0 {
        from.wrapping_sub(distance)
    } else {
        from.wrapping_add(distance)
    })
}

/// B.W that replaces the instruction at `site`, to a trampoline at `at`. Its first halfword is in
/// the upper half (DDI 0406C A8.8.18, encoding T4).
pub fn enter(site: u32, at: u32) -> Option<u32> {
    let distance = at.wrapping_sub(site.wrapping_add(4)) as i32;
    if distance & 1 != 0 || distance >> 24 != distance >> 31 {
        return None;
    }
    let bits = distance as u32;
    let sign = bits >> 31;
    let [j1, j2] = [23, 22].map(|bit| 1 ^ sign ^ bits >> bit & 1);
    let first = 0xf000 | sign << 10 | bits >> 12 & 0x3ff;
    Some(first << 16 | 0x9000 | j1 << 13 | j2 << 11 | bits >> 1 & 0x7ff)
}

/// The target of the B.W `both` at `site`.
pub fn entered(both: u32, site: u32) -> Option<u32> {
    if both & 0xf800_d000 != 0xf000_9000 {
        return None;
    }
    let sign = both >> 26 & 1;
    let [i1, i2] = [13, 11].map(|bit| 1 ^ sign ^ both >> bit & 1);
    let bits = sign << 24 | i1 << 23 | i2 << 22 | (both >> 16 & 0x3ff) << 12 | (both & 0x7ff) << 1;
    let distance = (bits << 7) as i32 >> 7;
    Some(site.wrapping_add(4).wrapping_add(distance as u32))
}
