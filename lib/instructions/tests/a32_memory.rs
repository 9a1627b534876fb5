//! Tests loads and stores of A32, and the encodings beside them, over all values of the fields that
//! decide, against the manual's text (DDI 0406C A8.8).

use hanok_decode::aarch32::Register;
use hanok_instructions::{
    Definition, Exception, Flow, Instruction, Reference, TableKind, Use, decode_a32,
};

fn definition(word: u32) -> Definition {
    decode_a32(word).definition
}

fn is_defined(word: u32) -> bool {
    definition(word) == Definition::Defined
}

fn place(found: Option<Reference>) -> Option<(Use, u32)> {
    found.map(|found| (found.used, found.at.from(0x1000)))
}

const SOME: [u32; 5] = [0, 1, 2, 14, 15];

/// P, U and W of a word, and whether it writes its base back: P clear is post-indexed.
fn forms() -> impl Iterator<Item = (u32, bool)> {
    (0..8u32).map(|puw| {
        let (p, u, w) = (puw >> 2, puw >> 1 & 1, puw & 1);
        (p << 24 | u << 23 | w << 21, p == 0 || w == 1)
    })
}

/// LDR, LDRB, STR and STRB (A8.8.62 to A8.8.69, A8.8.203 to A8.8.208), without the unprivileged
/// ones.
#[test]
fn singles_are_held_to_their_rules() {
    for (form, back) in forms().filter(|(form, _)| form & 1 << 24 != 0 || form & 1 << 21 == 0) {
        for (n, t) in SOME.iter().flat_map(|n| SOME.map(|t| (*n, t))) {
            for (byte, load) in [(0u32, 0u32), (0, 1), (1, 0), (1, 1)] {
                let word = 0xe400_0000 | form | byte << 22 | load << 20 | n << 16 | t << 12;
                // "if wback && (n == 15 || n == t)", of bytes "t == 15", of a register "m == 15".
                let right = !(back && (n == 15 || n == t)) && !(byte == 1 && t == 15);
                for offset in [0, 0x00f, 0x123, 0xfff] {
                    let found = decode_a32(word | offset);
                    assert_eq!(is_defined(word | offset), right, "{word:x}");
                    let bytes = if byte == 1 { 1 } else { 4 };
                    let used = [Use::Store(bytes), Use::Load(bytes)][load as usize];
                    let add = form & 1 << 23 != 0;
                    let at = if add {
                        0x1008 + offset
                    } else {
                        0x1008 - offset
                    };
                    let wanted = (n == 15 && !back).then_some((used, at));
                    assert_eq!(place(found.reference), wanted, "{word:x} {offset:x}");
                }
                for m in [3, 15] {
                    let word = word | 1 << 25 | m;
                    assert_eq!(is_defined(word), right && m != 15, "{word:x}");
                    assert_eq!(decode_a32(word).reference, None, "{word:x}");
                }
            }
        }
    }
}

/// Only `ldr pc, [base, index, lsl #2]` is a jump through a table.
#[test]
fn only_one_form_of_load_is_a_table() {
    for bits in 0..1u32 << 12 {
        // load, W, B, U, P; kind of shift, amount
        let (high, shift) = (bits & 0x1f, bits >> 5);
        for t in [4, 15] {
            let word = 0xe601_0002 | high << 20 | t << 12 | shift << 5;
            // With P clear and W set the access is unprivileged.
            if high & 0b1_0010 == 0b0_0010 || word & 0x10 != 0 {
                continue;
            }
            let wanted = high == 0b1_1001 && t == 15 && shift == 0b00010 << 2;
            match decode_a32(word).flow {
                Flow::Table(table) => {
                    assert!(wanted, "{word:x}");
                    let named = (table.kind, table.base.number(), table.index.number());
                    assert_eq!(named, (TableKind::Addresses, 1, 2), "{word:x}");
                    assert_eq!((table.shift, table.at), (2, None), "{word:x}");
                }
                Flow::Loaded => assert!(!wanted && high & 1 == 1 && t == 15, "{word:x}"),
                flow => assert!(flow == Flow::Next && (high & 1 == 0 || t == 4), "{word:x}"),
            }
        }
    }
}

