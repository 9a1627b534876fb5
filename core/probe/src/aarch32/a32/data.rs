//! Data processing (DDI 0406C A5.2.1 to A5.2.3).

use crate::Refused;
use crate::aarch32::rows::{D, M, N, S, has_pc};
use crate::aarch32::{Found, Meaning, PC, bit, field, same, with};
use hanok_decode::aarch32::Encoding;

/// ADD without flags, of two registers, the second one not shifted; and its fixed bits.
const PLAIN_ADD: (u32, u32) = (0x0080_0000, 0x0ff0_0ff0);

/// A data-processing instruction, whatever its second operand is.
pub(super) fn decode(word: u32, pc: u32) -> Found {
    let constant = bit(word, 25);
    let operation = field(word, 21, 4);
    let (rn, rd) = (field(word, 16, 4), field(word, 12, 4));
    let tests = matches!(operation, 0b1000..=0b1011);
    let moves = matches!(operation, 0b1101 | 0b1111);
    if moves && rn != 0 || tests && rd != 0 {
        return Err(Refused::Unknown);
    }
    if !constant && bit(word, 4) {
        return same(!has_pc(word, M | S | D | N));
    }
    let first = if moves { 0 } else { N };
    let second = if constant { 0 } else { M };
    if !has_pc(word, first | second) {
        return Ok(Meaning::Same);
    }
    // The destination takes the place of the PC.
    if tests || rd == PC {
        return Err(Refused::NeedsRegister);
    }
    let holds = |field_of: u8, lowest| field_of != 0 && field(word, lowest, 4) == rd;
    if holds(first, 16) || holds(second, 0) {
        return own_operand(word, rd, pc);
    }
    let then = substitute(substitute(word, first, 16, rd), second, 0, rd);
    with(rd, pc, Encoding::A32(then))
}

/// The word with the register `rd` in the place of the PC, if `present` says that the field is an
/// operand.
const fn substitute(word: u32, present: u8, lowest: u32, rd: u32) -> u32 {
    if present == 0 || field(word, lowest, 4) != PC {
        return word;
    }
    word & !(0xf << lowest) | rd << lowest
}

/// An operation of the PC and the destination's old value: only the plain addition needs no other
/// register.
const fn own_operand(word: u32, rd: u32, pc: u32) -> Found {
    if word & PLAIN_ADD.1 != PLAIN_ADD.0 || rd == crate::aarch32::SP {
        return Err(Refused::NeedsRegister);
    }
    Ok(Meaning::Add {
        register: rd,
        value: pc,
    })
}
