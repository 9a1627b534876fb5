use super::*;
use crate::aarch32::registers::Registers;
use hanok_types::Width;
use proptest::prelude::*;
use std::vec::Vec;

fn a32(word: u32) -> LoadStore {
    load_store(Encoding::A32(word), ItState::NONE).expect("a load or store")
}

fn t32(first: u16, second: u16) -> LoadStore {
    load_store(Encoding::t32(first, second), ItState::NONE).expect("a load or store")
}

fn r(number: u8) -> Register {
    Register::from_bits(number)
}

/// The address for a base of 0x1000 and an index of 0x10, and the new value of the base.
fn goes(access: &LoadStore) -> (u32, Option<u32>) {
    let resolved = access.address.resolve(0x1000, 0x10, true);
    let written = resolved.write_back.map(|(register, value)| {
        assert_eq!(register, access.address.base);
        value
    });
    (resolved.address, written)
}

#[test]
fn one_register_with_every_way_to_make_an_address() {
    let forms = [
        (0xe5912004u32, 0x1004, None),                // ldr r2, [r1, #4]
        (0xe5112004, 0xffc, None),                    // ldr r2, [r1, #-4]
        (0xe5b12004, 0x1004, Some(0x1004)),           // ldr r2, [r1, #4]!
        (0xe4912004, 0x1000, Some(0x1004)),           // ldr r2, [r1], #4
        (0xe4112004, 0x1000, Some(0xffc)),            // ldr r2, [r1], #-4
        (0xe7912103, 0x1040, None),                   // ldr r2, [r1, r3, lsl #2]
        (0xe7112123, 0x1000 - 0x4, None),             // ldr r2, [r1, -r3, lsr #2]
        (0xe7b12063, 0x8000_1008, Some(0x8000_1008)), // ldr r2, [r1, r3, rrx]!
        (0xe69120e3, 0x1000, Some(0x1008)),           // ldr r2, [r1], r3, ror #1
        (0xe4b12004, 0x1000, Some(0x1004)),           // ldrt r2, [r1], #4
        (0xe1d120b6, 0x1006, None),                   // ldrh r2, [r1, #6]
        (0xe0d120f2, 0x1000, Some(0x1002)),           // ldrsh r2, [r1], #2
        (0xe19120d3, 0x1010, None),                   // ldrsb r2, [r1, r3]
    ];
    for (word, address, base) in forms {
        assert_eq!(goes(&a32(word)), (address, base), "{word:#x}");
        assert_eq!(a32(word).address.base, r(1));
    }
    let Contents::Single(single) = a32(0xe0d120f2).contents else {
        panic!("ldrsh");
    };
    assert_eq!((single.register, single.unprivileged), (r(2), false));
    assert_eq!(single.general.loaded(0x8000), 0xffff_8000);
    let Contents::Single(single) = a32(0xe4b12004).contents else {
        panic!("ldrt");
    };
    assert!(single.unprivileged && single.general.width == Width::Word);
}

#[test]
fn a_block_lies_as_p_and_u_say() {
    // stmda, stmia, stmdb, stmib r1!, {r2, r3, r5}
    let places = [
        (0xe821002cu32, 0x1000 - 8, 0x1000 - 12),
        (0xe8a1002c, 0x1000, 0x1000 + 12),
        (0xe921002c, 0x1000 - 12, 0x1000 - 12),
        (0xe9a1002c, 0x1000 + 4, 0x1000 + 12),
    ];
    for (word, first, base) in places {
        let access = a32(word);
        assert_eq!(goes(&access), (first, Some(base)), "{word:#x}");
        let pieces: Vec<_> = access.pieces(false).map(|p| (p.offset, p.slot)).collect();
        let core = |n| Slot::Core(r(n));
        assert_eq!(pieces, [(0, core(2)), (4, core(3)), (8, core(5))]);
        assert_eq!((access.load, access.bytes()), (false, 12));
    }
    // push {r4, lr}; pop {r4, pc}; ldmia r1, {r1, r2}, which does not write the base back.
    let push = t32(0xb510, 0);
    assert_eq!(goes(&push), (0xff8, Some(0xff8)));
    assert_eq!(push.address.base, Register::SP);
    assert_eq!(goes(&t32(0xbd10, 0)), (0x1000, Some(0x1008)));
    assert_eq!(goes(&t32(0xc906, 0)), (0x1000, None));
}

