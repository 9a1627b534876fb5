//! The walk of short descriptors against a transcription of the manual's pseudocode (DDI 0406C,
//! B3.19, "TranslationTableWalkSD", "CheckDomain", "CheckPermission", "DefaultTEXDecode" and
//! "RemappedTEXDecode"), which shares no type with it.

use hanok_paging::short::{
    Access, AccessKind, Cacheability, GuestMapping, MappingSize, MemoryKind, MemoryType, Privilege,
    Pxn, Shareability, ShortRegime, WalkError,
};
use hanok_types::Ipa;
use proptest::prelude::*;

/// Bits `high` to `low`.
fn bits(value: u32, high: u32, low: u32) -> u32 {
    (value >> low) & (u32::MAX >> (31 - (high - low)))
}

fn bit(value: u32, number: u32) -> bool {
    bits(value, number, number) == 1
}

#[derive(Debug, PartialEq)]
enum Abort {
    /// FS and domain.
    Fault(u8, u8),
    /// The address above 4 GiB.
    Beyond(u64),
}

/// The manual's TLBRecord, as far as it matters.
#[derive(Debug)]
struct Record {
    address: u64,
    kib: u64,
    domain: u32,
    level: u32,
    ap: u32,
    xn: bool,
    pxn: bool,
    global: bool,
    texcb: u32,
    s: bool,
}

type Read<'a> = &'a dyn Fn(u64) -> Option<u32>;

fn fault(status: u8, domain: u32) -> Abort {
    Abort::Fault(status, domain as u8)
}

fn load(regime: &ShortRegime, read: Read, at: u64) -> Option<u32> {
    let word = read(at)?;
    Some(if bit(regime.sctlr, 25) {
        u32::from_be_bytes(word.to_le_bytes())
    } else {
        word
    })
}

fn table_walk(regime: &ShortRegime, mva: u32, read: Read) -> Result<Record, Abort> {
    let mut n = bits(regime.ttbcr, 2, 0);
    let (ttbr, disabled) = if n == 0 || bits(mva, 31, 32 - n) == 0 {
        (regime.ttbr0, bit(regime.ttbcr, 4))
    } else {
        n = 0;
        (regime.ttbr1, bit(regime.ttbcr, 5))
    };
    if disabled {
        return Err(fault(0b00101, 0));
    }
    let l1_address =
        u64::from(bits(ttbr, 31, 14 - n)) << (14 - n) | u64::from(bits(mva, 31 - n, 20)) << 2;
    let l1 = load(regime, read, l1_address).ok_or(fault(0b01100, 0))?;
    let has_pxn = regime.pxn == Pxn::Present;
    let record = match bits(l1, 1, 0) {
        0b00 => return Err(fault(0b00101, 0)),
        0b11 if !has_pxn => return Err(fault(0b00101, 0)),
        0b01 => {
            let domain = bits(l1, 8, 5);
            let l2_address = u64::from(bits(l1, 31, 10)) << 10 | u64::from(bits(mva, 19, 12)) << 2;
            let l2 = load(regime, read, l2_address).ok_or(fault(0b01110, domain))?;
            if bits(l2, 1, 0) == 0 {
                return Err(fault(0b00111, domain));
            }
            let large = !bit(l2, 1);
            let tex = if large {
                bits(l2, 14, 12)
            } else {
                bits(l2, 8, 6)
            };
            let address = if large {
                bits(l2, 31, 16) << 16 | bits(mva, 15, 0)
            } else {
                bits(l2, 31, 12) << 12 | bits(mva, 11, 0)
            };
            Record {
                address: address.into(),
                kib: if large { 64 } else { 4 },
                domain,
                level: 2,
                ap: bits(l2, 9, 9) << 2 | bits(l2, 5, 4),
                xn: bit(l2, if large { 15 } else { 0 }),
                pxn: has_pxn && bit(l1, 2),
                global: !bit(l2, 11),
                texcb: tex << 2 | bits(l2, 3, 2),
                s: bit(l2, 10),
            }
        }
        _ => {
            let is_super = bit(l1, 18);
            let address = if is_super {
                u64::from(bits(l1, 8, 5)) << 36
                    | u64::from(bits(l1, 23, 20)) << 32
                    | u64::from(bits(l1, 31, 24) << 24 | bits(mva, 23, 0))
            } else {
                u64::from(bits(l1, 31, 20) << 20 | bits(mva, 19, 0))
            };
            Record {
                address,
                kib: if is_super { 16384 } else { 1024 },
                domain: if is_super { 0 } else { bits(l1, 8, 5) },
                level: 1,
                ap: bits(l1, 15, 15) << 2 | bits(l1, 11, 10),
                xn: bit(l1, 4),
                pxn: has_pxn && bit(l1, 0),
                global: !bit(l1, 17),
                texcb: bits(l1, 14, 12) << 2 | bits(l1, 3, 2),
                s: bit(l1, 16),
            }
        }
    };
    if bit(regime.sctlr, 29) && record.ap & 1 == 0 {
        let status = if record.level == 1 { 0b00011 } else { 0b00110 };
        return Err(fault(status, record.domain));
    }
    Ok(record)
}

