//! Tests T32 over all values of the fields that decide, against the manual's text (DDI 0406C A8.8):
//! loads and stores of two registers and exclusive ones, literals, special data processing, IT.

use hanok_decode::aarch32::{Encoding, Isa, ItState, Register, Registers};
use hanok_instructions::{
    CodePosition, Definition, Exception, Flags, Flow, Instruction, TableKind, Use, decode_t32,
};

fn wide(both: u32) -> Instruction {
    decode_t32((both >> 16) as u16, both as u16, ItState::NONE)
}

fn definition(both: u32) -> Definition {
    wide(both).definition
}

fn is_defined(both: u32) -> bool {
    definition(both) == Definition::Defined
}

fn narrow(half: u16, it: u8) -> Instruction {
    decode_t32(half, 0, ItState::from_bits(it))
}

/// "IN {13,15}"
fn is_bad(register: u32) -> bool {
    register == 13 || register == 15
}

const SOME: [u32; 5] = [1, 2, 13, 14, 15];

/// LDREX and STREX, and STREXB, STREXH and STREXD (A8.8.75, A8.8.212 to A8.8.215). Rd differs from
/// the others.
#[test]
fn exclusives_are_held_to_their_rules() {
    for (n, t) in SOME.iter().flat_map(|n| SOME.map(|t| (*n, t))) {
        let both = n << 16 | t << 12;
        for ones in [0u32, 7, 14, 15] {
            let word = 0xe850_0004 | both | ones << 8;
            assert_eq!(
                is_defined(word),
                !is_bad(t) && n != 15 && ones == 15,
                "{word:x}"
            );
        }
        for d in [3, 13, 15] {
            let word = 0xe840_0004 | both | d << 8;
            let same = d == n || d == t;
            let wanted = !is_bad(d) && !is_bad(t) && n != 15;
            assert!(same || is_defined(word) == wanted, "{word:x}");
            for size in 0..16u32 {
                for t2 in [0, 4, 7, 13, 15] {
                    let word = 0xe8c0_0000 | both | t2 << 8 | size << 4 | d;
                    // Exclusives of a byte or a halfword have ones in brackets where those of two
                    // words have the second register.
                    let fixed = if size == 7 { !is_bad(t2) } else { t2 == 15 };
                    let found = match size {
                        0..=3 | 6 => Definition::Undefined,
                        4 | 5 | 7 if wanted && fixed => Definition::Defined,
                        _ => Definition::Unpredictable,
                    };
                    let same = same || size == 7 && d == t2;
                    assert!(same || definition(word) == found, "{word:x}");
                }
            }
        }
    }
    // strexd r3, r1, r4, [r2]; strexb r3, r1, [r2]
    let [two, one] = [wide(0xe8c2_1473), wide(0xe8c2_1f43)].map(|found| found.effects);
    assert_eq!(two.reads, Registers::from_bits(0b1_0110));
    assert_eq!(one.reads, Registers::from_bits(0b0_0110));
    assert_eq!([two.sets, one.sets], [Registers::from_bits(0b1000); 2]);
}

/// TBB and TBH (A8.8.237).
#[test]
fn tables_are_held_to_their_rules() {
    for (n, m) in SOME.iter().flat_map(|n| SOME.map(|m| (*n, m))) {
        for (half, ones, zeros) in [(0u32, 15u32, 0u32), (1, 15, 0), (0, 14, 0), (1, 15, 1)] {
            let word = 0xe8d0_0000 | n << 16 | ones << 12 | zeros << 8 | half << 4 | m;
            let wanted = n != 13 && !is_bad(m) && ones == 15 && zeros == 0;
            assert_eq!(is_defined(word), wanted, "{word:x}");
            let Flow::Table(table) = wide(word).flow else {
                panic!("{word:x}");
            };
            let kind = [TableKind::Bytes, TableKind::Halfwords][half as usize];
            assert_eq!((table.kind, u32::from(table.shift)), (kind, half));
        }
    }
}

