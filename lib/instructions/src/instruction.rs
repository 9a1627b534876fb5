//! An instruction as whoever follows code sees it.

use crate::effects::{Effects, Flags};
use hanok_decode::aarch32::Sensitive;
use hanok_decode::aarch32::{Condition, ItState};
use hanok_decode::aarch32::{Encoding, Isa};
use hanok_decode::aarch32::{Register, Registers};

/// A place, by its distance from the instruction that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Relative {
    /// Bytes from the instruction's own address: the pipeline's 8 or 4 are in it.
    pub offset: i32,
    /// Whether that address is first rounded down to a multiple of four: of T32, what refers to
    /// `Align(PC, 4)`.
    pub aligned: bool,
}

impl Relative {
    /// The address, where the instruction stands at `address`. It wraps, as the PC does.
    pub const fn from(self, address: u32) -> u32 {
        let base = if self.aligned { address & !3 } else { address };
        base.wrapping_add_signed(self.offset)
    }
}

/// What a jump table holds.
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
    /// What it holds.
    pub kind: TableKind,
    /// What the table's address is taken from.
    pub base: Register,
    /// What selects the entry.
    pub index: Register,
    /// By how much that is shifted left.
    pub shift: u8,
    /// Where the table begins, if the base is the PC.
    pub at: Option<Relative>,
}

/// An exception that an instruction asks for.
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
    /// UDF and whatever is undefined.
    Undefined,
}

/// Where execution goes on. All but [`Self::Next`] may depend on the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// After the instruction.
    Next,
    /// There, in the same instruction set.
    Jump {
        /// Where.
        target: Relative,
        /// Whether that depends on a register (CBZ, CBNZ), beside the condition.
        by_register: bool,
    },
    /// There, and perhaps back: BL, BLX.
    Call {
        /// Where.
        target: Relative,
        /// The instruction set there.
        isa: Isa,
    },
    /// Where a register says, and perhaps back: BLX.
    CallRegister(Register),
    /// Where a register says: BX, BXJ, MOV PC.
    Register(Register),
    /// Where a word in memory says: LDR PC, POP and LDM with the PC. The word's own place is
    /// [`Instruction::reference`] where it is known.
    Loaded,
    /// Where an entry of a table says.
    Table(Table),
    /// Where a calculation says.
    Computed,
    /// An exception return.
    Return,
    /// Into an exception's handler, and mostly back.
    Exception(Exception),
}

/// What is done with a place that an instruction names by the PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It is loaded, so many bytes.
    Load(u8),
    /// It is stored to, so many bytes.
    Store(u8),
    /// Its address is taken (ADR).
    Address,
    /// It is preloaded (PLD, PLI).
    Preload,
}

/// A place that an instruction names by the PC and a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// What is done with it.
    pub used: Use,
    /// Where.
    pub at: Relative,
}

/// Whether the architecture says what an encoding does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Definition {
    /// It does, as far as is looked at: of VFP and Advanced SIMD all encodings count as
    /// defined, and of operands only the commonest faults are seen.
    Defined,
    /// UNPREDICTABLE, or a fixed field is not as it should be.
    Unpredictable,
    /// UNDEFINED, or not of ARMv7-A.
    Undefined,
}

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its bits.
    pub encoding: Encoding,
    /// When it is executed.
    pub condition: Condition,
    /// Whether it is one.
    pub definition: Definition,
    /// Where execution goes on.
    pub flow: Flow,
    /// A place that it names.
    pub reference: Option<Reference>,
    /// What it reads and writes: of what is undefined everything ([`Effects::UNKNOWN`]), of what
    /// is UNPREDICTABLE what its form says, on which nobody can rely.
    pub effects: Effects,
    /// The block that it opens, of IT; else none.
    pub opens: ItState,
    /// What it is, if it is a sensitive one.
    pub sensitive: Option<Sensitive>,
}

impl Instruction {
    /// How many bytes it takes.
    pub const fn bytes(&self) -> u32 {
        self.encoding.bytes()
    }

    /// The IT state after it, where `it` was the one before. Where it goes elsewhere there is
    /// none.
    pub const fn it_after(&self, it: ItState) -> ItState {
        if self.opens.is_inside() {
            self.opens
        } else {
            it.next()
        }
    }

    /// Whether execution may go on right after it without having come back from elsewhere.
    pub const fn falls_through(&self) -> bool {
        match self.flow {
            Flow::Next
            | Flow::Jump {
                by_register: true, ..
            } => true,
            _ => !self.condition.is_always(),
        }
    }

    /// Whether execution may come back to right after it, as it does from calls and from
    /// exceptions that are answered.
    pub const fn comes_back(&self) -> bool {
        match self.flow {
            Flow::Call { .. } | Flow::CallRegister(_) => true,
            Flow::Exception(exception) => !matches!(exception, Exception::Undefined),
            _ => false,
        }
    }

    /// The address that it jumps to or calls, where it says so itself.
    pub const fn target(&self, address: u32) -> Option<u32> {
        match self.flow {
            Flow::Jump { target, .. } | Flow::Call { target, .. } => Some(target.from(address)),
            _ => None,
        }
    }

    /// Registers of which nothing of the old value is left behind it, for certain.
    pub const fn kills(&self) -> Registers {
        if self.is_certain() {
            self.effects.sets
        } else {
            Registers::NONE
        }
    }

    /// Flags of which nothing of the old value is left behind it, for certain.
    pub const fn kills_flags(&self) -> Flags {
        if self.is_certain() {
            self.effects.flags_set
        } else {
            Flags::NONE
        }
    }

    /// Whether it is executed, and as the manual says.
    const fn is_certain(&self) -> bool {
        self.condition.is_always() && matches!(self.definition, Definition::Defined)
    }
}
