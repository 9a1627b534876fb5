//! A32: which media instructions are defined (DDI 0406C, A5.4). None of them leaves the flow.

use super::step::{Found, bit};

/// The flow of a media instruction.
pub(super) fn flow(word: u32) -> Found {
    let (op1, op2) = (word >> 20 & 0x1f, word >> 5 & 0b111);
    Found::defined(match op1 {
        0b00000..=0b00111 => op1 & 0b11 != 0 && !matches!(op2, 5 | 6),
        0b01000..=0b01111 => packs(op1 & 0b111, op2),
        0b10000..=0b10111 => multiplies(op1 & 0b111, op2),
        0b11000 => op2 == 0,
        0b11010 | 0b11011 | 0b11110 | 0b11111 => op2 & 0b11 == 0b10,
        0b11100 | 0b11101 => op2 & 0b11 == 0b00,
        _ => false,
    })
}

/// Packing, saturation, extension, reversal (A5.4.3).
fn packs(op1: u32, op2: u32) -> bool {
    let even = !bit(op2, 0);
    match op1 {
        0b000 => even || matches!(op2, 3 | 5),
        0b010 | 0b110 => even || matches!(op2, 1 | 3),
        0b011 | 0b111 => even || matches!(op2, 1 | 3 | 5),
        0b100 => op2 == 3,
        _ => false,
    }
}

/// Signed multiplication and division (A5.4.4).
fn multiplies(op1: u32, op2: u32) -> bool {
    match op1 {
        0b000 | 0b100 => op2 < 4,
        0b001 | 0b011 => op2 == 0,
        0b101 => matches!(op2, 0 | 1 | 6 | 7),
        _ => false,
    }
}