/// LDRD and STRD (A8.8.72, A8.8.73, A8.8.210).
#[test]
fn pairs_are_held_to_their_rules() {
    for (n, t) in SOME.iter().flat_map(|n| SOME.map(|t| (*n, t))) {
        for (t2, puw) in SOME.iter().flat_map(|t2| (2..8).map(|puw| (*t2, puw))) {
            let (p, u, w) = (puw >> 2, puw >> 1 & 1, puw & 1);
            // With neither P nor W it is another instruction.
            if p == 0 && w == 0 {
                continue;
            }
            for load in [0u32, 1] {
                let word = 0xe840_0002 | p << 24 | u << 23 | w << 21 | load << 20;
                let word = word | n << 16 | t << 12 | t2 << 8;
                let back = w == 1 && (n == t || n == t2 || n == 15);
                let other = if load == 1 { t == t2 } else { n == 15 };
                let wanted = !(back || other || is_bad(t) || is_bad(t2));
                assert_eq!(is_defined(word), wanted, "{word:x}");
                let found = wide(word).reference;
                let found = found.map(|found| (found.used, found.at.from(0x1002)));
                let used = [Use::Store(8), Use::Load(8)][load as usize];
                let at = if u == 1 { 0x1004 + 8 } else { 0x1004 - 8 };
                let literal = n == 15 && w == 0;
                assert_eq!(found, literal.then_some((used, at)), "{word:x}");
            }
        }
    }
}

/// LDR and the like from the PC (A8.8.64, A8.8.70, A8.8.82, A8.8.86, A8.8.90; PLD, A8.8.127; PLI,
/// A8.8.130).
#[test]
fn literals_are_held_to_their_rules() {
    for (t, add) in (0..16u32).flat_map(|t| [(t, 0u32), (t, 1)]) {
        for (size, signed) in [(0u32, 0u32), (1, 0), (2, 0), (0, 1), (1, 1)] {
            let word = 0xf81f_0123 | signed << 24 | add << 23 | size << 21 | t << 12;
            let hint = t == 15 && size != 2;
            // In PLD the bit that says "halfword" is a zero in brackets.
            let wrong = hint && size == 1 && signed == 0 || t == 13 && size != 2;
            assert_eq!(is_defined(word), !wrong, "{word:x}");
            let used = if hint {
                Use::Preload
            } else {
                Use::Load(1 << size)
            };
            let at = if add == 1 {
                0x1004 + 0x123
            } else {
                0x1004 - 0x123
            };
            let found = wide(word).reference.expect("a literal");
            assert_eq!((found.used, found.at.from(0x1002)), (used, at), "{word:x}");
        }
    }
}

/// ADD, CMP, MOV of all registers, BX and BLX (A8.8.6, A8.8.37, A8.8.103, A8.8.27, A8.8.26), in
/// no block, inside one, and at its end.
#[test]
fn special_data_processing_is_held_to_its_rules() {
    for (n, m) in (0..16u16).flat_map(|n| (0..16u16).map(move |m| (n, m))) {
        for it in [0, 0x04, 0x08] {
            let half = 0x4400 | (n & 8) << 4 | n & 7 | m << 3;
            let anywhere = it != 0x04;
            let check = |half: u16, wanted: bool| {
                let found = narrow(half, it).definition == Definition::Defined;
                assert_eq!(found, wanted, "{half:x} {it:x}");
            };
            check(half, if n == 15 { anywhere && m != 15 } else { true });
            check(half | 0x100, !(n < 8 && m < 8) && n != 15 && m != 15);
            check(half | 0x200, n != 15 || anywhere);
            check(half | 0x300, anywhere && n & 7 == 0 && !(n == 8 && m == 15));
        }
        let found = narrow(0x4400 | (n & 8) << 4 | n & 7 | m << 3, 0).effects;
        let both = Registers::from_bits(1 << n | 1 << m);
        assert_eq!(
            (found.reads, found.sets),
            (both, Registers::from_bits(1 << n))
        );
    }
}

