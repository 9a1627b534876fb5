//! The trampoline of A32 (DDI 0406C A8.8). It uses R0 to R4, and R5 for the flags.

use super::{Argument, Begun, Probe};
use crate::Refused;
use crate::aarch32::words::a32_constant;
use crate::aarch32::{ALWAYS, PC, SP};
use crate::code::Code;

/// The bytes on the stack.
const FRAME: i32 = 24;
/// The registers below this number are on the stack.
const SAVED: u32 = 6;

const B: u32 = 0xea00_0000;
const BNE: u32 = 0x1a00_0000;

/// The branch `word` at one offset to another.
const fn to(word: u32, from: usize, to: usize) -> u32 {
    let distance = to as i32 - (from as i32 + 8);
    word | (distance >> 2) as u32 & 0x00ff_ffff
}

/// Adds what comes before the displaced instruction.
pub(super) fn begin(code: &mut Code, probe: &Probe<'_>) -> Result<Begun, Refused> {
    code.word(0xe92d_003f); // push {r0-r5}
    code.word(0xe10f_5000); // mrs r5, cpsr
    let full = reserve(code, probe)?;
    code.word(0xec53_2f1e); // mrrc p15, 1, r2, r3, c14: CNTVCT
    let at = to_record(code, probe)?;
    store_pair(code, at); // the stamp
    code.word(0xe3a0_3000); // mov r3, #0
    let [a, b] = probe.arguments;
    argument(code, a)?;
    store_pair(code, at + 16);
    argument(code, b)?;
    store_pair(code, at + 24);
    a32_constant(code, ALWAYS, 2, probe.number.into());
    code.word(0xe580_2000 | (at + 12)); // str r2, [r0, #at + 12]
    code.word(0xf57f_f05b); // dmb ish
    code.word(0xe580_4000 | (at + 8)); // str r4, [r0, #at + 8]: the record is whole
    let restore = code.size();
    code.word(0xe128_f005); // msr cpsr_f, r5
    code.word(0xe8bd_003f); // pop {r0-r5}
    Ok(Begun {
        full,
        restore,
        executed: code.size() as u32 / 4,
    })
}

/// Takes a place: its number into R1, and the number plus one into R4. R0 points to the header.
fn reserve(code: &mut Code, probe: &Probe<'_>) -> Result<usize, Refused> {
    let (head, _) = probe.ring.narrow()?;
    a32_constant(code, ALWAYS, 0, head);
    let again = code.size();
    code.word(0xe590_3004); // ldr r3, [r0, #4]
    code.word(0xe190_1f9f); // ldrex r1, [r0]
    code.word(0xe041_2003); // sub r2, r1, r3
    code.word(0xe1b0_2022 | probe.ring.log2() << 7); // lsrs r2, r2, #log2
    let full = code.size();
    code.word(BNE); // bne full
    code.word(0xe281_4001); // add r4, r1, #1
    code.word(0xe180_3f94); // strex r3, r4, [r0]
    code.word(0xe353_0000); // cmp r3, #0
    code.word(to(BNE, code.size(), again)); // bne again
    Ok(full)
}

/// Puts the address of the record into R0, less an offset, which is the answer.
fn to_record(code: &mut Code, probe: &Probe<'_>) -> Result<u32, Refused> {
    let (head, records) = probe.ring.narrow()?;
    code.word(0xe7e0_1051 | (probe.ring.log2() - 1) << 16); // ubfx r1, r1, #0, #log2
    let at = match records.wrapping_sub(head) {
        near @ 0..=0xe0 => near, // the last offset is then less than 256
        _ => {
            a32_constant(code, ALWAYS, 0, records);
            0
        }
    };
    code.word(0xe080_0281); // add r0, r0, r1, lsl #5
    Ok(at)
}

/// STRD of R2 and R3 to R0 plus less than 256.
fn store_pair(code: &mut Code, offset: u32) {
    code.word(0xe1c0_20f0 | (offset & 0xf0) << 4 | offset & 0xf);
}

/// Puts the argument into R2.
fn argument(code: &mut Code, argument: Argument) -> Result<(), Refused> {
    match argument {
        Argument::None => code.word(0xe3a0_2000), // mov r2, #0
        Argument::Register(number) => match u32::from(number) {
            SP => code.word(0xe28d_2018), // add r2, sp, #24
            saved @ 0..SAVED => load(code, SP, saved as i32 * 4)?,
            other @ SAVED..PC => code.word(0xe1a0_2000 | other), // mov r2, other
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
            a32_constant(code, ALWAYS, 2, narrow);
            load(code, 2, 0)?;
        }
    }
    Ok(())
}

/// LDR of R2.
fn load(code: &mut Code, base: u32, offset: i32) -> Result<(), Refused> {
    let add = if offset < 0 { 0 } else { 1 << 23 };
    let distance = offset.unsigned_abs();
    if distance > 4095 {
        return Err(Refused::Argument);
    }
    code.word(0xe510_2000 | add | base << 16 | distance);
    Ok(())
}

/// Adds what counts an event for which there is no place.
pub(super) fn count_lost(code: &mut Code, begun: &Begun) {
    let branch = to(BNE, begun.full, code.size());
    code.replace(begun.full, branch.to_le_bytes());
    code.word(0xe280_0008); // add r0, r0, #8
    let again = code.size();
    code.word(0xe190_1f9f); // ldrex r1, [r0]
    code.word(0xe281_1001); // add r1, r1, #1
    code.word(0xe180_3f91); // strex r3, r1, [r0]
    code.word(0xe353_0000); // cmp r3, #0
    code.word(to(BNE, code.size(), again)); // bne again
    code.word(to(B, code.size(), begun.restore)); // b restore
}