#[test]
fn some_transfers_are_named_but_not_split() {
    let named = [
        (0xe1912f9fu32, "ldrex"),
        (0xe1012093, "swp"),
        (0xf8910a00, "rfeia"),
        (0xf96d0513, "srsdb"),
        (0xe8d18004, "ldm ^ with pc"),
        (0xf421070f, "vld1"),
        (0xf5d1f000, "pld"),
    ];
    for (word, name) in named {
        assert_eq!(a32(word).pieces(false).count(), 0, "{name}");
    }
    assert!(
        matches!(a32(0xe8d10004).contents, Contents::Block { user: true, registers }
        if registers == Registers::from_bits(4))
    );
    // mcr p15, 0, r0, c7, c14, 1; mov r0, r1; ldc p14; nop.
    for word in [0xee070f3e, 0xe1a00001, 0xed915e00, 0xe320f000] {
        assert_eq!(load_store(Encoding::A32(word), ItState::NONE), None);
    }
}

#[test]
fn halves_of_d_registers_change_places_in_big_endian() {
    // vldmia r1!, {d2, d3}; vstr s5, [r1, #-8]
    let access = a32(0xecb12b04);
    let words = |big| -> Vec<_> {
        let slots = access.pieces(big).map(|piece| piece.slot);
        slots.collect()
    };
    let word = Slot::Extension;
    assert_eq!(words(false), [word(4), word(5), word(6), word(7)]);
    assert_eq!(words(true), [word(5), word(4), word(7), word(6)]);
    assert_eq!(goes(&access), (0x1000, Some(0x1010)));
    let access = a32(0xed412a02);
    let slots: Vec<_> = access.pieces(true).map(|piece| piece.slot).collect();
    assert_eq!(
        (slots.as_slice(), goes(&access)),
        (&[word(5)][..], (0xff8, None))
    );
}

#[test]
fn the_pc_is_ahead_and_aligned() {
    // ldr r2, [pc, #4]: A32; T32 at an address that is no multiple of four.
    assert_eq!(a32(0xe59f2004).pc_base(0x1000), 0x1008);
    assert_eq!(t32(0x4a01, 0).pc_base(0x1002), 0x1004);
    // tbb [pc, r0]
    assert_eq!(t32(0xe8df, 0xf000).pc_base(0x1002), 0x1006);
    assert_eq!(a32(0xe581f000).pc_stored(0x1000), 0x1008);
}

#[test]
fn in_a_block_the_block_gives_the_condition() {
    let it = ItState::from_bits(0x18);
    let access = load_store(Encoding::t32(0x6808, 0), it).expect("ldr r0, [r1]");
    assert_eq!(access.condition, Condition::Ne);
    assert_eq!(a32(0x05912004).condition, Condition::Eq);
}

#[test]
fn shifts_are_those_of_the_manual() {
    let shift = |kind, amount| Shift { kind, amount };
    let value = 0x8000_0011;
    let table = [
        (shift(ShiftKind::Lsl, 4), 0x110),
        (shift(ShiftKind::Lsr, 32), 0),
        (shift(ShiftKind::Lsr, 4), 0x0800_0001),
        (shift(ShiftKind::Asr, 32), 0xffff_ffff),
        (shift(ShiftKind::Asr, 4), 0xf800_0001),
        (shift(ShiftKind::Ror, 4), 0x1800_0001),
        (shift(ShiftKind::Rrx, 1), 0xc000_0008),
    ];
    for (shift, wanted) in table {
        assert_eq!(shifted(value, shift, true), wanted, "{shift:?}");
    }
    assert_eq!(shifted(value, shift(ShiftKind::Rrx, 1), false), 0x4000_0008);
}