/// IT (A8.8.54), alone and inside a block; and other instructions that cannot stand in one.
#[test]
fn blocks_are_held_to_their_rules() {
    for bits in 0..256u16 {
        let (first, mask) = (bits >> 4, bits & 0xf);
        // Without a mask it is a hint; those hints that do something are sensitive.
        let always = first == 14 && mask.count_ones() != 1;
        let wanted = mask == 0 || first != 15 && !always;
        let found = |it| narrow(0xbf00 | bits, it).definition == Definition::Defined;
        assert_eq!(found(0), wanted, "{bits:x}");
        assert_eq!([found(0x04), found(0x08)], [mask == 0; 2], "{bits:x}");
        assert_eq!(
            narrow(0xbf00 | bits, 0).sensitive.is_some(),
            mask == 0 && (1..5).contains(&first)
        );
    }
    // beq: not in a block; add r0, #1: anywhere in it; b: only at its end.
    for (half, inside, last) in [
        (0xd000, false, false),
        (0x3001, true, true),
        (0xe000, false, true),
    ] {
        let found = |it| narrow(half, it).definition == Definition::Defined;
        assert_eq!(
            [found(0), found(0x04), found(0x08)],
            [true, inside, last],
            "{half:x}"
        );
    }
}

#[test]
fn exceptions_have_their_numbers() {
    for number in [0u16, 1, 0x5a, 0x80, 0xff] {
        let breakpoint = Flow::Exception(Exception::Breakpoint(number));
        assert_eq!(narrow(0xbe00 | number, 0).flow, breakpoint);
        let supervisor = Flow::Exception(Exception::Supervisor(number.into()));
        assert_eq!(narrow(0xdf00 | number, 0).flow, supervisor);
    }
}

/// A constant that is spread leaves the carry unchanged; one that is rotated writes it (A6.3.2,
/// ThumbExpandImm_C).
#[test]
fn only_rotated_constants_write_the_carry() {
    for constant in 0..1u32 << 12 {
        let (i, imm3, imm8) = (constant >> 11, constant >> 8 & 7, constant & 0xff);
        // movs.w r0, #constant
        let found = wide(0xf05f_0000 | i << 26 | imm3 << 12 | imm8);
        let wanted = if constant < 0x400 {
            Flags::NZ
        } else {
            Flags::NZC
        };
        assert_eq!(found.effects.flags_set, wanted, "{constant:x}");
        let zero = (0x100..0x400).contains(&constant) && imm8 == 0;
        assert_eq!(
            found.definition == Definition::Defined,
            !zero,
            "{constant:x}"
        );
    }
}

/// SSAT, SSAT16, USAT and USAT16 (A8.8.193, A8.8.194, A8.8.252, A8.8.253). With a right shift of
/// zero it is the saturation of both halves, which has two more bits in brackets.
#[test]
fn saturation_is_held_to_its_fixed_bits() {
    for (unsigned, right) in [(0u32, 0u32), (0, 1), (1, 0), (1, 1)] {
        for bits in 0..1u32 << 11 {
            // imm2 and the six bits below; imm3
            let (low, imm3) = (bits & 0xff, bits >> 8);
            let word = 0xf301_0200 | unsigned << 23 | right << 21 | imm3 << 12 | low;
            let halves = right == 1 && imm3 == 0 && low >> 6 == 0;
            let brackets = if halves { 0x30 } else { 0x20 };
            assert_eq!(is_defined(word), low & brackets == 0, "{word:x}");
            assert!(!is_defined(word | 1 << 26), "{word:x}");
        }
    }
}

/// Structures of Advanced SIMD (A7.7) move their base by a register, by their own size or not at
/// all.
#[test]
fn structures_move_their_base_as_rm_says() {
    for (base, load) in [
        (0xf921_070fu32, true),
        (0xf901_070f, false),
        (0xf9a1_030f, true),
    ] {
        for m in 0..16u16 {
            let found = wide(base & !0xf | u32::from(m));
            assert_eq!(found.definition, Definition::Defined, "{base:x} {load} {m}");
            let r1 = Registers::from_bits(0b10);
            let index = if m == 13 || m == 15 { 0 } else { 1 << m };
            assert_eq!(found.effects.reads, r1.with(Registers::from_bits(index)));
            let moved = if m == 15 { Registers::NONE } else { r1 };
            assert_eq!(found.effects.sets, moved, "{m}");
        }
    }
    // The encodings among them are no structures.
    assert_eq!(definition(0xf991_000f), Definition::Defined); // ldrsb.w r0, [r1, #15]
    assert_eq!(definition(0xf9d1_0000), Definition::Undefined); // no signed word is loaded
}

