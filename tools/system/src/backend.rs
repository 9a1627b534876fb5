//! The CPU backends: how a board's CPUs run guests.

use crate::table;
use toml::de::DeValue;

/// The architecture of a CPU backend's guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// AArch64.
    Arm64,
    /// AArch32, ARMv7-A.
    Arm,
}

/// A CPU backend, by its name in a board's file and in a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `el2`: 64-bit CPUs, the hypervisor at EL2.
    El2,
    /// `hyp`: 32-bit CPUs with virtualization extensions, the hypervisor in Hyp mode.
    Hyp,
    /// `deprivileged`: 32-bit CPUs, the hypervisor at PL1 and guests' kernels in User mode.
    Deprivileged,
}

/// What a value of the key `backend` can be, for a person.
pub(crate) const A_BACKEND: &str = "\"el2\", \"hyp\" or \"deprivileged\"";

impl Backend {
    const ALL: [Self; 3] = [Self::El2, Self::Hyp, Self::Deprivileged];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::El2 => "el2",
            Self::Hyp => "hyp",
            Self::Deprivileged => "deprivileged",
        }
    }

    /// The backend that a value of a file names.
    pub(crate) fn of_value(value: &DeValue<'_>) -> Option<Self> {
        let name = table::word(value)?;
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }

    /// The architecture of the hypervisor's image, and of its own guests.
    pub fn architecture(self) -> Architecture {
        match self {
            Self::El2 => Architecture::Arm64,
            Self::Hyp | Self::Deprivileged => Architecture::Arm,
        }
    }
}
