//! Branches and exception generation (DDI 0487 C4.1).

use super::{Found, Meaning, bit, field, same, signed, system};
use crate::Refused;

/// The link register.
const LINK: u32 = 30;

/// "Branches, Exception Generating and System instructions".
pub(super) fn decode(word: u32, at: u64, guarded: bool) -> Found {
    let to = |lowest, bits| at.wrapping_add_signed(signed(word, lowest, bits) * 4);
    match field(word, 24, 8) {
        0x14..=0x17 => Ok(Meaning::Branch(to(0, 26))),
        0x94..=0x97 => Ok(Meaning::Call(to(0, 26))),
        0x34 | 0x35 | 0xb4 | 0xb5 => Ok(skip(word ^ 1 << 24, 0x7_ffff, to(5, 19))),
        0x36 | 0x37 | 0xb6 | 0xb7 => Ok(skip(word ^ 1 << 24, 0x3fff, to(5, 14))),
        // Its conditions 0b1110 and 0b1111 are both always.
        0x54 if field(word, 1, 3) == 0b111 => Ok(Meaning::Branch(to(5, 19))),
        0x54 => Ok(skip(word ^ 1, 0x7_ffff, to(5, 19))),
        0xd4 => Err(Refused::Exception),
        0xd5 => system::decode(word, guarded),
        0xd6 | 0xd7 => register(word),
        _ => Err(Refused::Unknown),
    }
}

/// The branch `word`, already with the inverse condition, over the next word.
const fn skip(word: u32, mask: u32, target: u64) -> Meaning {
    let word = word & !(mask << 5) | 2 << 5;
    Meaning::Skip { word, target }
}

/// "Unconditional branch (register)". Returns from exceptions, too, do the same anywhere: they go
/// to ELR, and never come back.
fn register(word: u32) -> Found {
    let (rn, rm) = (field(word, 5, 5), field(word, 0, 5));
    let authenticated = match field(word, 10, 6) {
        0b000000 => false,
        0b000010 | 0b000011 => true,
        _ => return Err(Refused::Unknown),
    };
    if field(word, 16, 5) != 31 {
        return Err(Refused::Unknown);
    }
    let plain = rm == if authenticated { 31 } else { 0 };
    match field(word, 21, 4) {
        0b0000 => same(plain),
        0b0001 if plain => call(word, rn == LINK),
        0b0010 => same(plain && (rn == 31 || !authenticated)),
        0b0100 => same(plain && rn == 31),
        0b1000 => same(authenticated),
        0b1001 if authenticated => call(word, rn == LINK || rm == LINK),
        _ => Err(Refused::Unknown),
    }
}

/// A call: LR is set first, and then the word without its bit for linking branches. It must not read
/// LR itself.
fn call(word: u32, reads_link: bool) -> Found {
    debug_assert!(bit(word, 21));
    if reads_link {
        Err(Refused::NeedsRegister)
    } else {
        Ok(Meaning::CallRegister(word & !(1 << 21)))
    }
}
