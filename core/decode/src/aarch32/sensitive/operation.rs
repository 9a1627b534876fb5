//! What a sensitive instruction is, with its operands.

use super::coprocessor::Coprocessor;
use crate::aarch32::registers::{Register, Registers};
use bitfield_struct::bitfield;
use hanok_types::Width;

/// A program status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// CPSR.
    Current,
    /// SPSR of the mode.
    Saved,
}

/// Which bytes of a status register MSR writes.
#[bitfield(u8)]
#[derive(PartialEq, Eq, Hash)]
pub struct Fields {
    /// Bits 7 to 0: mode, T, F and I.
    pub control: bool,
    /// Bits 15 to 8: A, E and a part of IT.
    pub extension: bool,
    /// Bits 23 to 16: GE.
    pub status: bool,
    /// Bits 31 to 24: N, Z, C, V, Q, J and a part of IT.
    pub flags: bool,
    #[bits(4)]
    __: u8,
}

/// CPS: enables or disables exceptions, and may change the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeState {
    /// Whether the exceptions named are enabled (CPSIE); `None` where only the mode changes.
    pub enable: Option<bool>,
    /// A: asynchronous aborts.
    pub aborts: bool,
    /// I: IRQs.
    pub irqs: bool,
    /// F: FIQs.
    pub fiqs: bool,
    /// The new mode, five bits.
    pub mode: Option<u8>,
}

/// A register of another mode, of MRS and MSR of the Virtualization Extensions (DDI 0406C
/// B9.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Banked {
    /// R: an SPSR; else a core register.
    pub saved_status: bool,
    /// SYSm: which mode's and which register.
    pub system_mode: u8,
}

impl Banked {
    /// Whether there is such a register (B9.2.3, tables B9-1 and B9-2).
    pub const fn is_defined(self) -> bool {
        match (self.saved_status, self.system_mode) {
            (false, mode) => matches!(mode, 0..=6 | 8..=14 | 16..=23 | 28..=31),
            (true, mode) => matches!(mode, 14 | 16 | 18 | 20 | 22 | 28 | 30),
        }
    }
}

/// How a register's value is shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShiftKind {
    /// Left.
    Lsl,
    /// Right, with zeros.
    Lsr,
    /// Right, with the sign.
    Asr,
    /// Around.
    Ror,
    /// Right by one, with the carry.
    Rrx,
}

/// A shift by a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shift {
    /// How.
    pub kind: ShiftKind,
    /// How far, 0 to 32.
    pub amount: u8,
}

impl Shift {
    /// None: left by zero.
    pub const NONE: Self = Self {
        kind: ShiftKind::Lsl,
        amount: 0,
    };

    /// From the type and the five bits of an encoding (DDI 0406C A8.4.3, DecodeImmShift).
    pub const fn from_bits(kind: u8, amount: u8) -> Self {
        let amount = amount & 0x1f;
        let full = if amount == 0 { 32 } else { amount };
        match kind & 3 {
            0 => Self {
                kind: ShiftKind::Lsl,
                amount,
            },
            1 => Self {
                kind: ShiftKind::Lsr,
                amount: full,
            },
            2 => Self {
                kind: ShiftKind::Asr,
                amount: full,
            },
            _ if amount == 0 => Self {
                kind: ShiftKind::Rrx,
                amount: 1,
            },
            _ => Self {
                kind: ShiftKind::Ror,
                amount,
            },
        }
    }

    /// Whether the value stays as it is.
    pub const fn is_none(self) -> bool {
        matches!(
            self,
            Self {
                kind: ShiftKind::Lsl,
                amount: 0
            }
        )
    }
}

/// A second operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A constant, whole.
    Immediate(u32),
    /// A register, shifted.
    Register(Register, Shift),
}

/// What is added to a base register, or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// Bytes.
    Immediate(u16),
    /// A register, shifted.
    Register(Register, Shift),
}

/// LDRT, STRT and their kind: an access with the rights of User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unprivileged {
    /// Whether a load.
    pub load: bool,
    /// How much.
    pub width: Width,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// Rt.
    pub register: Register,
    /// Rn.
    pub base: Register,
    /// U: whether the index is added; else subtracted.
    pub add: bool,
    /// By how much the base moves.
    pub index: Index,
    /// Whether the address is the base alone, and the base moves afterwards (A32); else the
    /// index is a part of the address, and the base stays (T32).
    pub post_index: bool,
}

