//! Decodes all T32 instructions (DDI 0406C A6).

mod control;
mod data;
mod memory;
mod narrow;
mod wide;

use crate::effects::Flags;
use crate::instruction::Instruction;
use crate::parts::Parts;
use hanok_decode::aarch32::Encoding;
use hanok_decode::aarch32::sensitive_t32;
use hanok_decode::aarch32::{Condition, ItState};

/// The distance in bytes from an instruction to the PC that it reads (A2.3).
const PIPELINE: i32 = 4;

/// Decodes the T32 instruction that begins with the halfword `first`. `second` is the halfword
/// behind it, which matters only if the instruction has two
/// ([`is_wide`](hanok_decode::aarch32::is_wide)). `it` is its place in an IT block. Every input has
/// a result.
pub fn decode_t32(first: u16, second: u16, it: ItState) -> Instruction {
    let encoding = Encoding::t32(first, second);
    let sensitive = sensitive_t32(first, second, it);
    let (parts, own) = match (&sensitive, encoding) {
        (Some(found), _) => (Parts::sensitive(found, PIPELINE), None),
        (None, Encoding::Wide(both)) => wide::decode(both),
        (None, _) => narrow::decode(first, it),
    };
    // A conditional branch cannot stand in a block; BKPT does not depend on one.
    let condition = own.unwrap_or(it.condition());
    let opens = narrow::opens(first);
    let misplaced = it.is_inside() && (own.is_some() || opens.is_inside());
    let parts = parts.provided(!misplaced);
    Instruction {
        encoding,
        condition,
        definition: parts.definition,
        flow: parts.flow,
        reference: parts.reference,
        effects: parts.effects.reading_flags(Flags::read_by(condition)),
        opens,
        sensitive,
    }
}

/// The parts of an instruction, and its own condition if it has one.
type Decoded = (Parts, Option<Condition>);
