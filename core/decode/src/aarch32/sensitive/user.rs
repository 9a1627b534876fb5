//! What a sensitive instruction does in User mode when it is run as it is.

use super::operation::{Hint, Operation, Status};

/// What becomes of an instruction in User mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserMode {
    /// The same as in a privileged mode, as far as a guest can tell.
    Legal,
    /// An Undefined Instruction exception.
    Undefined,
    /// One or the other, as a register of the CPU says that the hypervisor sets (PMUSERENR,
    /// CNTKCTL, DBGDSCR and their kind), or as the CPU's own manual says.
    Configured,
    /// Something else, without a word: it must be found before it runs.
    Different,
    /// The real CPU stops until an interrupt.
    Waits,
    /// UNPREDICTABLE: whatever this CPU does, another one may do something else.
    Unpredictable,
}

impl UserMode {
    /// Whether a hypervisor can leave the instruction in place and wait for its exception,
    /// having closed what it can close.
    pub const fn is_trapped(self) -> bool {
        matches!(self, Self::Undefined | Self::Configured)
    }

    /// Whether it goes wrong without an exception, so that it has to be rewritten first.
    pub const fn must_be_rewritten(self) -> bool {
        matches!(self, Self::Different | Self::Waits | Self::Unpredictable)
    }
}

impl Operation {
    /// What a well-formed one does in User mode (DDI 0406C A8.8 and B9.3, the section of each
    /// instruction).
    pub(super) fn user(&self) -> UserMode {
        match self {
            // Executes as a NOP (B9.3.2).
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
