//! Indirect branches: what writes the PC from a register or from memory, and is no sensitive
//! instruction. A hypervisor that may not let a guest's flow go to an unknown place carries them
//! out itself.
//!
//! A form that the manual calls UNPREDICTABLE is found as well if a CPU may execute it as a branch
//! ([`IndirectBranch::as_it_should_be`] is clear then). Not found is what has the PC as a
//! destination, is UNPREDICTABLE for this reason alone (DDI 0406C, the instructions' sections in
//! A8.8), and belongs to no kind of instruction that branches: multiplication, media, CLZ,
//! saturating addition, MOVW and MOVT, swaps and exclusive loads, VMOV to core registers; in T32
//! also LDRD and data processing of two halfwords. A guest that executes one of these may go
//! anywhere on a CPU of its own, too.

mod a32;
mod t32;

use super::condition::{Condition, ItState};
use super::encoding::Encoding;
use super::load_store::{Addressing, load_store};
use super::registers::Register;
use super::sensitive::{Block, DataOperation, Operand};

/// A branch to a place that the instruction does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectBranch {
    /// The instruction's bits.
    pub encoding: Encoding,
    /// The condition under which it executes.
    pub condition: Condition,
    /// Where it goes.
    pub target: Target,
    /// Whether the manual defines the instruction: its fixed fields are as they should be, and
    /// neither its operands nor its place in an IT block make it UNPREDICTABLE.
    pub as_it_should_be: bool,
}

/// The source of a branch's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// BX; BXJ, which is BX where there is no Jazelle (DDI 0406C, A8.8.28).
    Exchange(Register),
    /// BLX: the same, and LR becomes the address of the next instruction.
    Call(Register),
    /// Data processing that sets no flags.
    Data {
        /// The operation.
        operation: DataOperation,
        /// Rn, which MOV and MVN do not have.
        first: Register,
        /// The second operand.
        second: Operand,
    },
    /// LDR of a word. A base that is the PC is rounded down to a multiple of four.
    Load(Addressing),
    /// LDM and POP without a caret; the list has the PC.
    Block(Block),
    /// TBB and TBH: the PC plus twice an entry of a table.
    Table {
        /// Rn: the table's address.
        base: Register,
        /// Rm: the entry's number.
        index: Register,
        /// Whether entries are halfwords; else they are bytes.
        halfwords: bool,
    },
    /// A form that is always UNPREDICTABLE: a shift by a register, or a load of less or more than a
    /// word.
    Forbidden,
}

/// What an encoding is, and whether its fixed fields and operands are as they should be.
type Found = Option<(Target, bool)>;

/// The indirect branch with this encoding; `None` if it is none, or if it is sensitive. `it` is the
/// place of a T32 instruction in an IT block, where a branch may only stand at the end.
pub fn indirect(encoding: Encoding, it: ItState) -> Option<IndirectBranch> {
    let (condition, (target, right)) = match encoding {
        Encoding::A32(word) => (Condition::from_bits((word >> 28) as u8), a32::decode(word)?),
        Encoding::Narrow(half) => (it.condition(), t32::narrow(half)?),
        Encoding::Wide(both) => (it.condition(), t32::wide(both)?),
    };
    let may_stand = match encoding {
        Encoding::A32(_) => true,
        _ => !it.is_inside() || it.is_last(),
    };
    Some(IndirectBranch {
        encoding,
        condition,
        target,
        as_it_should_be: right && may_stand,
    })
}

/// LDR of the PC.
fn load(encoding: Encoding, right: bool) -> Found {
    Some(match load_store(encoding, ItState::NONE) {
        Some(found) => (Target::Load(found.address), right),
        None => (Target::Forbidden, false),
    })
}