/// Whether the permissions let this access through, as CheckPermission and the rules for
/// instruction fetches say (B3.7.1 and B3.7.2).
fn permitted(regime: &ShortRegime, record: &Record, kind: AccessKind, privileged: bool) -> bool {
    let mut ap = record.ap;
    if bit(regime.sctlr, 29) {
        ap |= 1;
    }
    let write = kind == AccessKind::Write;
    let abort = match ap {
        0b000 => true,
        0b001 => !privileged,
        0b010 => !privileged && write,
        0b011 => false,
        0b100 => true,
        0b101 => !privileged || write,
        _ => write,
    };
    let never = kind == AccessKind::Execute && (record.xn || record.pxn && privileged);
    !abort && !never
}

/// The manual's translation of an access; also whether the domain has a manager.
fn translate(regime: &ShortRegime, access: &Access, read: Read) -> Result<(Record, bool), Abort> {
    let record = table_walk(regime, access.address, read)?;
    let first = record.level == 1;
    let shift = 2 * record.domain;
    let manager = match bits(regime.dacr, shift + 1, shift) {
        0b01 => false,
        0b11 => true,
        _ => {
            let status = if first { 0b01001 } else { 0b01011 };
            return Err(fault(status, record.domain));
        }
    };
    let privileged = access.by == Privilege::Kernel;
    if !manager && !permitted(regime, &record, access.kind, privileged) {
        let status = if first { 0b01101 } else { 0b01111 };
        return Err(fault(status, record.domain));
    }
    if record.address > u64::from(u32::MAX) {
        return Err(Abort::Beyond(record.address));
    }
    Ok((record, manager))
}

/// Type, inner and outer cacheability, shareable and outer shareable; two bits of cacheability as
/// in NMRR.
type Memory = (char, u32, u32, bool, bool);

const ORDERED: Memory = ('S', 0, 0, true, true);

fn default_decode(texcb: u32, s: bool) -> Memory {
    match texcb {
        0b00000 => ORDERED,
        0b00001 => ('D', 0, 0, true, true),
        0b00010 => ('N', 2, 2, s, s),
        0b00011 => ('N', 3, 3, s, s),
        0b00100 => ('N', 0, 0, s, s),
        0b00111 => ('N', 1, 1, s, s),
        0b01000 => ('D', 0, 0, false, false),
        _ if texcb >= 0b10000 => ('N', texcb & 3, texcb >> 2 & 3, s, s),
        // Reserved or implementation defined: here, always the strictest.
        _ => ORDERED,
    }
}

fn remapped_decode(regime: &ShortRegime, texcb: u32, s: bool) -> Memory {
    let region = bits(texcb, 2, 0);
    let outer_allowed = !bit(regime.prrr, region + 24);
    if region == 6 {
        return ORDERED;
    }
    match bits(regime.prrr, 2 * region + 1, 2 * region) {
        0b01 => {
            let s = bit(regime.prrr, if s { 17 } else { 16 });
            ('D', 0, 0, s, s && outer_allowed)
        }
        0b10 => {
            let inner = bits(regime.nmrr, 2 * region + 1, 2 * region);
            let outer = bits(regime.nmrr, 2 * region + 17, 2 * region + 16);
            let s = bit(regime.prrr, if s { 19 } else { 18 });
            ('N', inner, outer, s, s && outer_allowed)
        }
        _ => ORDERED,
    }
}

fn flatten(memory: MemoryType) -> Memory {
    let number = |one| match one {
        Cacheability::NonCacheable => 0,
        Cacheability::WriteBackAllocate => 1,
        Cacheability::WriteThrough => 2,
        Cacheability::WriteBack => 3,
    };
    let (kind, inner, outer) = match memory.kind {
        MemoryKind::StronglyOrdered => ('S', 0, 0),
        MemoryKind::Device => ('D', 0, 0),
        MemoryKind::Normal { inner, outer } => ('N', number(inner), number(outer)),
    };
    let shareable = memory.shareability != Shareability::None;
    let outermost = memory.shareability == Shareability::Outer;
    (kind, inner, outer, shareable, outermost)
}

