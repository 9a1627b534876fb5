//! Tests properties of the A32 and T32 decoder, and encodings made here whose meaning is known.

use hanok_decode::aarch32::{
    Condition, Isa, ItState, Register, Registers, sensitive_a32, sensitive_t32,
};
use hanok_instructions::{Definition, Flow, Reference, TableKind, Use, decode_a32, decode_t32};
use proptest::prelude::*;

fn wide(bits: u32) -> hanok_instructions::Instruction {
    decode_t32((bits >> 16) as u16, bits as u16, ItState::NONE)
}

/// B.W (encoding T4) and BL, put together by the manual's description (DDI 0406C A8.8.18).
fn far(link: bool, exchange: bool, offset: i32) -> u32 {
    let bits = offset as u32;
    let (s, i1, i2) = (bits >> 24 & 1, bits >> 23 & 1, bits >> 22 & 1);
    let (j1, j2) = ((i1 ^ 1) ^ s, (i2 ^ 1) ^ s);
    let middle = if link { 0xd000 } else { 0x9000 } & if exchange { !0x1000 } else { !0 };
    let first = 0xf000 | s << 10 | bits >> 12 & 0x3ff;
    let second = middle | j1 << 13 | j2 << 11 | bits >> 1 & 0x7ff;
    first << 16 | second
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a32_branches_go_where_they_were_sent(words in -0x80_0000i32..0x80_0000, address: u32) {
        let (offset, address) = (words * 4, address & !3);
        let target = address.wrapping_add_signed(offset);
        let field = (words.wrapping_sub(2) as u32) & 0xff_ffff;
        for (bits, isa) in [(0xea00_0000, None), (0xeb00_0000, Some(Isa::A32))] {
            let found = decode_a32(bits | field);
            prop_assert_eq!(found.target(address), Some(target), "{:x?}", bits);
            prop_assert_eq!(called(found.flow), isa);
            prop_assert_eq!(found.falls_through(), false);
        }
        for half in [0, 1] {
            let found = decode_a32(0xfa00_0000 | half << 24 | field);
            prop_assert_eq!(found.target(address), Some(target.wrapping_add(half * 2)));
            prop_assert_eq!(called(found.flow), Some(Isa::T32));
        }
    }

    #[test]
    fn t32_branches_go_where_they_were_sent(halves in -0x80_0000i32..0x80_0000, address: u32) {
        let (offset, address) = (halves * 2, address & !1);
        let target = address.wrapping_add_signed(offset).wrapping_add(4);
        let jump = wide(far(false, false, offset));
        prop_assert_eq!(jump.target(address), Some(target));
        let plain = matches!(jump.flow, Flow::Jump { by_register: false, .. });
        prop_assert!(plain);
        let call = wide(far(true, false, offset));
        prop_assert_eq!(call.target(address), Some(target));
        prop_assert_eq!(called(call.flow), Some(Isa::T32));
        let exchange = wide(far(true, true, offset & !3));
        let aligned = (address & !3).wrapping_add_signed(offset & !3).wrapping_add(4);
        prop_assert_eq!(exchange.target(address), Some(aligned));
        prop_assert_eq!(called(exchange.flow), Some(Isa::A32));
    }

    #[test]
    fn narrow_branches_go_where_they_were_sent(halves in -0x80i32..0x80, condition in 0u16..14) {
        let found = decode_t32(0xd000 | condition << 8 | halves as u16 & 0xff, 0, ItState::NONE);
        prop_assert_eq!(found.target(0x1000), Some(0x1004u32.wrapping_add_signed(halves * 2)));
        prop_assert_eq!(found.condition, Condition::from_bits(condition as u8));
        prop_assert!(found.falls_through());
        let half = (halves as u16 & 0x3f) << 3;
        let test = decode_t32(0xb100 | half & 0xf8 | (half & 0x100) << 1, 0, ItState::NONE);
        prop_assert_eq!(test.target(0x1000), Some(0x1004 + u32::from(halves as u16 & 0x3f) * 2));
        prop_assert!(test.falls_through() && test.effects.reads == Register::from_bits(0).set());
    }

    #[test]
    fn both_ways_of_asking_agree(word: u32, it: u8) {
        let it = ItState::from_bits(it);
        prop_assert_eq!(decode_a32(word).sensitive, sensitive_a32(word));
        let (first, second) = ((word >> 16) as u16, word as u16);
        prop_assert_eq!(decode_t32(first, second, it).sensitive, sensitive_t32(first, second, it));
    }

    #[test]
    fn a_block_gives_its_conditions(first in 0u8..14, mask in 1u8..16) {
        let it = decode_t32(0xbf00 | u16::from(first) << 4 | u16::from(mask), 0, ItState::NONE);
        let mut state = it.it_after(ItState::NONE);
        let length = 4 - mask.trailing_zeros();
        for place in 0..length {
            prop_assert_eq!(state.is_last(), place + 1 == length);
            let lowest = if place == 0 { first & 1 } else { mask >> (4 - place) & 1 };
            prop_assert_eq!(state.condition(), Condition::from_bits(first & !1 | lowest));
            // nop
            state = decode_t32(0xbf00, 0, state).it_after(state);
        }
        prop_assert_eq!(state, ItState::NONE);
    }
}

