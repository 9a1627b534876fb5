//! The trampoline of T32 (DDI 0406C A8.8). It uses R0 to R4, and no flags: CBZ needs none, and
//! instructions of two halfwords set none.

use super::{Argument, Begun, Probe};
use crate::Refused;
use crate::aarch32::words::{t32_branch, t32_constant};
use crate::aarch32::{PC, SP};
use crate::code::Code;

/// The bytes on the stack.
const FRAME: i32 = 24;
/// The registers below this number are on the stack.
const SAVED: u32 = 6;
/// The branches that are skipped if there is a place and no other writer.
const SKIPPED: u32 = 2;

/// B of two halfwords at one offset to another, which are near.
fn far(from: usize, to: usize) -> u32 {
    t32_branch(from as u32, to as u32).unwrap_or(0)
}

/// B of one halfword at one offset to another, which are near.
const fn near(from: usize, to: usize) -> u16 {
    let distance = to as i32 - (from as i32 + 4);
    0xe000 | (distance >> 1) as u16 & 0x07ff
}

/// Adds what comes before the displaced instruction.
pub(super) fn begin(code: &mut Code, probe: &Probe<'_>) -> Result<Begun, Refused> {
    code.half(0xb43f); // push {r0-r5}
    let full = reserve(code, probe)?;
    code.wide(0xec53_2f1e); // mrrc p15, 1, r2, r3, c14: CNTVCT
    let at = to_record(code, probe)?;
    store_pair(code, 2, at); // the stamp
    code.wide(0xf04f_0300); // mov.w r3, #0
    let [a, b] = probe.arguments;
    let a = argument(code, a)?;
    store_pair(code, a, at + 16);
    let b = argument(code, b)?;
    store_pair(code, b, at + 24);
    t32_constant(code, 2, probe.number.into());
    code.wide(0xf8c0_2000 | (at + 12)); // str.w r2, [r0, #at + 12]
    code.wide(0xf3bf_8f5b); // dmb ish
    code.wide(0xf8c0_4000 | (at + 8)); // str.w r4, [r0, #at + 8]: the record is whole
    let restore = code.size();
    code.half(0xbc3f); // pop {r0-r5}
    Ok(Begun {
        full,
        restore,
        executed: code.count() - SKIPPED,
    })
}

/// Takes a place: its number into R1, and the number plus one into R4. R0 points to the header.
fn reserve(code: &mut Code, probe: &Probe<'_>) -> Result<usize, Refused> {
    let (head, _) = probe.ring.narrow()?;
    let log2 = probe.ring.log2();
    t32_constant(code, 0, head);
    let again = code.size();
    code.half(0x6843); // ldr r3, [r0, #4]
    code.wide(0xe850_1f00); // ldrex r1, [r0]
    code.wide(0xeba1_0203); // sub.w r2, r1, r3
    code.wide(0xea4f_0212 | (log2 >> 2) << 12 | (log2 & 3) << 6); // lsr.w r2, r2, #log2
    code.half(0xb10a); // cbz r2, over the next
    let full = code.size();
    code.wide(0); // b.w full
    code.wide(0xf101_0401); // add.w r4, r1, #1
    code.wide(0xe840_4300); // strex r3, r4, [r0]
    code.half(0xb103); // cbz r3, over the next
    code.half(near(code.size(), again)); // b again
    Ok(full)
}

/// Puts the address of the record into R0, less an offset, which is the answer.
fn to_record(code: &mut Code, probe: &Probe<'_>) -> Result<u32, Refused> {
    let (head, records) = probe.ring.narrow()?;
    code.wide(0xf3c1_0100 | (probe.ring.log2() - 1)); // ubfx r1, r1, #0, #log2
    let at = match records.wrapping_sub(head) {
        near @ 0..=0x3e0 => near, // the last offset is then less than 1,024
        _ => {
            t32_constant(code, 0, records);
            0
        }
    };
    code.wide(0xeb00_1041); // add.w r0, r0, r1, lsl #5
    Ok(at)
}

/// STRD of a register and R3 to R0 plus a multiple of four less than 1,024.
fn store_pair(code: &mut Code, register: u32, offset: u32) {
    code.wide(0xe9c0_0300 | register << 12 | offset >> 2);
}

/// The register that holds the argument, which is R2 if it has to be loaded, or R3, which is zero.
fn argument(code: &mut Code, argument: Argument) -> Result<u32, Refused> {
    match argument {
        Argument::None => return Ok(3),
        Argument::Register(number) => match u32::from(number) {
            SP => code.half(0xaa06), // add r2, sp, #24
            saved @ 0..SAVED => load(code, SP, saved as i32 * 4)?,
            other @ SAVED..PC => return Ok(other),
            _ => return Err(Refused::Argument),
        },
        Argument::Word { base, offset } => match u32::from(base) {
            SP => load(code, SP, offset.saturating_add(FRAME))?,
            saved @ 0..SAVED => {
                load(code, SP, saved as i32 * 4)?;
                load(code, 2, offset)?;
            }
            other @ SAVED..PC => load(code, other, offset)?,
            _ => return Err(Refused::Argument),
        },
        Argument::Fixed(address) => {
            let narrow = u32::try_from(address.get()).map_err(|_| Refused::Argument)?;
            t32_constant(code, 2, narrow);
            load(code, 2, 0)?;
        }
    }
    Ok(2)
}

/// LDR of R2.
fn load(code: &mut Code, base: u32, offset: i32) -> Result<(), Refused> {
    let form = match offset {
        0..=4095 => 0xf8d0_2000,
        -255..0 => 0xf850_2c00,
        _ => return Err(Refused::Argument),
    };
    code.wide(form | base << 16 | offset.unsigned_abs());
    Ok(())
}

/// Adds what counts an event for which there is no place.
pub(super) fn count_lost(code: &mut Code, begun: &Begun) {
    let branch = far(begun.full, code.size());
    code.replace(begun.full, branch.rotate_left(16).to_le_bytes());
    code.wide(0xf100_0008); // add.w r0, r0, #8
    let again = code.size();
    code.wide(0xe850_1f00); // ldrex r1, [r0]
    code.wide(0xf101_0101); // add.w r1, r1, #1
    code.wide(0xe840_1300); // strex r3, r1, [r0]
    code.half(0xb103); // cbz r3, over the next
    code.half(near(code.size(), again)); // b again
    code.wide(far(code.size(), begun.restore)); // b.w restore
}
