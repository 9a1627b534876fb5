//! Instructions as rows of a table: those that differ in nothing that matters here.

use super::{Found, same};

/// Fields of four bits, by their place in the word.
pub(super) const M: u8 = 1 << 0;
pub(super) const S: u8 = 1 << 2;
pub(super) const D: u8 = 1 << 3;
pub(super) const N: u8 = 1 << 4;

/// In place of fields: no instruction, in the midst of those of a later row.
pub(super) const NONE: u8 = 1 << 7;

/// An instruction that does the same anywhere.
pub(super) struct Row {
    /// The fixed bits.
    pub(super) mask: u32,
    /// Their values.
    pub(super) bits: u32,
    /// The fields that are registers and must not be the PC.
    pub(super) registers: u8,
}

/// A row.
pub(super) const fn row(mask: u32, bits: u32, registers: u8) -> Row {
    Row {
        mask,
        bits,
        registers,
    }
}

/// Whether one of these fields is the PC.
pub(super) fn has_pc(word: u32, fields: u8) -> bool {
    let of = |number: u32| fields >> number & 1 == 1 && word >> (4 * number) & 0xf == 0xf;
    (0..8).any(of)
}

/// What the first row that matches says of a word.
pub(super) fn look_up(rows: &[Row], word: u32) -> Found {
    let found = rows.iter().find(|row| word & row.mask == row.bits);
    same(found.is_some_and(|row| row.registers != NONE && !has_pc(word, row.registers)))
}