fn called(flow: Flow) -> Option<Isa> {
    match flow {
        Flow::Call { isa, .. } => Some(isa),
        _ => None,
    }
}

#[test]
fn tables_are_found() {
    let table = |flow| match flow {
        Flow::Table(table) => (table.kind, table.index.number(), table.shift, table.at),
        other => panic!("{other:?}"),
    };
    // addls pc, pc, r3, lsl #2; ldrls pc, [pc, r3, lsl #2]
    let (kind, index, shift, at) = table(decode_a32(0x908f_f103).flow);
    assert_eq!((kind, index, shift), (TableKind::Code, 3, 2));
    assert_eq!(at.map(|at| at.from(0x1000)), Some(0x1008));
    let (kind, _, _, at) = table(decode_a32(0x979f_f103).flow);
    assert_eq!(
        (kind, at.map(|at| at.from(0x1000))),
        (TableKind::Addresses, Some(0x1008))
    );
    // tbb [pc, r0]; tbh [pc, r1, lsl #1], at an address that is no multiple of four
    let (kind, _, _, at) = table(wide(0xe8df_f000).flow);
    assert_eq!(
        (kind, at.map(|at| at.from(0x1002))),
        (TableKind::Bytes, Some(0x1006))
    );
    let (kind, index, _, _) = table(wide(0xe8df_f011).flow);
    assert_eq!((kind, index), (TableKind::Halfwords, 1));
    // ldr.w pc, [r2, r3, lsl #2]
    let (kind, index, _, at) = table(wide(0xf852_f023).flow);
    assert_eq!((kind, index, at), (TableKind::Addresses, 3, None));
}

#[test]
fn literals_are_found() {
    let place =
        |found: Option<Reference>, address| found.map(|found| (found.used, found.at.from(address)));
    // ldr r0, [pc, #-8]; ldrd r0, r1, [pc, #8]; vldr d0, [pc, #16]; add r0, pc, #4
    let a32 = |word| place(decode_a32(word).reference, 0x1000);
    assert_eq!(a32(0xe51f_0008), Some((Use::Load(4), 0x1000)));
    assert_eq!(a32(0xe1cf_00d8), Some((Use::Load(8), 0x1010)));
    assert_eq!(a32(0xed9f_0b04), Some((Use::Load(8), 0x1018)));
    assert_eq!(a32(0xe28f_0004), Some((Use::Address, 0x100c)));
    // ldr r0, [pc, #4]; adr r0, #4; ldr.w r0, [pc, #-4], all at an odd halfword
    let narrow = |half| place(decode_t32(half, 0, ItState::NONE).reference, 0x1002);
    assert_eq!(narrow(0x4801), Some((Use::Load(4), 0x1008)));
    assert_eq!(narrow(0xa001), Some((Use::Address, 0x1008)));
    assert_eq!(
        place(wide(0xf85f_0004).reference, 0x1002),
        Some((Use::Load(4), 0x1000))
    );
}

#[test]
fn returns_are_told_from_jumps() {
    // bx lr; mov pc, lr; pop {pc}; ldr pc, [r0]
    for (word, flow) in [
        (0xe12f_ff1e, Flow::Register(Register::LR)),
        (0xe1a0_f00e, Flow::Register(Register::LR)),
        (0xe8bd_8000, Flow::Loaded),
        (0xe590_f000, Flow::Loaded),
        (0xe8fd_8000, Flow::Return),
    ] {
        let found = decode_a32(word);
        assert_eq!((found.flow, found.falls_through()), (flow, false));
    }
    assert!(decode_a32(0x012f_ff1e).falls_through());
}

