//! What a sensitive instruction does in User mode if it runs unchanged.

use super::operation::{Hint, Operation, Status};

/// The outcomes of an instruction in User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserMode {
    /// It does the same as in a privileged mode, as far as a guest can tell.
    Legal,
    /// It raises an Undefined Instruction exception.
    Undefined,
    /// It is legal or undefined, depending on a register of the CPU that the hypervisor sets
    /// (PMUSERENR, CNTKCTL, DBGDSCR and so on) or on the CPU's own manual.
    Configured,
    /// It silently does something else: it must be found before it runs.
    Different,
    /// It stops the real CPU until an interrupt.
    Waits,
    /// It is UNPREDICTABLE: what one CPU does, another one need not do.
    Unpredictable,
}

impl UserMode {
    /// Whether a hypervisor can leave the instruction in place and wait for its exception, once it
    /// has forbidden what its registers can forbid.
    pub const fn is_trapped(self) -> bool {
        matches!(self, Self::Undefined | Self::Configured)
    }

    /// Whether the instruction goes wrong without an exception, so that it must be rewritten before
    /// it runs.
    pub const fn must_be_rewritten(self) -> bool {
        matches!(self, Self::Different | Self::Waits | Self::Unpredictable)
    }
}

impl Operation {
    /// What the instruction does in User mode if it is well-formed (DDI 0406C A8.8 and B9.3, the
    /// section of each instruction).
    pub(super) fn user(&self) -> UserMode {
        match self {
            // The instruction executes as a NOP (B9.3.2).
            Self::Cps(_) => UserMode::Different,
            // E, A, I, F and M read as UNKNOWN (B9.3.8).
            Self::Mrs(Status::Current, _) => UserMode::Different,
            // N, Z, C, V, Q, GE and E can be written; A, I, F and M cannot (B1.3.3,
            // CPSRWriteByInstr).
            Self::Msr(Status::Current, fields, _) if fields.control() || fields.extension() => {
                UserMode::Different
            }
            Self::Msr(Status::Current, ..) => UserMode::Legal,
            Self::Mrs(Status::Saved, _) | Self::Msr(Status::Saved, ..) => UserMode::Unpredictable,
            Self::MrsBanked(..) | Self::MsrBanked(..) => UserMode::Unpredictable,
            // The access has the rights that all accesses of User mode have (A8.8, LDRT).
            Self::Unprivileged(_) => UserMode::Different,
            Self::Return(_) | Self::Block(_) | Self::Rfe(_) | Self::Srs(_) => {
                UserMode::Unpredictable
            }
            Self::Smc(_) | Self::Hvc(_) => UserMode::Undefined,
            Self::Coprocessor(coprocessor) => coprocessor.user(),
            Self::Hint(Hint::Wfi) => UserMode::Waits,
            Self::Hint(_) | Self::SetEndianness(_) | Self::PreloadWrite(_) => UserMode::Legal,
        }
    }
}
