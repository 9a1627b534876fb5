//! What a T32 instruction outside IT blocks needs to be executed elsewhere (DDI 0406C A6).
//!
//! What is not listed is refused, and so is every form that has the PC in a place where the manual
//! makes that UNPREDICTABLE.

mod branches;
mod data;
mod memory;
mod narrow;

use super::{Found, coprocessor, field, same};
use crate::Refused;
use hanok_decode::aarch32::Encoding;

/// What the PC is ahead of the instruction that reads it (A2.3).
const AHEAD: u32 = 4;

/// What an instruction at the address `at` means.
pub(super) fn decode(encoding: Encoding, at: u32) -> Found {
    let pc = at.wrapping_add(AHEAD);
    match encoding {
        Encoding::Narrow(half) => narrow::decode(u32::from(half), pc),
        Encoding::Wide(both) => wide(both, pc),
        Encoding::A32(_) => Err(Refused::Unknown),
    }
}

/// An instruction of two halfwords, the first one in the upper half.
fn wide(both: u32, pc: u32) -> Found {
    let branches = both & 1 << 15 != 0;
    match field(both, 24, 8) {
        0xe8 | 0xe9 if both & 1 << 22 == 0 => memory::block(both),
        0xe8 | 0xe9 => memory::dual(both, pc),
        0xea | 0xeb => data::by_register(both),
        0xec..=0xee => coprocessor::decode(both),
        0xef | 0xff => Ok(super::Meaning::Same), // Advanced SIMD
        0xf0..=0xf7 if branches => branches::decode(both, pc),
        0xf0 | 0xf1 | 0xf4 | 0xf5 => data::by_constant(both),
        0xf2 | 0xf3 | 0xf6 | 0xf7 => data::plain(both, pc),
        0xf9 if both & 1 << 20 == 0 => same(field(both, 16, 4) != 15), // VLD, VST
        0xf8 | 0xf9 => memory::single(both, pc),
        0xfa => data::registers(both),
        0xfb => data::multiply(both),
        _ => Err(Refused::Unknown),
    }
}