#[test]
fn of_what_is_not_defined_nothing_is_known() {
    // UDF; an A32 word and a T32 pair that are unallocated in ARMv7-A
    for found in [
        decode_a32(0xe7f0_00f0),
        decode_a32(0xf100_0010 | 1 << 27),
        wide(0xfb00_00f0),
    ] {
        assert_eq!(found.definition, Definition::Undefined);
        assert_eq!(found.effects.reads, Registers::ALL);
        assert_eq!(found.kills(), Registers::NONE);
    }
}

/// Their fixed bits are those of DDI 0406C A8.8.32 (CLREX), A8.8.43, A8.8.44 and A8.8.53 (the
/// barriers), A8.8.126 and A8.8.128 (PLD).
#[test]
fn barriers_and_preloads_are_held_to_their_fixed_bits() {
    use Definition::{Defined, Unpredictable};
    for (word, definition) in [
        (0xf57f_f01f, Defined),       // clrex
        (0xf57f_f010, Unpredictable), // its lowest bits
        (0xf577_f01f, Unpredictable),
        (0xf57e_f01f, Unpredictable),
        (0xf57f_e01f, Unpredictable),
        (0xf57f_f04f, Defined), // dsb sy
        (0xf57f_f05b, Defined), // dmb ish
        (0xf57f_f06f, Defined), // isb
        (0xf57f_f044, Defined), // an option that is none means all
        (0xf57e_f04f, Unpredictable),
        (0xf57f_e05f, Unpredictable),
        (0xf57f_f16f, Unpredictable),
        (0xf57f_f00f, Unpredictable), // no barrier of this number
        (0xf57f_f02f, Unpredictable),
        (0xf57f_f07f, Unpredictable),
        (0xf5d1_f000, Defined),       // pld [r1]
        (0xf5d1_e000, Unpredictable), // where the register of a load would be
        (0xf7d1_f002, Defined),       // pld [r1, r2]
        (0xf7d1_f00f, Unpredictable), // pld [r1, pc]
    ] {
        assert_eq!(decode_a32(word).definition, definition, "{word:x}");
    }
    let reads = |word| decode_a32(word).effects.reads;
    let [r1, r2] = [1, 2].map(|number| Register::from_bits(number).set());
    assert_eq!(reads(0xf57f_f01f), Registers::NONE);
    assert_eq!(reads(0xf5d1_f000), r1);
    assert_eq!(reads(0xf7d1_f002), r1.with(r2));
    // RRX shifts the carry in.
    assert!(decode_a32(0xf7d1_f062).effects.flags_read.c());
    assert!(!decode_a32(0xf7d1_f0e2).effects.flags_read.c());
}

#[test]
fn code_lies_at_multiples_of_its_shortest_instruction() {
    assert_eq!((Isa::A32.alignment(), Isa::T32.alignment()), (4, 2));
}

/// The same for T32 (A6.3.4), and data processing with a shifted register (A6.3.11).
#[test]
fn t32_is_held_to_its_fixed_bits() {
    use Definition::{Defined, Undefined, Unpredictable};
    for (both, definition) in [
        (0xf3bf_8f2f, Defined),       // clrex
        (0xf3bf_8f20, Unpredictable), // its lowest bits
        (0xf3bf_8f4f, Defined),       // dsb sy
        (0xf3bf_8f44, Defined),
        (0xf3bf_8f5b, Defined), // dmb ish
        (0xf3bf_8f6f, Defined), // isb
        (0xf3be_8f6f, Unpredictable),
        (0xf3bf_af6f, Unpredictable),
        (0xf3bf_8e6f, Unpredictable),
        (0xf3bf_8f1f, Defined),   // enterx
        (0xf3bf_8f3f, Undefined), // no barrier of this number
        (0xf3bf_8f7f, Undefined),
        (0xf3af_8000, Defined),       // nop.w
        (0xf3a0_8000, Unpredictable), // where an instruction has Rn
        (0xf3c1_8f00, Defined),       // bxj r1
        (0xf3cd_8f00, Unpredictable),
        (0xf3c1_8f01, Unpredictable),
        (0xeb01_0002, Defined),       // add.w r0, r1, r2
        (0xeb01_8002, Unpredictable), // bit 15
        (0xeb01_000f, Unpredictable), // add.w r0, r1, pc
        (0xeac1_0002, Defined),       // pkhbt r0, r1, r2
        (0xeac1_0022, Defined),       // pkhtb
        (0xeac1_0012, Undefined),
        (0xead1_0002, Undefined),
        (0xeac1_0d02, Unpredictable), // to SP
        (0xf101_1000, Unpredictable), // a zero spread
        (0xf101_1001, Defined),
        (0xf101_0000, Defined),
    ] {
        assert_eq!(wide(both).definition, definition, "{both:x}");
    }
}

