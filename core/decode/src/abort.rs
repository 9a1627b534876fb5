//! Instruction and data aborts.

use crate::class::Origin;
use crate::loadstore::General;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// The cause of an abort: IFSC or DFSC, with the level of the table if the cause has one, -2 to 3
/// (DDI 0487 D24.2, ESR_EL2, "ISS encoding for an exception from a Data Abort").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The address is beyond the implemented or configured size.
    AddressSize(i8),
    /// The descriptor is not valid.
    Translation(i8),
    /// The access flag is clear.
    AccessFlag(i8),
    /// The descriptor does not allow the access.
    Permission(i8),
    /// The bus answered with an error.
    External,
    /// The bus answered a table walk with an error.
    ExternalOnWalk(i8),
    /// The memory reported a parity or ECC error.
    Parity,
    /// The memory reported a parity or ECC error on a table walk.
    ParityOnWalk(i8),
    /// The pointer's tag differs from the memory's (FEAT_MTE).
    TagCheck,
    /// The access is unaligned where that is not allowed.
    Alignment,
    /// The granule protection table refused the access (FEAT_RME).
    GranuleProtection,
    /// The granule protection table refused the access on a table walk.
    GranuleProtectionOnWalk(i8),
    /// The TLB holds more than one entry for the address.
    TlbConflict,
    /// The memory cannot update descriptors atomically.
    AtomicUpdate,
    /// Implementation defined: a lockdown fault.
    Lockdown,
    /// Implementation defined: the memory supports no exclusive or atomic accesses.
    ExclusiveOrAtomic,
    /// A code that is reserved or unknown to this decoder.
    Other(u8),
}

impl Fault {
    /// The fault with this six-bit code.
    pub const fn from_code(code: u8) -> Self {
        let level = (code & 3) as i8;
        match code & 0x3f {
            0b00_0000..=0b00_0011 => Self::AddressSize(level),
            0b00_0100..=0b00_0111 => Self::Translation(level),
            0b00_1000..=0b00_1011 => Self::AccessFlag(level),
            0b00_1100..=0b00_1111 => Self::Permission(level),
            0b01_0000 => Self::External,
            0b01_0001 => Self::TagCheck,
            0b01_0010 => Self::ExternalOnWalk(-2),
            0b01_0011 => Self::ExternalOnWalk(-1),
            0b01_0100..=0b01_0111 => Self::ExternalOnWalk(level),
            0b01_1000 => Self::Parity,
            0b01_1011 => Self::ParityOnWalk(-1),
            0b01_1100..=0b01_1111 => Self::ParityOnWalk(level),
            0b10_0001 => Self::Alignment,
            0b10_0010 => Self::GranuleProtectionOnWalk(-2),
            0b10_0011 => Self::GranuleProtectionOnWalk(-1),
            0b10_0100..=0b10_0111 => Self::GranuleProtectionOnWalk(level),
            0b10_1000 => Self::GranuleProtection,
            0b10_1001 => Self::AddressSize(-1),
            0b10_1010 => Self::Translation(-2),
            0b10_1011 => Self::Translation(-1),
            0b10_1100 => Self::AddressSize(-2),
            0b11_0000 => Self::TlbConflict,
            0b11_0001 => Self::AtomicUpdate,
            0b11_0100 => Self::Lockdown,
            0b11_0101 => Self::ExclusiveOrAtomic,
            other => Self::Other(other),
        }
    }

    /// The six-bit code. It has the low two bits of the level, if that is 0 to 3.
    pub const fn code(self) -> u8 {
        match self {
            Self::AddressSize(-1) => 0b10_1001,
            Self::AddressSize(-2) => 0b10_1100,
            Self::AddressSize(level) => at_level(0b00_0000, level),
            Self::Translation(-1) => 0b10_1011,
            Self::Translation(-2) => 0b10_1010,
            Self::Translation(level) => at_level(0b00_0100, level),
            Self::AccessFlag(level) => at_level(0b00_1000, level),
            Self::Permission(level) => at_level(0b00_1100, level),
            Self::External => 0b01_0000,
            Self::ExternalOnWalk(-2) => 0b01_0010,
            Self::ExternalOnWalk(-1) => 0b01_0011,
            Self::ExternalOnWalk(level) => at_level(0b01_0100, level),
            Self::Parity => 0b01_1000,
            Self::ParityOnWalk(-1) => 0b01_1011,
            Self::ParityOnWalk(level) => at_level(0b01_1100, level),
            Self::TagCheck => 0b01_0001,
            Self::Alignment => 0b10_0001,
            Self::GranuleProtection => 0b10_1000,
            Self::GranuleProtectionOnWalk(-2) => 0b10_0010,
            Self::GranuleProtectionOnWalk(-1) => 0b10_0011,
            Self::GranuleProtectionOnWalk(level) => at_level(0b10_0100, level),
            Self::TlbConflict => 0b11_0000,
            Self::AtomicUpdate => 0b11_0001,
            Self::Lockdown => 0b11_0100,
            Self::ExclusiveOrAtomic => 0b11_0101,
            Self::Other(code) => code & 0x3f,
        }
    }
}

