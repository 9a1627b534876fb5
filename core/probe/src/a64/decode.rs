//! What an A64 instruction needs to be executed elsewhere (DDI 0487 C4.1).
//!
//! An instruction is let through as it is only if it is known not to depend on its address: a word
//! of a class that is not listed here is refused. Within a class, encodings that are unallocated
//! are refused where few bits tell them; SIMD instructions and system registers are not examined.

mod branches;
mod operations;
mod system;

use crate::Refused;
use hanok_decode::{LoadStore, decode_load_store};

/// What an instruction does, as far as its address matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It does the same anywhere.
    Same,
    /// It is a hint that is left out.
    Nothing,
    /// It puts a constant into a register.
    Address { register: u32, value: u64 },
    /// It loads from this address: `word` is the load from the address in its own Rt.
    Load { word: u32, value: u64 },
    /// It branches.
    Branch(u64),
    /// It branches there unless `word`, its inverse, skips the next word.
    Skip { word: u32, target: u64 },
    /// It calls.
    Call(u64),
    /// It calls what `word` branches to.
    CallRegister(u32),
}

/// The meaning, or a refusal.
pub(super) type Found = Result<Meaning, Refused>;

const fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 == 1
}

const fn field(word: u32, lowest: u32, bits: u32) -> u32 {
    word >> lowest & ((1 << bits) - 1)
}

/// Bits `lowest` and up, as a signed number.
const fn signed(word: u32, lowest: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    ((field(word, lowest, bits) << unused) as i32 >> unused) as i64
}

/// [`Meaning::Same`] if the word is allocated.
const fn same(allocated: bool) -> Found {
    if allocated {
        Ok(Meaning::Same)
    } else {
        Err(Refused::Unknown)
    }
}

/// What the instruction `word` at the address `at` means. In a `guarded` page, landing pads are
/// refused.
pub(super) fn meaning(word: u32, at: u64, guarded: bool) -> Found {
    match field(word, 25, 4) {
        0b1000 | 0b1001 => operations::immediate(word, at),
        0b1010 | 0b1011 => branches::decode(word, at, guarded),
        0b0101 | 0b1101 => operations::register(word),
        0b0111 | 0b1111 => Ok(Meaning::Same),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => memory(word, at),
        _ => Err(Refused::Unknown),
    }
}

/// Loads and stores. Those that are not recognised are refused; prefetches have no place in
/// the decoder of accesses, and depend on nothing.
fn memory(word: u32, at: u64) -> Found {
    if word & 0x3b00_0000 == 0x1800_0000 {
        return literal(word, at);
    }
    match decode_load_store(word) {
        Some(LoadStore::Exclusive(_)) => Err(Refused::Exclusive),
        Some(_) => Ok(Meaning::Same),
        None => same(is_prefetch(word)),
    }
}

/// PRFM with a constant, scaled or not, and with a register.
const fn is_prefetch(word: u32) -> bool {
    let by_register = word & 0xffe0_4c00 == 0xf8a0_4800;
    let scaled = word & 0xffc0_0000 == 0xf980_0000;
    scaled || by_register || word & 0xffe0_0c00 == 0xf880_0000
}

/// "Load register (literal)". The loaded register holds the address before.
fn literal(word: u32, at: u64) -> Found {
    let (rt, kind) = (field(word, 0, 5), field(word, 30, 2));
    if bit(word, 26) {
        let reserved = kind == 3;
        return Err(if reserved {
            Refused::Unknown
        } else {
            Refused::VectorLiteral
        });
    }
    let load = match kind {
        0b00 => 0xb940_0000, // LDR Wt, [Xn]
        0b01 => 0xf940_0000, // LDR Xt, [Xn]
        0b10 => 0xb980_0000, // LDRSW Xt, [Xn]
        _ => return Ok(Meaning::Nothing),
    };
    if rt == 31 {
        return Err(Refused::NeedsRegister);
    }
    let value = at.wrapping_add_signed(signed(word, 5, 19) * 4);
    let word = load | rt << 5 | rt;
    Ok(Meaning::Load { word, value })
}
