//! T32: which data processing of two halfwords is defined (DDI 0406C, A6.3.1, A6.3.3, A6.3.11 to
//! A6.3.17). None of it writes the PC.

use super::step::{Found, PC, bit, register};

/// Data processing with a shifted register.
pub(super) fn shifted(both: u32) -> Found {
    // PKHBT and PKHTB.
    if both >> 21 & 0xf == 0b0110 {
        return Found::defined(!bit(both, 20) && !bit(both, 4));
    }
    constant(both)
}

/// Data processing with a constant of eight bits.
pub(super) fn constant(both: u32) -> Found {
    let operation = both >> 21 & 0xf;
    Found::defined(matches!(operation, 0..=4 | 8 | 0xa | 0xb | 0xd | 0xe))
}

/// Data processing with a plain constant, and bit fields.
pub(super) fn plain(both: u32) -> Found {
    let operation = both >> 20 & 0x1f;
    let odd = bit(operation, 0);
    Found::defined(!odd && !matches!(operation >> 1, 1 | 3 | 4 | 7 | 15))
}

/// Data processing and multiplication of registers.
pub(super) fn registers(both: u32) -> Found {
    let (op1, op2) = (both >> 20 & 0b111, both >> 4 & 0xf);
    Found::defined(match both >> 23 & 0b11 {
        0b00 | 0b01 if register(both, 12) != PC => false,
        0b00 => op2 == 0 || op2 >= 8 && op1 <= 5,
        0b01 => parallel(op1, op2),
        0b10 => multiplies(op1, op2),
        _ => multiplies_long(op1, op2),
    })
}

/// A6.3.13 to A6.3.15.
fn parallel(op1: u32, op2: u32) -> bool {
    match (op1, op2) {
        (0b011 | 0b111, 0..=7) => false,
        (_, 0..=7) => op2 & 0b11 != 0b11,
        (0b000 | 0b001, _) => op2 < 12,
        (0b010 | 0b011, _) => op2 == 8,
        _ => false,
    }
}

/// A6.3.16.
fn multiplies(op1: u32, op2: u32) -> bool {
    match op1 {
        0b001 => op2 < 4,
        0b111 => op2 == 0,
        _ => op2 < 2,
    }
}

/// A6.3.17.
fn multiplies_long(op1: u32, op2: u32) -> bool {
    match op1 {
        0b000 | 0b010 => op2 == 0,
        0b001 | 0b011 => op2 == 15,
        0b100 => matches!(op2, 0 | 8..=13),
        0b101 => matches!(op2, 12 | 13),
        0b110 => matches!(op2, 0 | 6),
        _ => false,
    }
}