#[test]
fn adr_of_t32_reckons_from_an_aligned_pc() {
    let place = |both: u32| {
        let found = wide(both)
            .reference
            .map(|found| (found.used, found.at.from(0x1002)));
        assert_eq!(wide(both).effects.sets, Register::from_bits(3).set());
        found
    };
    // adr.w r3, #0x123; adr.w r3, #-0x923
    assert_eq!(place(0xf20f_1323), Some((Use::Address, 0x1004 + 0x123)));
    assert_eq!(place(0xf6af_1323), Some((Use::Address, 0x1004 - 0x923)));
    assert_eq!(wide(0xf20f_0d04).definition, Definition::Unpredictable);
}

#[test]
fn shifts_of_t32_have_their_amount_in_two_places() {
    let reads_carry = |both: u32| wide(both).effects.flags_read.c();
    // adds.w r0, r1, r2, rrx: a rotation by zero; ror #4 and #1 in either place
    assert!(reads_carry(0xeb11_0032));
    assert!(!reads_carry(0xeb11_1032) && !reads_carry(0xeb11_0072));
}

/// A6.3.5 and A6.3.6, A8.8.58 (LDM), A8.8.77 (LDREXB) and the encodings beside them.
#[test]
fn lists_and_exclusives_of_t32_are_held_to_their_rules() {
    use Definition::{Defined, Undefined, Unpredictable};
    for (both, definition) in [
        (0xe891_0003, Defined),       // ldm.w r1, {r0, r1}
        (0xe891_8001, Defined),       // {r0, pc}
        (0xe891_0001, Unpredictable), // one alone
        (0xe891_0000, Unpredictable),
        (0xe8b1_0003, Unpredictable), // written back and loaded
        (0xe8b1_0005, Defined),
        (0xe891_c001, Unpredictable), // pc and lr
        (0xe891_2001, Unpredictable), // sp
        (0xe89f_0003, Unpredictable), // at the pc
        (0xe881_0003, Defined),       // stm.w
        (0xe881_8001, Unpredictable), // with the pc
        (0xe881_4001, Defined),
        (0xe8d1_0f4f, Defined),       // ldrexb r0, [r1]
        (0xe8d1_0f5f, Defined),       // ldrexh
        (0xe8d1_027f, Defined),       // ldrexd r0, r2, [r1]
        (0xe8d1_007f, Unpredictable), // both the same
        (0xe8d1_0270, Unpredictable),
        (0xe8d1_0f40, Unpredictable), // the lowest bits
        (0xe8d1_0e4f, Unpredictable), // the place of Rt2
        (0xe8d1_df4f, Unpredictable), // to SP
        (0xe8df_0f4f, Unpredictable), // at the PC
        (0xe8d1_0f2f, Undefined),
        (0xe8d1_0f6f, Undefined),
        (0xe8d1_0f8f, Unpredictable),
    ] {
        assert_eq!(wide(both).definition, definition, "{both:x}");
    }
    let sets = |both| wide(both).effects.sets;
    assert_eq!(sets(0xe8d1_0f4f), Registers::from_bits(1));
    assert_eq!(sets(0xe8d1_027f), Registers::from_bits(0b101));
}

/// Only a value that is loaded from a fixed place is data among code.
#[test]
fn of_vfp_single_loads_alone_have_a_literal() {
    let used = |word| decode_a32(word).reference.map(|found| found.used);
    assert_eq!(used(0xed9f_0b02), Some(Use::Load(8))); // vldr d0, [pc, #8]
    assert_eq!(used(0xed9f_0a02), Some(Use::Load(4))); // vldr s0, [pc, #8]
    assert_eq!(used(0xed8f_0b02), Some(Use::Store(8))); // vstr
    assert_eq!(used(0xec9f_0b02), None); // vldmia pc, {d0}
    assert_eq!(used(0xecbf_0b02), None);
    assert_eq!(used(0xed91_0b02), None); // vldr d0, [r1, #8]
    let place = |word| {
        decode_a32(word)
            .reference
            .map(|found| found.at.from(0x1000))
    };
    assert_eq!(place(0xed9f_0b02), Some(0x1010));
    assert_eq!(place(0xed1f_0b02), Some(0x1000));
}
