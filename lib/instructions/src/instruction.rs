//! An instruction, as code that follows the flow of a program sees it.

use crate::effects::{Effects, Flags};
use hanok_decode::aarch32::Sensitive;
use hanok_decode::aarch32::{Condition, ItState};
use hanok_decode::aarch32::{Encoding, Isa};
use hanok_decode::aarch32::{Register, Registers};

/// A place, by its distance from the instruction that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Relative {
    /// The distance in bytes from the instruction's own address. The pipeline's 8 or 4 are
    /// included.
    pub offset: i32,
    /// Whether the instruction's address is first rounded down to a multiple of four, as in T32
    /// instructions that use `Align(PC, 4)`.
    pub aligned: bool,
}

impl Relative {
    /// The place's address, for an instruction at `address`. The sum wraps, as the PC does.
    pub const fn from(self, address: u32) -> u32 {
        let base = if self.aligned { address & !3 } else { address };
        base.wrapping_add_signed(self.offset)
    }
}

/// The content of a jump table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// TBB: bytes, each half of the distance from the PC.
    Bytes,
    /// TBH: halfwords, each half of the distance from the PC.
    Halfwords,
    /// `ldr pc, [base, index, lsl #2]`: addresses.
    Addresses,
    /// `add pc, pc, index, lsl #2`: instructions, mostly branches.
    Code,
}

/// A jump through a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// The content of the table.
    pub kind: TableKind,
    /// The register that the table's address is computed from.
    pub base: Register,
    /// The register that selects the entry.
    pub index: Register,
    /// The number of bits by which the index is shifted left.
    pub shift: u8,
    /// The table's address, if the base is the PC.
    pub at: Option<Relative>,
}

/// An exception that an instruction causes on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exception {
    /// SVC, with its number.
    Supervisor(u32),
    /// HVC.
    Hypervisor,
    /// SMC.
    Monitor,
    /// BKPT, with its number.
    Breakpoint(u16),
    /// UDF, and every undefined instruction.
    Undefined,
}

/// Where execution goes on. All but [`Self::Next`] may depend on the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// At the next instruction.
    Next,
    /// At `target`, in the same instruction set.
    Jump {
        /// The target.
        target: Relative,
        /// Whether the jump also depends on a register (CBZ, CBNZ), besides the condition.
        by_register: bool,
    },
    /// BL, BLX: at `target`, and perhaps back.
    Call {
        /// The target.
        target: Relative,
        /// The instruction set at the target.
        isa: Isa,
    },
    /// BLX: at the address in a register, and perhaps back.
    CallRegister(Register),
    /// BX, BXJ, MOV PC: at the address in a register.
    Register(Register),
    /// LDR PC, POP and LDM with the PC: at the address in a word of memory.
    /// [`Instruction::reference`] names the word where its place is known.
    Loaded,
    /// At the address from an entry of a table.
    Table(Table),
    /// At the address from a calculation.
    Computed,
    /// After an exception return.
    Return,
    /// In an exception's handler, and mostly back.
    Exception(Exception),
}

/// What an instruction does with a place that it names by the PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It loads this number of bytes.
    Load(u8),
    /// It stores this number of bytes.
    Store(u8),
    /// It takes the address (ADR).
    Address,
    /// It preloads the place (PLD, PLI).
    Preload,
}

/// A place that an instruction names by the PC and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// What the instruction does with the place.
    pub used: Use,
    /// The place.
    pub at: Relative,
}

/// Whether the architecture defines what an encoding does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Definition {
    /// It is defined, as far as the decoder checks. All VFP and Advanced SIMD encodings count as
    /// defined, and only the commonest wrong operands are detected.
    Defined,
    /// It is UNPREDICTABLE, or a fixed field has a wrong value.
    Unpredictable,
    /// It is UNDEFINED, or not part of ARMv7-A.
    Undefined,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The encoding.
    pub encoding: Encoding,
    /// The condition under which it is executed.
    pub condition: Condition,
    /// Whether the architecture defines it.
    pub definition: Definition,
    /// Where execution goes on.
    pub flow: Flow,
    /// The place that it names by the PC, if it names one.
    pub reference: Option<Reference>,
    /// What it reads and writes. An undefined instruction has [`Effects::UNKNOWN`]. An
    /// UNPREDICTABLE one has the effects of its form, which cannot be relied on.
    pub effects: Effects,
    /// The IT block that it opens; none unless it is IT.
    pub opens: ItState,
    /// Its meaning, if it is a sensitive instruction.
    pub sensitive: Option<Sensitive>,
}

impl Instruction {
    /// The length in bytes.
    pub const fn bytes(&self) -> u32 {
        self.encoding.bytes()
    }

    /// The IT state after it, where `it` was the one before. Where execution goes elsewhere there
    /// is none.
    pub const fn it_after(&self, it: ItState) -> ItState {
        if self.opens.is_inside() {
            self.opens
        } else {
            it.next()
        }
    }

    /// Whether execution may go on right behind it without returning from elsewhere.
    pub const fn falls_through(&self) -> bool {
        match self.flow {
            Flow::Next
            | Flow::Jump {
                by_register: true, ..
            } => true,
            _ => !self.condition.is_always(),
        }
    }

    /// Whether execution may return right behind it, as from calls and from exceptions that are
    /// handled.
    pub const fn comes_back(&self) -> bool {
        match self.flow {
            Flow::Call { .. } | Flow::CallRegister(_) => true,
            Flow::Exception(exception) => !matches!(exception, Exception::Undefined),
            _ => false,
        }
    }

    /// The address that it jumps to or calls, if the instruction itself contains it.
    pub const fn target(&self, address: u32) -> Option<u32> {
        match self.flow {
            Flow::Jump { target, .. } | Flow::Call { target, .. } => Some(target.from(address)),
            _ => None,
        }
    }

    /// The registers whose old value is certainly lost after it.
    pub const fn kills(&self) -> Registers {
        if self.is_certain() {
            self.effects.sets
        } else {
            Registers::NONE
        }
    }

    /// The flags whose old value is certainly lost after it.
    pub const fn kills_flags(&self) -> Flags {
        if self.is_certain() {
            self.effects.flags_set
        } else {
            Flags::NONE
        }
    }

    /// Whether it is certainly executed as the manual says.
    const fn is_certain(&self) -> bool {
        self.condition.is_always() && matches!(self.definition, Definition::Defined)
    }
}
