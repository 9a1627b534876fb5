//! The modes of a virtual CPU.

use hanok_decode::mode;

/// A mode (DDI 0406C, B1.3.1). Monitor and Hyp mode do not exist here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the modes' names
pub enum Mode {
    User,
    Fiq,
    Irq,
    Supervisor,
    Abort,
    Undefined,
    System,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::Fiq,
        Self::Irq,
        Self::Supervisor,
        Self::Abort,
        Self::Undefined,
        Self::System,
    ];

    /// The mode with this code, the field M of a status register; `None` if it does not exist.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            mode::USER => Self::User,
            mode::FIQ => Self::Fiq,
            mode::IRQ => Self::Irq,
            mode::SUPERVISOR => Self::Supervisor,
            mode::ABORT => Self::Abort,
            mode::UNDEFINED => Self::Undefined,
            mode::SYSTEM => Self::System,
            _ => return None,
        })
    }

    /// Its code.
    pub const fn into_bits(self) -> u8 {
        match self {
            Self::User => mode::USER,
            Self::Fiq => mode::FIQ,
            Self::Irq => mode::IRQ,
            Self::Supervisor => mode::SUPERVISOR,
            Self::Abort => mode::ABORT,
            Self::Undefined => mode::UNDEFINED,
            Self::System => mode::SYSTEM,
        }
    }

    /// Whether it is any mode but User mode: whether the guest's kernel runs.
    pub const fn is_privileged(self) -> bool {
        !matches!(self, Self::User)
    }

    /// Whether it has an SPSR: whether an exception can be taken to it.
    pub const fn has_spsr(self) -> bool {
        !matches!(self, Self::User | Self::System)
    }
}
