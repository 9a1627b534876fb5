//! Faults of a walk, as a guest is told of them.

/// What kind of fault ends a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortFaultKind {
    /// A descriptor could not be read.
    ExternalOnWalk,
    /// Nothing is mapped.
    Translation,
    /// The access flag is clear.
    AccessFlag,
    /// The guest is no client of the domain.
    Domain,
    /// The permissions forbid the access.
    Permission,
}

/// The level of the descriptor that a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShortLevel {
    /// The manual's "section" in older editions.
    First,
    /// The manual's "page" in older editions.
    Second,
}

/// A fault of a guest's own translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortFault {
    /// The kind.
    pub kind: ShortFaultKind,
    /// The level.
    pub level: ShortLevel,
    /// The domain; 0 if the walk ends before it is known, where the manual says UNKNOWN.
    pub domain: u8,
}

impl ShortFault {
    /// FS, the five bits of the fault status (DDI 0406C, B3.13.3).
    pub const fn status(&self) -> u8 {
        use ShortFaultKind as Kind;
        use ShortLevel::{First, Second};
        match (self.kind, self.level) {
            (Kind::ExternalOnWalk, First) => 0b0_1100,
            (Kind::ExternalOnWalk, Second) => 0b0_1110,
            (Kind::Translation, First) => 0b0_0101,
            (Kind::Translation, Second) => 0b0_0111,
            (Kind::AccessFlag, First) => 0b0_0011,
            (Kind::AccessFlag, Second) => 0b0_0110,
            (Kind::Domain, First) => 0b0_1001,
            (Kind::Domain, Second) => 0b0_1011,
            (Kind::Permission, First) => 0b0_1101,
            (Kind::Permission, Second) => 0b0_1111,
        }
    }

    /// The value of IFSR for a prefetch abort with this fault (B4.1.96). It has no domain.
    pub const fn ifsr(&self) -> u32 {
        let status = self.status() as u32;
        (status & 0b1_0000) << 6 | status & 0b1111
    }

    /// The value of DFSR for a data abort with this fault (B4.1.52), without WnR, bit 11, which is
    /// the caller's to set.
    pub const fn dfsr(&self) -> u32 {
        self.ifsr() | (self.domain as u32 & 0xf) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_told_of_data_aborts_alone() {
        let fault = ShortFault {
            kind: ShortFaultKind::Permission,
            level: ShortLevel::Second,
            domain: 3,
        };
        assert_eq!((fault.dfsr(), fault.ifsr()), (0x3f, 0xf));
    }
}