/// A transfer of one register has one piece, one of two registers has two; an index is a register
/// or none.
#[test]
fn transfers_are_split_into_words() {
    let slots = |access: LoadStore| -> Vec<_> {
        let pieces = access.pieces(false);
        pieces.map(|piece| (piece.offset, piece.slot)).collect()
    };
    let core = |n| Slot::Core(r(n));
    assert_eq!(slots(a32(0xe5912004)), [(0, core(2))]);
    assert_eq!(slots(a32(0xe1c120d8)), [(0, core(2)), (4, core(3))]);
    assert_eq!(slots(t32(0xe9d1, 0x2502)), [(0, core(2)), (4, core(5))]);
    let index = |word| a32(word).address.index();
    assert_eq!(index(0xe7912103), Some(r(3))); // ldr r2, [r1, r3, lsl #2]
    assert_eq!(index(0xe6912103), Some(r(3))); // ldr r2, [r1], r3, lsl #2
    assert_eq!(index(0xe5912004), None);
    assert_eq!(index(0xe8b1002c), None);
}

/// A list may be as long as the register file (A8.8.332, A8.8.368), and no longer.
#[test]
fn lists_of_vfp_end_where_the_registers_end() {
    let count = |word| match load_store(Encoding::A32(word), ItState::NONE)?.contents {
        Contents::Extension { count, .. } => Some(count),
        _ => None,
    };
    // vldmia r1, {d0 - d15}; {d16 - d31}; {d17 - d32}; {d0 - d16}; {s0 - s31}; {s1 - s32}
    assert_eq!(count(0xec910b20), Some(16));
    assert_eq!(count(0xecd10b20), Some(16));
    assert_eq!(count(0xecd11b20), None);
    assert_eq!(count(0xec910b22), None);
    assert_eq!(count(0xec910a20), Some(32));
    assert_eq!(count(0xecd10a20), None);
    assert_eq!(count(0xec910a21), None);
}

/// "Single n-element structure": two registers of byte lanes are neighbours, aligned or not
/// (A8.8.323).
#[test]
fn lanes_of_bytes_lie_in_neighbours() {
    for (low, wanted) in [
        (0x0u32, Some(1)),
        (0x1, Some(1)),
        (0x2, Some(1)),
        (0x5, Some(1)),
    ] {
        // vld2.8 {d0[n], d1[n]}, [r1]
        let access = a32(0xf4a1010f | low << 4);
        let Contents::Structures(found) = access.contents else {
            panic!("vld2");
        };
        assert_eq!((Some(found.stride), found.elements), (wanted, 2), "{low:x}");
    }
    // For halfwords bit 5 is the distance of the registers: vld2.16 {d0[0], d2[0]}.
    let Contents::Structures(found) = a32(0xf4a1052f).contents else {
        panic!("vld2");
    };
    assert_eq!(found.stride, 2);
    // vld1.8 {d0[n]}: no bit is left below the lane's number, and there is no alignment.
    for low in 0..16u32 {
        let found = load_store(Encoding::A32(0xf4a1000f | low << 4), ItState::NONE);
        assert_eq!(found.is_some(), low & 1 == 0, "{low:x}");
    }
}

/// RFE and SRS of both instruction sets (B9.3.13, B9.3.16): the mode, and the addresses of the two
/// words.
#[test]
fn exceptions_are_kept_where_their_direction_says() {
    for mode in 0..32u16 {
        let wanted = Contents::State(StateTransfer::Srs(mode as u8));
        assert_eq!(a32(0xf96d0500 | u32::from(mode)).contents, wanted);
        assert_eq!(t32(0xe82d, 0xc000 | mode).contents, wanted);
    }
    // rfedb, rfeia r1!
    assert_eq!(goes(&t32(0xe831, 0xc000)), (0x1000 - 8, Some(0x1000 - 8)));
    assert_eq!(goes(&t32(0xe9b1, 0xc000)), (0x1000, Some(0x1008)));
    assert_eq!(goes(&t32(0xe811, 0xc000)), (0x1000 - 8, None));
    assert_eq!(
        t32(0xe9b1, 0xc000).contents,
        Contents::State(StateTransfer::Rfe)
    );
}