/// A data-processing operation that writes a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the instructions' names
pub enum DataOperation {
    And,
    Eor,
    Sub,
    Rsb,
    Add,
    Adc,
    Sbc,
    Rsc,
    Orr,
    Mov,
    Bic,
    Mvn,
}

impl DataOperation {
    /// From the four bits of an A32 word; `None` of those that compare.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits & 0xf {
            0 => Self::And,
            1 => Self::Eor,
            2 => Self::Sub,
            3 => Self::Rsb,
            4 => Self::Add,
            5 => Self::Adc,
            6 => Self::Sbc,
            7 => Self::Rsc,
            12 => Self::Orr,
            13 => Self::Mov,
            14 => Self::Bic,
            15 => Self::Mvn,
            _ => return None,
        })
    }

    /// Whether there is a first operand, Rn.
    pub const fn has_first(self) -> bool {
        !matches!(self, Self::Mov | Self::Mvn)
    }

    /// Whether the carry is a part of the result.
    pub const fn reads_carry(self) -> bool {
        matches!(self, Self::Adc | Self::Sbc | Self::Rsc)
    }
}

/// From where an exception return takes the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnFrom {
    /// Data processing with S and the PC as destination: SUBS PC, LR and its kind. The shift
    /// of MOV is the instruction's own name: ASRS and so on.
    Data {
        /// Which.
        operation: DataOperation,
        /// Rn, which MOV and MVN do not have.
        first: Register,
        /// The second operand.
        second: Operand,
    },
    /// ERET, of the Virtualization Extensions.
    Eret,
}

/// An exception return: CPSR from SPSR, and a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Return {
    /// From where.
    pub from: ReturnFrom,
}

/// Which way a block of memory lies of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    /// U: upwards.
    pub up: bool,
    /// P: the address moves before each access; else after it.
    pub before: bool,
}

/// LDM or STM with a caret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Whether a load.
    pub load: bool,
    /// Rn.
    pub base: Register,
    /// Which way.
    pub direction: Direction,
    /// Whether the base is written back.
    pub write_back: bool,
    /// The list. A load with the PC in it is an exception return into registers of the mode;
    /// all others transfer registers of User mode.
    pub registers: Registers,
}

impl Block {
    /// Whether it is "LDM (exception return)".
    pub const fn is_return(&self) -> bool {
        self.load && self.registers.contains(Register::PC)
    }
}

/// RFE: PC and CPSR from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Rn.
    pub base: Register,
    /// Which way.
    pub direction: Direction,
    /// Whether the base is written back.
    pub write_back: bool,
}

/// SRS: LR and SPSR to the stack of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// Whose stack, five bits.
    pub mode: u8,
    /// Which way.
    pub direction: Direction,
    /// Whether that stack pointer is written back.
    pub write_back: bool,
}

/// Where PLDW preloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preload {
    /// Rn.
    pub base: Register,
    /// U: whether the index is added; else subtracted.
    pub add: bool,
    /// What is added.
    pub index: Index,
}

/// Instructions that only hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the instructions' names
pub enum Hint {
    Yield,
    Wfe,
    Wfi,
    Sev,
}

/// A sensitive instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// CPS.
    Cps(ChangeState),
    /// MRS.
    Mrs(Status, Register),
    /// MSR, of a register or a constant.
    Msr(Status, Fields, Operand),
    /// MRS of a register of another mode.
    MrsBanked(Banked, Register),
    /// MSR to a register of another mode.
    MsrBanked(Banked, Register),
    /// LDRT, STRT and their kind.
    Unprivileged(Unprivileged),
    /// An exception return by data processing.
    Return(Return),
    /// LDM or STM with a caret.
    Block(Block),
    /// RFE.
    Rfe(Pair),
    /// SRS.
    Srs(Store),
    /// SMC, with its four bits.
    Smc(u8),
    /// HVC, with its sixteen.
    Hvc(u16),
    /// A coprocessor instruction.
    Coprocessor(Coprocessor),
    /// YIELD, WFE, WFI or SEV.
    Hint(Hint),
    /// SETEND; whether to big-endian.
    SetEndianness(bool),
    /// PLDW, of the Multiprocessing Extensions: undefined on a Cortex-A8, which has none.
    PreloadWrite(Preload),
}
