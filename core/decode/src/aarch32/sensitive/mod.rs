//! Sensitive instructions: their outcome depends on the mode, or they reach state that a guest must
//! not reach.
//!
//! The list begins with the 48 instructions of the published systems (DDI 0406C B9.3 and A8.8 have
//! their sections). It adds what ARMv7-A has beyond them: waiting, hints, SETEND, the
//! Virtualization Extensions' own instructions, VMRS of system registers, and PLDW, which some CPUs
//! lack. Some listed instructions are legal in User mode ([`UserMode::Legal`]): they are listed
//! because their neighbours are not. So a caller must look at [`Sensitive::user`], not only at
//! whether there is an answer.
//!
//! Not listed are: SVC, BKPT and UDF, which raise their exception in every mode; barriers and
//! CLREX, which are legal everywhere; VFP and Advanced SIMD, which a hypervisor turns on and off as
//! a whole; data processing into the PC with a shift by a register, which is UNPREDICTABLE in every
//! mode (A5.2.2).

mod a32;
mod coprocessor;
mod operation;
mod rights;
mod t32;
mod unconditional;
mod user;
mod words;

pub use a32::sensitive_a32;
pub use coprocessor::{Access, Coprocessor, Transfer};
pub use operation::{
    Banked, Block, ChangeState, DataOperation, Direction, Fields, Hint, Index, Operand, Operation,
    Pair, Preload, Return, ReturnFrom, Shift, ShiftKind, Status, Store, Unprivileged,
};
pub use rights::Facility;
pub use t32::sensitive_t32;
pub use user::UserMode;

use super::condition::{Condition, ItState};
use super::encoding::Encoding;

/// A sensitive instruction, and what it does in User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensitive {
    /// The instruction's bits.
    pub encoding: Encoding,
    /// The condition under which it executes.
    pub condition: Condition,
    /// The operation, with its operands.
    pub operation: Operation,
    /// Whether the manual defines the instruction: its fixed fields are as they should be, and
    /// neither its operands nor its place in an IT block make it UNPREDICTABLE in every mode.
    /// Compilers and assemblers make only defined instructions, so a word that is none is data more
    /// often than code.
    pub as_it_should_be: bool,
    /// What it does in User mode; [`UserMode::Unpredictable`] if it is not as it should be.
    pub user: UserMode,
}

/// The published classes of sensitive instructions, and those of newer instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Data processing that sets flags and has the PC as destination; ERET.
    DataProcessing,
    /// Shifts that set flags and have the PC as destination.
    Shift,
    /// CPS, MRS, MSR.
    StatusRegister,
    /// LDRT, STRT and the other unprivileged forms.
    Unprivileged,
    /// LDM and STM with a caret.
    Block,
    /// RFE, SRS, SMC; HVC.
    Exception,
    /// Coprocessor instructions.
    Coprocessor,
    /// WFI, WFE, SEV, YIELD.
    Hint,
    /// SETEND.
    Endianness,
    /// PLDW.
    Preload,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 10] = [
        Self::DataProcessing,
        Self::Shift,
        Self::StatusRegister,
        Self::Unprivileged,
        Self::Block,
        Self::Exception,
        Self::Coprocessor,
        Self::Hint,
        Self::Endianness,
        Self::Preload,
    ];
}

impl Sensitive {
    fn new(
        encoding: Encoding,
        condition: Condition,
        (operation, as_it_should_be): (Operation, bool),
    ) -> Self {
        let user = if as_it_should_be {
            operation.user()
        } else {
            UserMode::Unpredictable
        };
        Self {
            encoding,
            condition,
            operation,
            as_it_should_be,
            user,
        }
    }

    /// Its class.
    pub const fn class(&self) -> Class {
        match self.operation {
            Operation::Cps(_)
            | Operation::Mrs(..)
            | Operation::Msr(..)
            | Operation::MrsBanked(..)
            | Operation::MsrBanked(..) => Class::StatusRegister,
            Operation::Unprivileged(_) => Class::Unprivileged,
            Operation::Return(back) => match back.from {
                ReturnFrom::Data {
                    operation: DataOperation::Mov,
                    second: Operand::Register(_, shift),
                    ..
                } if !shift.is_none() => Class::Shift,
                _ => Class::DataProcessing,
            },
            Operation::Block(_) => Class::Block,
            Operation::Rfe(_) | Operation::Srs(_) | Operation::Smc(_) | Operation::Hvc(_) => {
                Class::Exception
            }
            Operation::Coprocessor(_) => Class::Coprocessor,
            Operation::Hint(_) => Class::Hint,
            Operation::SetEndianness(_) => Class::Endianness,
            Operation::PreloadWrite(_) => Class::Preload,
        }
    }
}

/// The sensitive instruction with this encoding. `it` is used for T32 only.
pub fn sensitive(encoding: Encoding, it: ItState) -> Option<Sensitive> {
    match encoding {
        Encoding::A32(word) => sensitive_a32(word),
        Encoding::Narrow(half) => sensitive_t32(half, 0, it),
        Encoding::Wide(both) => sensitive_t32((both >> 16) as u16, both as u16, it),
    }
}