/// LDRH, STRH, LDRSB, LDRSH, LDRD and STRD (A8.8.72 to A8.8.88, A8.8.210 to A8.8.217).
#[test]
fn extras_are_held_to_their_rules() {
    let kinds = [
        (0x10_00b0u32, Use::Load(2)),
        (0x10_00d0, Use::Load(1)),
        (0x10_00f0, Use::Load(2)),
        (0x00_00b0, Use::Store(2)),
        (0x00_00d0, Use::Load(8)),
        (0x00_00f0, Use::Store(8)),
    ];
    for (kind, used) in kinds {
        let pair = matches!(used, Use::Load(8) | Use::Store(8));
        for (form, back) in forms().filter(|(form, _)| form & 1 << 24 != 0 || form & 1 << 21 == 0) {
            for (n, t) in SOME.iter().flat_map(|n| SOME.map(|t| (*n, t))) {
                let word = 0xe000_0000 | kind | form | n << 16 | t << 12;
                // "if t == 15", "wback && (n == 15 || n == t)"; of two "Rt<0> == '1'", "t2 == 15".
                let twice = n == t || pair && n == t + 1;
                let even = !pair || t % 2 == 0 && t != 14;
                let right = t != 15 && even && !(back && (n == 15 || twice));
                for offset in [0u32, 0x2f, 0xf0, 0x5a] {
                    let word = word | 1 << 22 | (offset & 0xf0) << 4 | offset & 0xf;
                    assert_eq!(is_defined(word), right, "{word:x}");
                    let add = form & 1 << 23 != 0;
                    let at = if add {
                        0x1008 + offset
                    } else {
                        0x1008 - offset
                    };
                    let wanted = (n == 15 && !back).then_some((used, at));
                    assert_eq!(place(decode_a32(word).reference), wanted, "{word:x}");
                }
                // M differs from the others; the bits above it are zeros.
                for (m, zeros) in [(6, 0u32), (15, 0), (6, 1), (6, 8), (6, 15)] {
                    let word = word | zeros << 8 | m;
                    let wanted = right && m != 15 && zeros == 0;
                    assert_eq!(is_defined(word), wanted, "{word:x}");
                    assert_eq!(decode_a32(word).reference, None, "{word:x}");
                }
            }
        }
    }
}

/// Encodings that have other values than ones in the brackets of exclusives belong to later
/// architectures.
#[test]
fn other_exclusives_are_unpredictable() {
    for (ones, load) in (0..15u32).flat_map(|ones| [(ones, 0u32), (ones, 1)]) {
        let word = 0xe181_2090 | load << 20 | ones << 8 | if load == 1 { 0xf } else { 3 };
        assert_eq!(definition(word), Definition::Unpredictable, "{word:x}");
    }
}

/// "Unallocated memory hint (treat as NOP)" of A5.7.1.
#[test]
fn hints_to_memory_that_are_none_yet_do_nothing() {
    for u in [0u32, 1 << 23] {
        for low in [0u32, 0xf000, 0x10, 0x1_2345, 0xfffff] {
            let found = decode_a32(0xf410_0000 | u | low);
            assert_eq!(found.definition, Definition::Defined, "{low:x}");
            assert!(found.effects.reads.is_empty() && found.effects.writes.is_empty());
            let wanted = match low & 0x10 {
                0 => Definition::Defined,
                _ => Definition::Undefined,
            };
            assert_eq!(definition(0xf610_0000 | u | low), wanted, "{low:x}");
        }
    }
}