const fn at_level(base: u8, level: i8) -> u8 {
    base | (level as u8 & 3)
}

/// What the syndrome tells about a single-register load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The width of the transfer.
    pub width: Width,
    /// Whether a load extends the sign.
    pub sign_extend: bool,
    /// The register; 31 is the zero register.
    pub register: u8,
    /// Whether a load fills 64 bits of the register; else it fills the lower 32 and clears the
    /// upper ones.
    pub wide: bool,
    /// Whether the instruction has acquire or release semantics.
    pub ordered: bool,
}

impl Access {
    /// How the access fills the register, or what it stores of it.
    pub const fn general(&self) -> General {
        General {
            width: self.width,
            sign_extend: self.sign_extend,
            wide: self.wide,
        }
    }
}

/// A data abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataAbort {
    /// The exception level that the abort came from.
    pub origin: Origin,
    /// The cause.
    pub fault: Fault,
    /// The access, if the syndrome describes it (ISV); else the instruction must be read.
    pub access: Option<Access>,
    /// Whether the access was a write; also set for cache maintenance and address translation.
    pub write: bool,
    /// Whether a cache maintenance or address translation instruction caused the abort.
    pub cache_maintenance: bool,
    /// Whether stage 2 refused a read or update of the guest's own tables (S1PTW).
    pub on_walk: bool,
    /// Whether FAR_EL2 holds no address (FnV).
    pub far_unknown: bool,
    /// Whether a nested guest's access to a register that is kept in memory caused the abort
    /// (FEAT_NV2).
    pub virtual_register: bool,
    /// EA: the implementation's type of an external abort.
    pub external_type: bool,
}

/// An instruction abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionAbort {
    /// The exception level that the abort came from.
    pub origin: Origin,
    /// The cause.
    pub fault: Fault,
    /// Whether stage 2 refused a read of the guest's own tables (S1PTW).
    pub on_walk: bool,
    /// Whether FAR_EL2 holds no address (FnV).
    pub far_unknown: bool,
    /// EA: the implementation's type of an external abort.
    pub external_type: bool,
}

/// ISS of a data abort. The fields of an instruction abort stand in the same places.
#[bitfield(u32)]
pub(crate) struct AbortIss {
    #[bits(6)]
    pub code: u8,
    pub write: bool,
    pub on_walk: bool,
    pub cache_maintenance: bool,
    pub external_type: bool,
    pub far_unknown: bool,
    #[bits(2)]
    _set: u8,
    pub virtual_register: bool,
    pub ordered: bool,
    pub wide: bool,
    #[bits(5)]
    pub register: u8,
    pub sign_extend: bool,
    #[bits(2)]
    pub size: u8,
    pub valid: bool,
    #[bits(7)]
    _upper: u8,
}

impl AbortIss {
    #[inline(always)]
    pub(crate) fn access(self) -> Option<Access> {
        self.valid().then(|| Access {
            width: Width::from_log2(self.size()),
            sign_extend: self.sign_extend(),
            register: self.register(),
            wide: self.wide(),
            ordered: self.ordered(),
        })
    }

    pub(crate) fn data(self, origin: Origin) -> DataAbort {
        DataAbort {
            origin,
            fault: Fault::from_code(self.code()),
            access: self.access(),
            write: self.write(),
            cache_maintenance: self.cache_maintenance(),
            on_walk: self.on_walk(),
            far_unknown: self.far_unknown(),
            virtual_register: self.virtual_register(),
            external_type: self.external_type(),
        }
    }

    pub(crate) fn instruction(self, origin: Origin) -> InstructionAbort {
        InstructionAbort {
            origin,
            fault: Fault::from_code(self.code()),
            on_walk: self.on_walk(),
            far_unknown: self.far_unknown(),
            external_type: self.external_type(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_round() {
        for code in 0..64 {
            assert_eq!(Fault::from_code(code).code(), code);
        }
    }

    #[test]
    fn codes_of_the_manual() {
        assert_eq!(Fault::from_code(0x07), Fault::Translation(3));
        assert_eq!(Fault::from_code(0x0d), Fault::Permission(1));
        assert_eq!(Fault::from_code(0x10), Fault::External);
        assert_eq!(Fault::from_code(0x21), Fault::Alignment);
        assert_eq!(Fault::from_code(0x2b), Fault::Translation(-1));
        assert_eq!(Fault::from_code(0x3f), Fault::Other(0x3f));
    }
}
