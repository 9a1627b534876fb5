//! Data processing (DDI 0487 C4.1).

use super::{Found, Meaning, bit, field, same, signed};
use crate::Refused;

/// "Data Processing -- Immediate".
pub(super) fn immediate(word: u32, at: u64) -> Found {
    let wide = bit(word, 31);
    let matches_width = bit(word, 22) == wide;
    match field(word, 23, 3) {
        0b000 | 0b001 => Ok(address(word, at)),
        0b010 => Ok(Meaning::Same),
        0b100 => same(is_mask(word)),
        0b101 => same(field(word, 29, 2) != 1 && (wide || !bit(word, 22))),
        0b110 => {
            let fits = wide || !(bit(word, 21) || bit(word, 15));
            same(field(word, 29, 2) != 3 && matches_width && fits)
        }
        0b111 => {
            let plain = field(word, 29, 2) == 0 && !bit(word, 21);
            same(plain && matches_width && (wide || !bit(word, 15)))
        }
        _ => Err(Refused::Unknown),
    }
}

/// ADR and ADRP.
fn address(word: u32, at: u64) -> Meaning {
    let offset = signed(word, 5, 19) << 2 | i64::from(field(word, 29, 2));
    let value = if bit(word, 31) {
        (at & !0xfff).wrapping_add_signed(offset << 12)
    } else {
        at.wrapping_add_signed(offset)
    };
    Meaning::Address {
        register: field(word, 0, 5),
        value,
    }
}

/// Whether the fields of a logical operation are a mask (DecodeBitMasks).
const fn is_mask(word: u32) -> bool {
    let (n, ones) = (field(word, 22, 1), field(word, 10, 6));
    if n == 1 && !bit(word, 31) {
        return false;
    }
    let sizes = n << 6 | (!ones & 0x3f);
    if sizes < 2 {
        return false;
    }
    let levels = (1 << (31 - sizes.leading_zeros())) - 1;
    ones & levels != levels
}

/// "Data Processing -- Register".
pub(super) fn register(word: u32) -> Found {
    if bit(word, 28) {
        return match field(word, 21, 4) {
            0b0000 => same(carry(word)),
            0b0010 => same(bit(word, 29) && !bit(word, 10) && !bit(word, 4)),
            0b0100 => same(!bit(word, 29) && !bit(word, 11)),
            0b0110 if bit(word, 29) => Err(Refused::Unknown),
            0b0110 if bit(word, 30) => same(one_source(word)),
            0b0110 => same(two_sources(word)),
            0b1000..=0b1111 => same(three_sources(word)),
            _ => Err(Refused::Unknown),
        };
    }
    let fits = bit(word, 31) || !bit(word, 15);
    match (bit(word, 24), bit(word, 21)) {
        (false, _) => same(fits),
        (true, false) => same(fits && field(word, 22, 2) != 3),
        (true, true) => same(field(word, 22, 2) == 0 && field(word, 10, 3) <= 4),
    }
}

/// ADC and SBC; RMIF; SETF8 and SETF16.
const fn carry(word: u32) -> bool {
    let set = word & 0xffff_bc1f == 0x3a00_080d;
    field(word, 10, 6) == 0 || word & 0xffe0_7c10 == 0xba00_0400 || set
}

/// Divisions, shifts, CRC32 and PACGA.
const fn two_sources(word: u32) -> bool {
    let wide = bit(word, 31);
    match field(word, 10, 6) {
        0b000010 | 0b000011 | 0b001000..=0b001011 => true,
        0b010011 | 0b010111 => wide,
        0b010000..=0b010010 | 0b010100..=0b010110 => !wide,
        0b001100 => wide,
        _ => false,
    }
}

/// Reversals and counts; PAC, AUT and XPAC, whose forms without a modifier have no Rn.
const fn one_source(word: u32) -> bool {
    let wide = bit(word, 31);
    match (field(word, 16, 5), field(word, 10, 6)) {
        (0, 0b000011) => wide,
        (0, 0b000000..=0b000101) => true,
        (1, 0b000000..=0b000111) => wide,
        (1, 0b001000..=0b010001) => wide && field(word, 5, 5) == 31,
        _ => false,
    }
}

/// Multiplications.
const fn three_sources(word: u32) -> bool {
    let (wide, negated) = (bit(word, 31), bit(word, 15));
    let known = match field(word, 21, 3) {
        0b000 => true,
        0b001 | 0b101 => wide,
        0b010 | 0b110 => wide && !negated,
        _ => false,
    };
    known && field(word, 29, 2) == 0
}
