//! The operations of sensitive instructions, with their operands.

use super::coprocessor::Coprocessor;
use crate::aarch32::registers::{Register, Registers};
use bitfield_struct::bitfield;
use hanok_types::Width;

/// A program status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// CPSR.
    Current,
    /// SPSR of the current mode.
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
    /// Whether the exceptions below are enabled (CPSIE) or disabled (CPSID); `None` if only the
    /// mode changes.
    pub enable: Option<bool>,
    /// A: whether this concerns asynchronous aborts.
    pub aborts: bool,
    /// I: whether this concerns IRQs.
    pub irqs: bool,
    /// F: whether this concerns FIQs.
    pub fiqs: bool,
    /// The new mode, five bits, if the instruction changes the mode.
    pub mode: Option<u8>,
}

/// A register of another mode, the operand of MRS and MSR of the Virtualization Extensions (DDI
/// 0406C B9.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Banked {
    /// R: whether the register is an SPSR; else it is a core register.
    pub saved_status: bool,
    /// SYSm: the mode and the register.
    pub system_mode: u8,
}

impl Banked {
    /// Whether this register exists (B9.2.3, tables B9-1 and B9-2).
    pub const fn is_defined(self) -> bool {
        match (self.saved_status, self.system_mode) {
            (false, mode) => matches!(mode, 0..=6 | 8..=14 | 16..=23 | 28..=31),
            (true, mode) => matches!(mode, 14 | 16 | 18 | 20 | 22 | 28 | 30),
        }
    }
}

/// The kinds of shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShiftKind {
    /// To the left.
    Lsl,
    /// To the right, filled with zeros.
    Lsr,
    /// To the right, filled with the sign.
    Asr,
    /// A rotation to the right.
    Ror,
    /// A rotation to the right by one bit, through the carry.
    Rrx,
}

/// A shift by a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shift {
    /// The kind of shift.
    pub kind: ShiftKind,
    /// The number of bits, 0 to 32.
    pub amount: u8,
}

impl Shift {
    /// No shift: to the left by zero.
    pub const NONE: Self = Self {
        kind: ShiftKind::Lsl,
        amount: 0,
    };

    /// The shift that the type and the five bits of an encoding mean (DDI 0406C A8.4.3,
    /// DecodeImmShift).
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

    /// Whether the shift leaves a value unchanged.
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
    /// A constant, expanded to 32 bits.
    Immediate(u32),
    /// A register, shifted.
    Register(Register, Shift),
}

/// The amount that is added to a base register or subtracted from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// A number of bytes.
    Immediate(u16),
    /// A register, shifted.
    Register(Register, Shift),
}

/// LDRT, STRT and the other accesses with the rights of User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unprivileged {
    /// Whether the instruction is a load.
    pub load: bool,
    /// The width of the access.
    pub width: Width,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// Rt.
    pub register: Register,
    /// Rn.
    pub base: Register,
    /// U: whether the index is added; else it is subtracted.
    pub add: bool,
    /// The amount by which the base changes.
    pub index: Index,
    /// Whether the address is the base alone and the base changes afterwards (A32). Else the index
    /// is a part of the address, and the base stays (T32).
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
    /// The operation with these four bits of an A32 word; `None` for the comparisons.
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

    /// Whether the operation has a first operand, Rn.
    pub const fn has_first(self) -> bool {
        !matches!(self, Self::Mov | Self::Mvn)
    }

    /// Whether the result depends on the carry.
    pub const fn reads_carry(self) -> bool {
        matches!(self, Self::Adc | Self::Sbc | Self::Rsc)
    }
}

/// The source of an exception return's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnFrom {
    /// Data processing that sets flags and has the PC as destination: SUBS PC, LR and so on. A MOV
    /// with a shift has a name of its own: ASRS and so on.
    Data {
        /// The operation.
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
    /// The source of the address.
    pub from: ReturnFrom,
}

/// How the addresses of a block of memory follow from its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    /// U: whether the addresses ascend from the base.
    pub up: bool,
    /// P: whether the address changes before each access; else it changes afterwards.
    pub before: bool,
}

/// LDM or STM with a caret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Whether the instruction is a load.
    pub load: bool,
    /// Rn.
    pub base: Register,
    /// How the addresses follow from the base.
    pub direction: Direction,
    /// Whether the base is written back.
    pub write_back: bool,
    /// The list. A load whose list has the PC is an exception return, and loads registers of the
    /// current mode; all others transfer registers of User mode.
    pub registers: Registers,
}

impl Block {
    /// Whether this is "LDM (exception return)".
    pub const fn is_return(&self) -> bool {
        self.load && self.registers.contains(Register::PC)
    }
}

/// RFE: loads PC and CPSR from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Rn.
    pub base: Register,
    /// How the addresses follow from the base.
    pub direction: Direction,
    /// Whether the base is written back.
    pub write_back: bool,
}

/// SRS: stores LR and SPSR to the stack of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The mode that the stack belongs to, five bits.
    pub mode: u8,
    /// How the addresses follow from that stack pointer.
    pub direction: Direction,
    /// Whether that stack pointer is written back.
    pub write_back: bool,
}

/// The address of a PLDW.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preload {
    /// Rn.
    pub base: Register,
    /// U: whether the index is added; else it is subtracted.
    pub add: bool,
    /// The amount that is added or subtracted.
    pub index: Index,
}

/// Hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the instructions' names
pub enum Hint {
    Yield,
    Wfe,
    Wfi,
    Sev,
}

/// The operation of a sensitive instruction, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// CPS.
    Cps(ChangeState),
    /// MRS.
    Mrs(Status, Register),
    /// MSR with a register or a constant.
    Msr(Status, Fields, Operand),
    /// MRS of a register of another mode.
    MrsBanked(Banked, Register),
    /// MSR to a register of another mode.
    MsrBanked(Banked, Register),
    /// LDRT, STRT and the other unprivileged forms.
    Unprivileged(Unprivileged),
    /// An exception return by data processing.
    Return(Return),
    /// LDM or STM with a caret.
    Block(Block),
    /// RFE.
    Rfe(Pair),
    /// SRS.
    Srs(Store),
    /// SMC, with its immediate of four bits.
    Smc(u8),
    /// HVC, with its immediate of sixteen bits.
    Hvc(u16),
    /// A coprocessor instruction.
    Coprocessor(Coprocessor),
    /// YIELD, WFE, WFI or SEV.
    Hint(Hint),
    /// SETEND: `true` sets big-endian.
    SetEndianness(bool),
    /// PLDW, of the Multiprocessing Extensions: undefined on a Cortex-A8, which has none.
    PreloadWrite(Preload),
}