/// The encodings beside loads and stores are none: the registers of a pair begin with an even one,
/// SWP is encoded as a store, and fields that should be one are one.
#[test]
fn encodings_that_are_no_loads_or_stores_are_not_described() {
    let none = |encoding| assert_eq!(load_store(encoding, ItState::NONE), None, "{encoding:x?}");
    // ldrd r3; ldrd with the rights of User mode; swp that loads; ldaex
    for word in [
        0xe1c130d8, 0xe0e120d8, 0xe1112093, 0xe1512093, 0xe1912e9f, 0xe1912c9f,
    ] {
        none(Encoding::A32(word));
    }
    // preloads that store, write back, or have bit 4
    for word in [0xf5c1f000, 0xf5f1f000, 0xf7d1f012, 0xf7f1f002, 0xf7c1f002] {
        none(Encoding::A32(word));
    }
    assert_eq!(a32(0xf7d1f002).contents, Contents::Preload);
    for (first, second) in [
        (0xe8c1, 0x2f03), // tbb that stores
        (0xe8c1, 0x2f13),
        (0xe8d1, 0x2f23),
        (0xf931, 0xf00f), // ldrsh to the PC, of twelve bits without U
        (0xf861, 0x2c04), // no width
        (0xf941, 0x2c04), // a signed word that is stored, or loaded
        (0xf951, 0x2c04),
        (0xf851, 0x2043), // a register with more than a shift
        (0xf851, 0x2083),
        (0xf811, 0xfb04), // pld with write-back
        (0xf811, 0xfe04), // and with User mode's rights
        (0xf931, 0xfc04), // a hint that does nothing
    ] {
        none(Encoding::t32(first, second));
    }
    assert_eq!(t32(0xf811, 0xfc04).contents, Contents::Preload);
    // ldrexb, ldrexh, ldrexd
    for (second, width) in [
        (0x2f4f, Width::Byte),
        (0x2f5f, Width::Half),
        (0x235f, Width::Half),
    ] {
        assert_eq!(t32(0xe8d1, second).bytes(), width.bytes() as u32);
    }
    // tbb, tbh [r1, r3]
    assert_eq!(
        (t32(0xe8d1, 0xf003).bytes(), t32(0xe8d1, 0xf013).bytes()),
        (1, 2)
    );
    assert_eq!(goes(&t32(0xe8d1, 0xf003)).0, 0x1010);
    assert_eq!(goes(&t32(0xe8d1, 0xf013)).0, 0x1020);
}

/// What holds for every decoded access.
fn holds_together(access: &LoadStore) {
    let pieces: Vec<_> = access.pieces(false).collect();
    let bytes: u64 = pieces.iter().map(|piece| piece.general.width.bytes()).sum();
    assert!(
        pieces.is_empty() || bytes == u64::from(access.bytes()),
        "{access:x?}"
    );
    assert!(access.bytes() <= 128 && pieces.len() <= 32, "{access:x?}");
    for (piece, next) in pieces.iter().zip(pieces.iter().skip(1)) {
        assert_eq!(piece.offset + 4, next.offset);
    }
    let word = |slot| match slot {
        Slot::Extension(word) => word,
        Slot::Core(_) => 0,
    };
    assert!(
        pieces.iter().all(|piece| word(piece.slot) < 64),
        "{access:x?}"
    );
    if let Contents::Structures(found) = access.contents {
        assert!((1..=4).contains(&found.elements) && (1..=4).contains(&found.registers));
        assert!(found.first + (found.registers - 1) * found.stride < 32);
        if let Lanes::One(lane) = found.lanes {
            assert!(
                (u64::from(lane) + 1) * found.width.bytes() <= 8,
                "{access:x?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn any_word_has_an_answer(word in any::<u32>(), it in any::<u8>()) {
        let it = ItState::from_bits(it);
        for encoding in [Encoding::A32(word), Encoding::t32((word >> 16) as u16, word as u16)] {
            if let Some(access) = load_store(encoding, it) {
                holds_together(&access);
                let _ = access.address.resolve(word, !word, true);
            }
        }
    }
}