/// NOP (A8.8.119); comparisons go on whatever their bits in brackets are; constants are rotated by
/// twice the number (A5.2.4).
#[test]
fn data_processing_is_held_to_its_fixed_bits() {
    assert!(is_defined(0xe320_f000));
    assert_eq!(definition(0xe320_e000), Definition::Unpredictable);
    assert_eq!(definition(0xe320_f100), Definition::Unpredictable);
    for word in [0xe350_f000, 0xe151_f002, 0xe31f_f00f, 0xe17f_f001] {
        let found = decode_a32(word);
        assert_eq!(found.definition, Definition::Unpredictable, "{word:x}");
        assert_eq!(found.flow, Flow::Next, "{word:x}");
    }
    for (word, at) in [
        (0xe28f_0b01u32, 0x1408), // add r0, pc, #0x400
        (0xe24f_0f01, 0x1004),    // sub r0, pc, #4
        (0xe28f_04ff, 0xff00_1008),
    ] {
        let found = place(decode_a32(word).reference);
        assert_eq!(found, Some((Use::Address, at)), "{word:x}");
    }
}

/// SVC, BKPT, SMC and HVC have their numbers; of branches by a register, only BX takes the PC.
#[test]
fn exceptions_have_their_numbers() {
    let flow = |word| decode_a32(word).flow;
    for number in [0u32, 1, 0x80_0001, 0xab_cdef, 0xff_ffff] {
        let wanted = Flow::Exception(Exception::Supervisor(number));
        assert_eq!(flow(0xef00_0000 | number), wanted);
    }
    for number in [0u16, 1, 0x10, 0xabcd, 0xffff, 0x8000] {
        let bits = u32::from(number) >> 4 << 8 | u32::from(number) & 0xf;
        let wanted = Flow::Exception(Exception::Breakpoint(number));
        assert_eq!(flow(0xe120_0070 | bits), wanted);
        assert!(is_defined(0xe120_0070 | bits));
        // "if cond != '1110' then UNPREDICTABLE"
        assert_eq!(definition(0x0120_0070 | bits), Definition::Unpredictable);
    }
    assert_eq!(flow(0xe160_0070), Flow::Exception(Exception::Monitor));
    assert_eq!(flow(0xe140_0070), Flow::Exception(Exception::Hypervisor));
    for m in 0..16 {
        let to = Register::from_bits(m as u8);
        assert_eq!(flow(0xe12f_ff10 | m), Flow::Register(to));
        assert_eq!(flow(0xe12f_ff20 | m), Flow::Register(to));
        assert_eq!(flow(0xe12f_ff30 | m), Flow::CallRegister(to));
        assert!(is_defined(0xe12f_ff10 | m));
        assert_eq!(is_defined(0xe12f_ff20 | m), m != 15);
        assert_eq!(is_defined(0xe12f_ff30 | m), m != 15);
        assert!(!is_defined(0xe12f_ef20 | m) && !is_defined(0xe12e_ff30 | m));
    }
}

/// Of instructions that go elsewhere, calls return, and so do exceptions that are handled.
#[test]
fn calls_and_answered_exceptions_come_back() {
    let comes_back = |word| Instruction::comes_back(&decode_a32(word));
    for word in [
        0xeb00_0000,
        0xfa00_0000,
        0xe12f_ff31,
        0xef00_0000,
        0xe160_0070,
    ] {
        assert!(comes_back(word), "{word:x}");
    }
    for word in [
        0xea00_0000,
        0xe12f_ff1e,
        0xe7f0_00f0,
        0xe1a0_0000,
        0xe8bd_8000,
    ] {
        assert!(!comes_back(word), "{word:x}");
    }
}

/// LDC and STC name a word where they have an offset from the PC and do not write back.
#[test]
fn transfers_of_coprocessors_name_a_place_by_the_pc() {
    let at = |word| place(decode_a32(word).reference);
    assert_eq!(at(0xed9f_5e02), Some((Use::Load(4), 0x1010)));
    assert_eq!(at(0xed1f_5e02), Some((Use::Load(4), 0x1000)));
    assert_eq!(at(0xed8f_5e02), Some((Use::Store(4), 0x1010)));
    for word in [
        0xedbf_5e02,
        0xecbf_5e02,
        0xec9f_5e02,
        0xed91_5e02,
        0xecb1_5e02,
    ] {
        assert_eq!(at(word), None, "{word:x}");
    }
}
