//! What an A32 instruction needs to be executed elsewhere (DDI 0406C A5).
//!
//! What is not listed is refused, and so is every form that has the PC in a place where the manual
//! makes that UNPREDICTABLE.

mod data;
mod memory;
mod tables;

use super::rows::look_up;
use super::{Found, Meaning, THUMB, bit, coprocessor, field, same};
use crate::Refused;
use crate::exclusive::exclusive_a32;

/// What the PC is ahead of the instruction that reads it (A2.3).
const AHEAD: u32 = 8;

/// What the instruction `word` at the address `at` means.
pub(super) fn decode(word: u32, at: u32) -> Found {
    let pc = at.wrapping_add(AHEAD);
    if word >> 28 == 0xf {
        return unconditional(word, pc);
    }
    match field(word, 25, 3) {
        0b000 if bit(word, 7) && bit(word, 4) => multiply_or_extra(word, pc),
        0b000 if word & 0x0190_0000 == 0x0100_0000 => miscellaneous(word, pc),
        0b001 if word & 0x0190_0000 == 0x0100_0000 => look_up(tables::CONSTANTS, word),
        0b000 | 0b001 => data::decode(word, pc),
        0b011 if bit(word, 4) => media(word),
        0b010 | 0b011 => memory::single(word, pc),
        0b100 => memory::block(word),
        0b101 => Ok(branch(word, pc)),
        _ if word & 0x0f00_0000 == 0x0f00_0000 => Err(Refused::Exception),
        _ => coprocessor::decode(word),
    }
}

/// B and BL. Their offset has 24 bits, in words.
fn branch(word: u32, pc: u32) -> Meaning {
    let target = pc.wrapping_add(offset(word));
    if bit(word, 24) {
        return Meaning::Call(target);
    }
    Meaning::Jump {
        condition: word >> 28,
        target,
    }
}

const fn offset(word: u32) -> u32 {
    ((word << 8) as i32 >> 6) as u32
}

/// Multiplications, SWP, and loads and stores of halfwords and pairs.
fn multiply_or_extra(word: u32, pc: u32) -> Found {
    match (field(word, 5, 2), bit(word, 24)) {
        (0, _) if exclusive_a32(word).is_some() => Err(Refused::Exclusive),
        (0, _) => look_up(tables::MULTIPLICATIONS, word),
        _ => memory::extra(word, pc),
    }
}

/// "Miscellaneous instructions" and "Halfword multiply and multiply accumulate" (A5.2.7, A5.2.12).
fn miscellaneous(word: u32, pc: u32) -> Found {
    let rm = field(word, 0, 4);
    match (word & 0x0ff0_00f0, word & 0x000f_ff00 == 0x000f_ff00) {
        (0x0120_0010, true) if rm == 15 => Ok(Meaning::Jump {
            condition: word >> 28,
            target: pc,
        }),
        (0x0120_0010, true) => Ok(Meaning::Same),
        (0x0120_0020, true) => same(rm != 15),
        (0x0120_0030, true) => super::call_register(rm),
        (0x0100_0070 | 0x0120_0070 | 0x0140_0070 | 0x0160_0070, _) => Err(Refused::Exception),
        _ => look_up(tables::MISCELLANEOUS, word),
    }
}

/// "Media instructions", and UDF among them (A5.4).
fn media(word: u32) -> Found {
    if word & 0x0ff0_00f0 == 0x07f0_00f0 {
        return Err(Refused::Exception);
    }
    look_up(tables::MEDIA, word)
}

/// "Unconditional instructions" (A5.7).
fn unconditional(word: u32, pc: u32) -> Found {
    match word >> 24 {
        0xfa | 0xfb => {
            let half = (word >> 24 & 1) << 1;
            let target = pc.wrapping_add(offset(word) | half);
            Ok(Meaning::Call(target | THUMB))
        }
        0xf4..=0xf7 if memory::is_preload(word) => memory::preload(word),
        _ => look_up(tables::UNCONDITIONAL, word),
    }
}