const KINDS: [AccessKind; 3] = [AccessKind::Read, AccessKind::Write, AccessKind::Execute];
const PRIVILEGES: [Privilege; 2] = [Privilege::Kernel, Privilege::User];

fn compare(regime: &ShortRegime, mapping: &GuestMapping, record: &Record, manager: bool) {
    assert_eq!(mapping.output, Ipa::new(record.address));
    assert_eq!(mapping.size.bytes(), record.kib << 10);
    assert_eq!(u32::from(mapping.domain), record.domain);
    assert_eq!(mapping.global, record.global);
    let memory = if bit(regime.sctlr, 28) {
        remapped_decode(regime, record.texcb, record.s)
    } else {
        default_decode(record.texcb, record.s)
    };
    assert_eq!(flatten(mapping.memory), memory);
    for kind in KINDS {
        for by in PRIVILEGES {
            let privileged = by == Privilege::Kernel;
            let expected = manager || permitted(regime, record, kind, privileged);
            let allowed = mapping.permissions.of(by).allow(kind);
            assert_eq!(allowed, expected, "{kind:?} {by:?} {record:?}");
        }
    }
}

/// Words of guest memory: any value at any address, valid descriptors more often than not.
fn word(seed: u64, at: u64) -> Option<u32> {
    let mixed = (seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let value = (mixed >> 20) as u32;
    match mixed & 0xf {
        0 => None,
        // A supersection below 4 GiB.
        1 => Some(value & !0x00f0_01e3 | 1 << 18 | 0b10),
        2..8 => Some(value & !0b11 | 0b01),
        _ => Some(value),
    }
}

fn regime() -> impl Strategy<Value = ShortRegime> {
    let dacr = prop_oneof![any::<u32>(), Just(0x5555_5555), Just(0xffff_ffff)];
    let ttbcr = prop_oneof![any::<u32>(), 0..8u32];
    (any::<[u32; 5]>(), dacr, ttbcr, any::<bool>()).prop_map(
        |([sctlr, ttbr0, ttbr1, prrr, nmrr], dacr, ttbcr, pxn)| ShortRegime {
            sctlr: sctlr | 1,
            ttbr0,
            ttbr1,
            ttbcr,
            dacr,
            prrr,
            nmrr,
            pxn: if pxn { Pxn::Present } else { Pxn::Absent },
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    let address = prop_oneof![any::<u32>(), any::<u32>().prop_map(|at| at >> 8)];
    let kind = prop::sample::select(KINDS.to_vec());
    let by = prop::sample::select(PRIVILEGES.to_vec());
    (address, kind, by).prop_map(|(address, kind, by)| Access { address, kind, by })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn a_walk_is_the_manual_s(regime in regime(), access in access(), seed in any::<u64>()) {
        let expected = translate(&regime, &access, &|at| word(seed, at));
        match (regime.walk(&access, |at| word(seed, at.get())), expected) {
            (Ok(mapping), Ok((record, manager))) => compare(&regime, &mapping, &record, manager),
            (Err(WalkError::Fault(fault)), Err(expected)) => {
                prop_assert_eq!(Abort::Fault(fault.status(), fault.domain), expected);
            }
            (Err(WalkError::Beyond(at)), Err(expected)) => {
                prop_assert_eq!(Abort::Beyond(at.get()), expected);
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    /// Whatever the bits that are cleared, the normalized regime translates in the same way.
    #[test]
    fn a_normalized_regime_is_the_same(regime in regime(), access in access(), seed in any::<u64>()) {
        let read = |at: Ipa| word(seed, at.get());
        prop_assert_eq!(regime.normalized().walk(&access, read), regime.walk(&access, read));
        prop_assert_eq!(regime.normalized().normalized(), regime.normalized());
    }

    /// Without the MMU (B3.2.1): flat, nothing is read, and the types depend on I alone.
    #[test]
    fn without_the_mmu_all_is_flat(regime in regime(), access in access()) {
        let off = ShortRegime { sctlr: regime.sctlr & !1, ..regime };
        let mapping = off.walk(&access, |_| panic!("no table is read")).unwrap();
        prop_assert_eq!(mapping.output, Ipa::new(access.address.into()));
        prop_assert_eq!(mapping.size, MappingSize::Flat);
        let memory = match access.kind {
            AccessKind::Execute if bit(off.sctlr, 12) => ('N', 2, 2, false, false),
            AccessKind::Execute => ('N', 0, 0, false, false),
            _ => ORDERED,
        };
        prop_assert_eq!(flatten(mapping.memory), memory);
        for (kind, by) in KINDS.into_iter().zip([Privilege::User; 3]) {
            prop_assert!(mapping.permissions.of(by).allow(kind));
        }
    }
}
