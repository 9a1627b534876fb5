//! The unconditional space (DDI 0406C A5.7).

use super::exchange;
use super::memory::place;
use crate::effects::{Effects, Flags};
use crate::instruction::Use;
use crate::parts::Parts;
use crate::simd;
use hanok_decode::aarch32::Register;
use hanok_decode::aarch32::words::TransferWord;
use hanok_decode::aarch32::{Shift, ShiftKind};

pub(super) fn decode(word: u32) -> Parts {
    let none = Parts::of(Effects::NONE);
    match word >> 20 & 0xff {
        // Advanced SIMD data processing.
        0x20..=0x3f => none,
        0x40..=0x4f if word & 1 << 20 == 0 => simd::structures(word),
        0x57 => barrier(word),
        // PLI, PLD; with bit 4 set, an undefined word.
        0x45 | 0x4d | 0x55 | 0x5d => preload(word),
        0x65 | 0x6d | 0x75 | 0x7d if word & 0x10 == 0 => preload(word),
        // Unallocated preloads, which do nothing.
        0x41 | 0x49 => none,
        0x61 | 0x69 if word & 0x10 == 0 => none,
        0xa0..=0xbf => exchange(word),
        _ => Parts::UNDEFINED,
    }
}

/// CLREX, DSB, DMB, ISB.
fn barrier(word: u32) -> Parts {
    let none = Parts::of(Effects::NONE);
    match word >> 4 & 0xf {
        1 => none.provided(word & 0xf_ff0f == 0xf_f00f),
        4..=6 => none.provided(word & 0xf_ff00 == 0xf_f000),
        _ => Parts::UNPREDICTABLE,
    }
}

fn preload(bits: u32) -> Parts {
    let word = TransferWord::from_bits(bits);
    let base = Effects::NONE.reading(word.rn().set());
    let fixed = bits & 0xf000 == 0xf000;
    if word.by_register() {
        let index = Register::from_bits(bits as u8);
        let shift = Shift::from_bits(word.kind(), (bits >> 7) as u8);
        let carry = Flags::new().with_c(shift.kind == ShiftKind::Rrx);
        let parts = Parts::of(base.reading(index.set()).reading_flags(carry));
        return parts.provided(fixed && index != Register::PC);
    }
    let parts = Parts::of(base).provided(fixed);
    match word.rn() {
        Register::PC => parts.naming(Use::Preload, place(word, bits as u16 & 0xfff)),
        _ => parts,
    }
}