/// VFP between core and extension registers (A8.8.340 to A8.8.348, B9.3.21); and blocks.
#[test]
fn transfers_of_vfp_are_held_to_their_rules() {
    // vmrs apsr_nzcv, fpscr
    let found = wide(0xeef1_fa10);
    assert_eq!(found.definition, Definition::Defined);
    assert_eq!(found.effects.flags_set, Flags::NZCV);
    assert!(found.effects.reads.is_empty() && found.effects.writes.is_empty());
    for (word, t) in [
        0xeef1_0a10u32,
        0xee11_0a10,
        0xee11_0b10,
        0xeef1_0b10,
        0xee01_0a10,
        0xee01_0b10,
    ]
    .iter()
    .flat_map(|word| (0..16u32).map(move |t| (*word, t)))
    {
        let found = wide(word | t << 12);
        let flags = t == 15 && word == 0xeef1_0a10;
        let defined = found.definition == Definition::Defined;
        assert_eq!(defined, t != 15 || flags, "{word:x} {t}");
        if t != 15 {
            let register = Register::from_bits(t as u8).set();
            let none = Registers::NONE;
            let load = word & 1 << 20 != 0;
            let wanted = if load {
                (none, register)
            } else {
                (register, none)
            };
            assert_eq!(
                (found.effects.reads, found.effects.writes),
                wanted,
                "{word:x}"
            );
        }
    }
    // vldmia pc, {d0} and with write-back; vldmia r1!; vldr d0, [pc]
    assert!(is_defined(0xec9f_0b02) && !is_defined(0xecbf_0b02));
    assert!(is_defined(0xecb1_0b02) && is_defined(0xed9f_0b02) && is_defined(0xec91_0b02));
}

/// Coprocessors 10 and 11 have only data processing in the second space; and no coprocessor has an
/// instruction with P, U, W and D clear.
#[test]
fn beside_the_coprocessors_instructions_nothing_is() {
    for number in [10u32, 11] {
        for group in [
            0xfc91_0000u32,
            0xfd91_0000,
            0xfc41_0000,
            0xfe11_0010,
            0xfe01_0000,
        ] {
            let word = group | number << 8;
            assert_eq!(definition(word), Definition::Undefined, "{word:x}");
        }
    }
    // vadd.i8 and vsub.i8 d0, d0, d0; the latter is in the second space.
    for word in [0xef00_0800, 0xff00_0800] {
        let found = wide(word);
        assert_eq!(found.definition, Definition::Defined, "{word:x}");
        assert!(found.effects.reads.is_empty() && found.effects.writes.is_empty());
    }
    for number in 0..16u32 {
        for word in [0xec01_0000u32, 0xec11_0000] {
            let word = word | number << 8;
            assert_eq!(definition(word), Definition::Undefined, "{word:x}");
            let found = hanok_instructions::decode_a32(word).definition;
            assert_eq!(found, Definition::Undefined, "{word:x}");
        }
    }
}

#[test]
fn both_halfwords_are_fetched() {
    let memory = [0xf3bf_u16, 0x8f5b, 0xbf00];
    let read = |address: u32| memory.get(address as usize / 2).copied();
    let at = |address| {
        CodePosition::new(address, Isa::T32)
            .fetch(read)
            .map(|found| found.encoding)
    };
    assert_eq!(at(0), Some(Encoding::Wide(0xf3bf_8f5b)));
    assert_eq!(at(4), Some(Encoding::Narrow(0xbf00)));
    assert_eq!(at(6), None);
    let a32 = CodePosition::new(0, Isa::A32)
        .fetch(read)
        .map(|found| found.encoding);
    assert_eq!(a32, Some(Encoding::A32(0x8f5b_f3bf)));
}
