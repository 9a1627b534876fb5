//! The few exits that come so often that a backend serves them on a shorter way.

use crate::abort::{AbortIss, Access};
use crate::class::{Class, Esr};
use crate::syndrome::SystemIss;
use crate::sysreg::SysReg;

/// An exit that needs no more than the syndrome tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequent {
    /// HVC of AArch64.
    Hypercall,
    /// A load or store of one register, the syndrome valid, that stage 2 does not
    /// translate: HPFAR_EL2 and FAR_EL2 hold its address.
    Access {
        /// How, and from or to which register.
        access: Access,
        /// Whether it is a store.
        write: bool,
    },
    /// MSR of a trapped register.
    RegisterWrite {
        /// Which.
        register: SysReg,
        /// The general register, 31 being the zero register.
        operand: u8,
    },
}

/// DFSC: a translation fault, at level 0 to 3.
const TRANSLATION: u8 = 0b00_0100;

impl Frequent {
    /// From the value of ESR_EL2; `None` for all that is not one of these. Says the same as
    /// [`Syndrome::decode`](crate::Syndrome::decode), and less.
    #[inline(always)]
    pub fn decode(esr: u64) -> Option<Self> {
        const HYPERCALL: u64 = Class::Hvc64 as u64;
        const DATA_ABORT: u64 = Class::DataAbortLower as u64;
        const SYSTEM_REGISTER: u64 = Class::SystemRegister as u64;
        let iss = Esr::from_bits(esr).iss();
        match esr >> 26 & 0x3f {
            HYPERCALL => Some(Self::Hypercall),
            DATA_ABORT => access(AbortIss::from_bits(iss)),
            SYSTEM_REGISTER => write(SystemIss::from_bits(iss)),
            _ => None,
        }
    }
}

#[inline(always)]
fn access(iss: AbortIss) -> Option<Frequent> {
    let odd = iss.on_walk() | iss.cache_maintenance() | iss.far_unknown();
    let access = iss
        .access()
        .filter(|_| !odd && iss.code() & !3 == TRANSLATION)?;
    let write = iss.write();
    Some(Frequent::Access { access, write })
}

#[inline(always)]
fn write(iss: SystemIss) -> Option<Frequent> {
    let access = crate::SystemRegister::from(iss);
    (!access.read).then_some(Frequent::RegisterWrite {
        register: access.register,
        operand: access.operand,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Syndrome};
    use proptest::prelude::*;

    /// What is said shortly is what is said at length.
    fn agrees(esr: u64) {
        match (Frequent::decode(esr), Syndrome::decode(esr)) {
            (None, _) | (Some(Frequent::Hypercall), Syndrome::Hvc(_)) => {}
            (Some(Frequent::Access { access, write }), Syndrome::DataAbort(abort)) => {
                assert_eq!((Some(access), write), (abort.access, abort.write));
                assert!(abort.has_ipa() && matches!(abort.fault, Fault::Translation(0..=3)));
                assert!(!abort.on_walk && !abort.cache_maintenance && !abort.far_unknown);
            }
            (Some(Frequent::RegisterWrite { register, operand }), Syndrome::SystemRegister(r)) => {
                assert_eq!((register, operand, false), (r.register, r.operand, r.read));
            }
            (short, long) => panic!("{esr:#x}: {short:?}, but {long:?}"),
        }
    }

    #[test]
    fn every_field_of_the_frequent_classes() {
        for class in [0x16, 0x17, 0x18, 0x24, 0x25] {
            for iss in 0..1u64 << 11 {
                agrees(class << 26 | 1 << 25 | iss);
                agrees(class << 26 | 1 << 25 | iss << 14 | 0x47);
            }
        }
    }

    #[test]
    fn what_is_frequent_is_found() {
        // LDR W3 from a device, at level 3; HVC #5; MSR ICC_SGI1R_EL1, X7.
        assert!(matches!(
            Frequent::decode(0x9383_0007),
            Some(Frequent::Access { write: false, .. })
        ));
        assert_eq!(Frequent::decode(0x5a00_0005), Some(Frequent::Hypercall));
        let register = SysReg::ICC_SGI1R_EL1;
        assert_eq!(
            Frequent::decode(0x623a_30f6),
            Some(Frequent::RegisterWrite {
                register,
                operand: 7
            })
        );
    }

    proptest! {
        #[test]
        fn any_value(esr in any::<u64>()) {
            agrees(esr);
        }
    }
}
