//! The trampoline of A64 (DDI 0487 C6.2). It uses X0 to X3, and no flags.

use super::{Argument, Begun, Probe};
use crate::Refused;
use crate::a64::words::constant;
use crate::code::Code;

/// The bytes on the stack.
const FRAME: i32 = 32;
/// The registers below this number are on the stack.
const SAVED: u32 = 4;
const SP: u32 = 31;

/// CBNZ, without the register.
const CBNZ: u32 = 0x3500_0000;

/// The branch `word` with the distance in bytes, in the 19 bits from bit 5 on.
const fn to(word: u32, distance: i32) -> u32 {
    word | (distance as u32 >> 2 & 0x7_ffff) << 5
}

/// The distance from one offset to another.
const fn distance(from: usize, to: usize) -> i32 {
    to as i32 - from as i32
}

/// Adds what comes before the displaced instruction.
pub(super) fn begin(code: &mut Code, probe: &Probe<'_>) -> Result<Begun, Refused> {
    code.word(0xa9be_07e0); // stp x0, x1, [sp, #-32]!
    code.word(0xa901_0fe2); // stp x2, x3, [sp, #16]
    let full = reserve(code, probe);
    code.word(0xd53b_e043); // mrs x3, cntvct_el0
    to_record(code, probe);
    code.word(0xf81f_8003); // stur x3, [x0, #-8]: the stamp
    code.word(0xf2c0_0002 | u32::from(probe.number) << 5); // movk x2, #number, lsl #32
    let [a, b] = probe.arguments;
    let (a, b) = (argument(code, a, 1)?, argument(code, b, 3)?);
    code.word(0xa900_8000 | b << 10 | a); // stp a, b, [x0, #8]
    code.word(0xc89f_fc02); // stlr x2, [x0]: the record is whole
    let restore = code.size();
    code.word(0xa941_0fe2); // ldp x2, x3, [sp, #16]
    code.word(0xa8c2_07e0); // ldp x0, x1, [sp], #32
    Ok(Begun {
        full,
        restore,
        executed: code.size() as u32 / 4,
    })
}

/// Takes a place: its number into W1, and the number plus one into X2. X0 points to the header. The
/// tail is read before the load exclusive, because no other access should come between that and
/// the store; it can only be too old, and there is more room then than it says.
fn reserve(code: &mut Code, probe: &Probe<'_>) -> usize {
    constant(code, 0, probe.ring.head().get());
    let again = code.size();
    code.word(0xb940_0403); // ldr w3, [x0, #4]
    code.word(0x885f_7c01); // ldxr w1, [x0]
    code.word(0x4b03_0022); // sub w2, w1, w3
    code.word(0x5300_7c42 | probe.ring.log2() << 16); // lsr w2, w2, #log2
    let full = code.size();
    code.word(CBNZ | 2); // cbnz w2, full
    code.word(0x1100_0422); // add w2, w1, #1
    code.word(0x8803_7c02); // stxr w3, w2, [x0]
    code.word(to(CBNZ | 3, distance(code.size(), again))); // cbnz w3, again
    full
}

/// Puts the address of the record's word that is written last into X0.
fn to_record(code: &mut Code, probe: &Probe<'_>) {
    let ring = probe.ring;
    let first = ring.records().get() + crate::Record::COMMIT;
    code.word(0x1200_0021 | (ring.log2() - 1) << 10); // and w1, w1, #capacity - 1
    match first.wrapping_sub(ring.head().get()) {
        near @ 0..0x1000 => code.word(0x9100_0000 | (near as u32) << 10), // add x0, x0, #near
        _ => constant(code, 0, first),
    }
    code.word(0x8b01_1400); // add x0, x0, x1, lsl #5
}

/// The register that holds the argument, which is `scratch` if it has to be loaded.
fn argument(code: &mut Code, argument: Argument, scratch: u32) -> Result<u32, Refused> {
    match argument {
        Argument::None => return Ok(31),
        Argument::Register(number) => match u32::from(number) {
            SP => code.word(0x9100_8000 | SP << 5 | scratch), // add scratch, sp, #32
            saved @ 0..SAVED => load(code, scratch, SP, saved as i32 * 8)?,
            other @ SAVED..SP => return Ok(other),
            _ => return Err(Refused::Argument),
        },
        Argument::Word { base, offset } => match u32::from(base) {
            SP => load(code, scratch, SP, offset.saturating_add(FRAME))?,
            saved @ 0..SAVED => {
                load(code, scratch, SP, saved as i32 * 8)?;
                load(code, scratch, scratch, offset)?;
            }
            other @ SAVED..SP => load(code, scratch, other, offset)?,
            _ => return Err(Refused::Argument),
        },
        Argument::Fixed(address) => {
            constant(code, scratch, address.get());
            load(code, scratch, scratch, 0)?;
        }
    }
    Ok(scratch)
}

/// LDR or LDUR of 64 bits.
fn load(code: &mut Code, register: u32, base: u32, offset: i32) -> Result<(), Refused> {
    let registers = base << 5 | register;
    let word = match offset {
        0..=32_760 if offset & 7 == 0 => 0xf940_0000 | (offset as u32 / 8) << 10,
        -256..=255 => 0xf840_0000 | (offset as u32 & 0x1ff) << 12,
        _ => return Err(Refused::Argument),
    };
    code.word(word | registers);
    Ok(())
}

/// Adds what counts an event for which there is no place.
pub(super) fn count_lost(code: &mut Code, begun: &Begun) {
    let here = code.size();
    let branch = to(CBNZ | 2, distance(begun.full, here));
    code.replace(begun.full, branch.to_le_bytes());
    code.word(0x9100_2000); // add x0, x0, #8
    let again = code.size();
    code.word(0x885f_7c01); // ldxr w1, [x0]
    code.word(0x1100_0421); // add w1, w1, #1
    code.word(0x8803_7c01); // stxr w3, w1, [x0]
    code.word(to(CBNZ | 3, distance(code.size(), again))); // cbnz w3, again
    let back = distance(code.size(), begun.restore);
    code.word(0x1400_0000 | (back >> 2) as u32 & 0x03ff_ffff); // b restore
}
