//! The few frequent exits that a backend finishes on a fast path.

use crate::abort::{AbortIss, Access};
use crate::class::{Class, Esr};
use crate::syndrome::SystemIss;
use crate::sysreg::SysReg;

/// An exit that the syndrome describes completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequent {
    /// HVC of AArch64.
    Hypercall,
    /// A load or store of one register at an address that stage 2 does not translate. The syndrome
    /// is valid, and HPFAR_EL2 and FAR_EL2 hold the address.
    Access {
        /// The width and the register.
        access: Access,
        /// Whether the access is a store.
        write: bool,
    },
}

/// DFSC: a translation fault, at level 0 to 3.
const TRANSLATION: u8 = 0b00_0100;

impl Frequent {
    /// Decodes a value of ESR_EL2; `None` for all exits but these. The answer agrees with that of
    /// [`Syndrome::decode`](crate::Syndrome::decode), which tells more.
    #[inline(always)]
    pub fn decode(esr: u64) -> Option<Self> {
        const HYPERCALL: u64 = Class::Hvc64 as u64;
        const DATA_ABORT: u64 = Class::DataAbortLower as u64;
        let iss = Esr::from_bits(esr).iss();
        match esr >> 26 & 0x3f {
            HYPERCALL => Some(Self::Hypercall),
            DATA_ABORT => access(AbortIss::from_bits(iss)),
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

/// The general register (31 is the zero register) that a trapped MSR writes to `register`; `None`
/// if `esr`, a value of ESR_EL2, is not of such an MSR.
#[inline(always)]
pub const fn operand_of_write(register: SysReg, esr: u64) -> Option<u8> {
    const OPERAND: u64 = SystemIss::new().with_operand(31).into_bits() as u64;
    let wanted = SystemIss::new()
        .with_op0(register.op0())
        .with_op1(register.op1())
        .with_crn(register.crn())
        .with_crm(register.crm())
        .with_op2(register.op2());
    // All A64 instructions are 32 bits long, as ESR_EL2.IL says.
    // The upper half is zero for this class; were the architecture to add something there, the answer is `None`.
    let esr_wanted = (Class::SystemRegister as u64) << 26 | 1 << 25 | wanted.into_bits() as u64;
    if esr & !OPERAND != esr_wanted {
        return None;
    }
    Some(SystemIss::from_bits(esr as u32).operand())
}

/// The register (31 is the zero register) of a store of 32 bits from one register, at an address
/// that stage 2 does not translate and that HPFAR_EL2 and FAR_EL2 hold; `None` if `esr`, a value of
/// ESR_EL2, is not of such a store.
#[inline(always)]
pub const fn register_of_word_store(esr: u64) -> Option<u8> {
    /// DDI 0487, D24.2, "ISS encoding for an exception from a Data Abort": ISV, SAS, WnR.
    const STORE: u64 = (Class::DataAbortLower as u64) << 26 | 1 << 24 | 0b10 << 22 | 1 << 6;
    /// The bits that may have any value: IL, SSE, SRT, SF, AR, SET and EA, the level, and what the
    /// architecture adds in the upper half.
    const ANY: u64 = 1 << 25 | 0x7f << 15 | 1 << 14 | 0b11 << 11 | 1 << 9 | 3 | !0 << 32;
    if esr & !ANY != STORE | TRANSLATION as u64 {
        return None;
    }
    Some((esr >> 16 & 0x1f) as u8)
}

/// The register that a load of 32 bits without sign extension fills; otherwise as
/// [`register_of_word_store`].
#[inline(always)]
pub const fn register_of_word_load(esr: u64) -> Option<u8> {
    const LOAD: u64 = (Class::DataAbortLower as u64) << 26 | 1 << 24 | 0b10 << 22;
    /// The bits that may have any value: those of stores, without SSE.
    const ANY: u64 = 1 << 25 | 0x3f << 15 | 1 << 14 | 0b11 << 11 | 1 << 9 | 3 | !0 << 32;
    if esr & !ANY != LOAD | TRANSLATION as u64 {
        return None;
    }
    Some((esr >> 16 & 0x1f) as u8)
}

/// Whether `esr`, a value of ESR_EL2, of a data abort is of a store (WnR).
#[inline(always)]
pub const fn is_store(esr: u64) -> bool {
    esr & STORE as u64 != 0
}

/// ISS of a data abort: WnR.
const STORE: u32 = 1 << 6;

/// As [`register_of_word_load`], of a load of at most 32 bits; and the bits that are loaded.
#[inline(always)]
pub const fn register_of_narrow_load(esr: u64) -> Option<(u8, u32)> {
    if !is_narrow(esr, 0) {
        return None;
    }
    let size = esr >> 22 & 3;
    let mask = u32::MAX >> (32 - (8 << size));
    Some(((esr >> 16 & 0x1f) as u8, mask))
}

/// As [`register_of_word_store`], of a store of at most 32 bits.
#[inline(always)]
pub const fn register_of_narrow_store(esr: u64) -> Option<u8> {
    if !is_narrow(esr, STORE) {
        return None;
    }
    Some((esr >> 16 & 0x1f) as u8)
}

/// Whether it is of a load, or a `store`, of at most 32 bits, and extends no sign.
#[inline(always)]
const fn is_narrow(esr: u64, store: u32) -> bool {
    const ABORT: u32 = (Class::DataAbortLower as u32) << 26 | 1 << 24 | TRANSLATION as u32;
    /// IL, SAS, SRT, SF, AR, SET and EA, and the level.
    const ANY: u32 = 1 << 25 | 3 << 22 | 0x1f << 16 | 1 << 15 | 1 << 14 | 0b11 << 11 | 1 << 9 | 3;
    let double = esr >> 22 & 3 == 3;
    esr as u32 & !ANY == ABORT | store && !double
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, Syndrome};
    use proptest::prelude::*;

    /// The fast decoder says the same as the complete one.
    fn agrees(esr: u64) {
        match (Frequent::decode(esr), Syndrome::decode(esr)) {
            (None, _) | (Some(Frequent::Hypercall), Syndrome::Hvc(_)) => {}
            (Some(Frequent::Access { access, write }), Syndrome::DataAbort(abort)) => {
                assert_eq!((Some(access), write), (abort.access, abort.write));
                assert!(abort.has_ipa() && matches!(abort.fault, Fault::Translation(0..=3)));
                assert!(!abort.on_walk && !abort.cache_maintenance && !abort.far_unknown);
            }
            (short, long) => panic!("{esr:#x}: {short:?}, but {long:?}"),
        }
    }

    /// As [`agrees`], for one register.
    fn agrees_on_writes(esr: u64) {
        let register = SysReg::ICC_SGI1R_EL1;
        let long = match Syndrome::decode(esr) {
            Syndrome::SystemRegister(r) if r.register == register && !r.read => Some(r.operand),
            _ => None,
        };
        assert_eq!(operand_of_write(register, esr), long, "{esr:#x}");
    }

    /// As [`agrees`], for stores of words.
    fn agrees_on_word_stores(esr: u64) {
        let long = match (Frequent::decode(esr), Syndrome::decode(esr)) {
            (
                Some(Frequent::Access {
                    access,
                    write: true,
                }),
                Syndrome::DataAbort(_),
            ) if access.width == hanok_types::Width::Word => Some(access.register),
            _ => None,
        };
        let short = register_of_word_store(esr);
        // Bit 13 has meanings that do not occur for our guests (FEAT_NV2).
        assert!(
            short == long || esr >> 13 & 1 != 0,
            "{esr:#x}: {short:?}, {long:?}"
        );
    }

    /// As [`agrees`], for loads of words.
    fn agrees_on_word_loads(esr: u64) {
        let long = match Frequent::decode(esr) {
            Some(Frequent::Access {
                access,
                write: false,
            }) if access.width == hanok_types::Width::Word && !access.sign_extend => {
                Some(access.register)
            }
            _ => None,
        };
        let short = register_of_word_load(esr);
        // See `agrees_on_word_stores`.
        assert!(
            short == long || esr >> 13 & 1 != 0,
            "{esr:#x}: {short:?}, {long:?}"
        );
    }

    /// As [`agrees`], for what is narrow.
    fn agrees_on_narrow_accesses(esr: u64) {
        let (load, store) = match Frequent::decode(esr) {
            Some(Frequent::Access { access, write })
                if access.width.bytes() <= 4 && !access.sign_extend =>
            {
                let load = (access.register, access.width.mask() as u32);
                ((!write).then_some(load), write.then_some(access.register))
            }
            _ => (None, None),
        };
        let short = (register_of_narrow_load(esr), register_of_narrow_store(esr));
        // As above.
        assert!(
            short == (load, store) || esr >> 13 & 1 != 0,
            "{esr:#x}: {short:?}, {load:?}, {store:?}"
        );
        if store.is_some() || load.is_some() {
            assert_eq!(is_store(esr), store.is_some());
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
        for iss in 0..1u64 << 22 {
            agrees_on_writes(0x18 << 26 | 1 << 25 | iss);
        }
        for iss in 0..1u64 << 25 {
            agrees_on_word_stores(0x24 << 26 | iss);
            agrees_on_word_loads(0x24 << 26 | iss);
            agrees_on_narrow_accesses(0x24 << 26 | iss);
        }
        for class in 0..64 {
            agrees_on_word_stores(class << 26 | 1 << 25 | 0x186_0044);
            agrees_on_word_loads(class << 26 | 1 << 25 | 0x186_0004);
            agrees_on_narrow_accesses(class << 26 | 1 << 25 | 0x106_0044);
            agrees_on_writes(class << 26 | 1 << 25 | 0x3a_30f6);
        }
    }

    #[test]
    fn frequent_exits_are_recognised() {
        // LDR W3 from a device, at level 3; HVC #5; MSR ICC_SGI1R_EL1, X7.
        assert!(matches!(
            Frequent::decode(0x9383_0007),
            Some(Frequent::Access { write: false, .. })
        ));
        assert_eq!(Frequent::decode(0x5a00_0005), Some(Frequent::Hypercall));
        assert_eq!(
            operand_of_write(SysReg::ICC_SGI1R_EL1, 0x623a_30f6),
            Some(7)
        );
    }

    proptest! {
        #[test]
        fn any_value(esr in any::<u64>()) {
            agrees(esr);
        }
    }
}
