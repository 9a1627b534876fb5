//! Sensitive instructions of A32 by all values of the fields that decide (DDI 0406C A8.8, B3.15 to
//! B3.17, B8.1, B9.3).

use hanok_decode::aarch32::{Facility, Operation, UserMode, sensitive_a32};

fn user(word: u32) -> Option<UserMode> {
    sensitive_a32(word).map(|found| found.user)
}

fn is_right(word: u32) -> Option<bool> {
    sensitive_a32(word).map(|found| found.as_it_should_be)
}

fn facility(word: u32) -> Option<Facility> {
    match sensitive_a32(word)?.operation {
        Operation::Coprocessor(coprocessor) => Some(coprocessor.facility()),
        _ => None,
    }
}

/// MRRC and MCRR of two registers: the counters can be read, comparators written, too, and of c11
/// and c15 the CPU's own manual says what they are; of CP14 two registers of debug can be read.
#[test]
fn pairs_are_as_the_manual_says_in_user_mode() {
    use UserMode::{Configured, Undefined};
    for (opc1, crm) in (0..16u32).flat_map(|opc1| (0..16u32).map(move |crm| (opc1, crm))) {
        for (load, base) in [(true, 0xec51_0000), (false, 0xec41_0000)] {
            let of = |number: u32| base | number << 8 | opc1 << 4 | crm;
            let timer = crm == 14 && opc1 < 4 && (load || opc1 >= 2);
            let open = timer || crm == 11 || crm == 15;
            let wanted = if open { Configured } else { Undefined };
            assert_eq!(user(of(15)), Some(wanted), "{load} {opc1} {crm}");
            let debug = load && opc1 == 0 && (crm == 1 || crm == 2);
            let wanted = if debug { Configured } else { Undefined };
            assert_eq!(user(of(14)), Some(wanted), "{load} {opc1} {crm}");
            let block = match crm {
                7 => Facility::Cache,
                9 => Facility::PerformanceMonitor,
                14 => Facility::Timer,
                15 => Facility::Implementation,
                _ => Facility::System,
            };
            assert_eq!(facility(of(15)), Some(block), "{opc1} {crm}");
            assert_eq!(facility(of(14)), Some(Facility::Debug));
        }
    }
}

/// Where each register of CP15 belongs: by the tables of B3.17.
#[test]
fn registers_belong_where_the_manual_has_them() {
    use Facility::{
        Barrier, Cache, DomainAccess, Implementation, PerformanceMonitor, System, ThreadRegister,
        Timer, Tlb,
    };
    for bits in 0..1u32 << 14 {
        let (opc1, opc2) = (bits & 7, bits >> 3 & 7);
        let (crn, crm) = (bits >> 6 & 15, bits >> 10);
        let word = 0xee00_1f10 | opc1 << 21 | crn << 16 | opc2 << 5 | crm;
        let wanted = match crn {
            3 => DomainAccess,
            7 if opc1 == 0 && (crm, opc2) == (5, 4) => Barrier,
            7 if opc1 == 0 && crm == 10 && (opc2 == 4 || opc2 == 5) => Barrier,
            7 => Cache,
            8 => Tlb,
            9 if opc1 == 0 && (12..15).contains(&crm) => PerformanceMonitor,
            10 if crm == 2 || crm == 3 => System,
            9..=11 | 15 => Implementation,
            13 => ThreadRegister,
            14 if opc1 == 0 && crm >= 8 => PerformanceMonitor,
            14 => Timer,
            _ => System,
        };
        assert_eq!(facility(word), Some(wanted), "{word:x}");
        // Where opc1 is not zero, only what the CPU's own manual says can be open.
        if opc1 > 0 {
            let open = crn == 15;
            let wanted = if open {
                UserMode::Configured
            } else {
                UserMode::Undefined
            };
            assert_eq!(user(word), Some(wanted), "{word:x}");
        }
        let debug = match opc1 {
            6 => Facility::ThumbEe,
            7 => Facility::Jazelle,
            _ => Facility::Debug,
        };
        assert_eq!(facility(word & !0x100), Some(debug), "{word:x}");
    }
    for number in 0..14u32 {
        let found = facility(0xee00_1010 | number << 8);
        let wanted = match number {
            10 | 11 => Facility::FloatingPoint,
            _ => Facility::Vendor,
        };
        assert!(found.is_none_or(|found| found == wanted), "{number}");
    }
}

/// PLDW (A8.8.126, A8.8.128): neither register is the PC, and ones stand where a load has Rt.
#[test]
fn preloads_for_writing_are_held_to_their_rules() {
    for (n, t) in [0, 1, 14, 15]
        .iter()
        .flat_map(|n| [0, 14, 15].map(|t| (*n, t)))
    {
        for up in [0, 1] {
            let both = n << 16 | t << 12 | up << 23;
            let right = n != 15 && t == 15;
            for distance in [0, 4, 0xfff] {
                assert_eq!(
                    is_right(0xf510_0000u32 | both | distance),
                    Some(right),
                    "{n} {t}"
                );
            }
            for m in [0, 1, 15] {
                for shift in [0, 0x20, 0x80, 0xfe0] {
                    let word = 0xf710_0000u32 | both | shift | m;
                    assert_eq!(is_right(word), Some(right && m != 15), "{word:x}");
                    // With bit 4 it is none of these.
                    assert_eq!(is_right(word | 0x10), None, "{word:x}");
                }
            }
        }
    }
}

/// RFE and SRS (B9.3.13, B9.3.16): all but the direction, the mode and the write-back is fixed.
#[test]
fn returns_and_stores_of_exceptions_are_held_to_their_fixed_bits() {
    for direction in 0..4u32 {
        for (back, n) in [0, 1]
            .iter()
            .flat_map(|b| [0, 1, 13, 14, 15].map(|n| (*b, n)))
        {
            let both = 0xf800_0000 | direction << 23 | back << 21 | n << 16;
            for list in [0x0a00u32, 0x0a01, 0x0b00, 0x0200, 0x8a00] {
                let right = list == 0x0a00 && n != 15;
                assert_eq!(is_right(both | 1 << 20 | list), Some(right), "{list:x} {n}");
            }
            for list in [0x0500u32, 0x0513, 0x051f, 0x0520, 0x0710, 0x4513] {
                let right = list & !0x1f == 0x0500 && n == 13;
                assert_eq!(is_right(both | 1 << 22 | list), Some(right), "{list:x} {n}");
            }
            // With both bits, or with neither, it is none of these.
            assert_eq!(is_right(both | 0x0a00), None);
            assert_eq!(is_right(both | 5 << 20 | 0x0a00), None);
        }
    }
}

/// CPS (B9.3.2): what is enabled or disabled is named, and a mode only where it is changed.
#[test]
fn changes_of_state_are_held_to_their_rules() {
    for bits in 0..1u32 << 11 {
        // imod, M, A, I, F, mode
        let (imod, with_mode) = (bits & 3, bits >> 2 & 1);
        let (masks, mode) = (bits >> 3 & 7, bits >> 6);
        let word = 0xf100_0000 | imod << 18 | with_mode << 17 | masks << 6 | mode;
        // "if mode != '00000' && M == '0'", "if (imod<1> == '1' && A:I:F == '000') || (imod<1> ==
        // '0' && A:I:F != '000')", "if imod == '01' || (imod == '00' && M == '0')"
        let unpredictable = mode != 0 && with_mode == 0
            || (imod >> 1 == 1) == (masks == 0)
            || imod == 0b01
            || imod == 0b00 && with_mode == 0;
        assert_eq!(is_right(word), Some(!unpredictable), "{word:x}");
    }
}
