//! What is refused, and why; landing pads, IT blocks, exclusive accesses; reach.

use crate::{relocated_a64, relocated_arm};
use hanok_abi::trampoline as abi;
use hanok_probe::{
    Argument, InstructionSet, ItBlock, Patch, Probe, Refused, Ring, Site, Standing, branch,
    may_be_between_exclusives, relocate, trampoline,
};
use hanok_types::Gva;
use proptest::prelude::*;

const AT: u64 = 0x4000_0000;
const SLOT: u64 = 0x4000_8000;

fn gva(address: u64) -> Gva {
    Gva::new(address)
}

fn refused(site: &Site<'_>) -> Option<Refused> {
    relocate(site, gva(SLOT)).err()
}

fn a64(word: u32) -> Option<Refused> {
    refused(&relocated_a64::site(AT, &word.to_le_bytes()))
}

fn a32(word: u32) -> Option<Refused> {
    refused(&relocated_arm::site(
        InstructionSet::A32,
        AT as u32,
        &word.to_le_bytes(),
    ))
}

fn t32(halves: &[u16]) -> Option<Refused> {
    let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    refused(&relocated_arm::site(InstructionSet::T32, AT as u32, &bytes))
}

#[test]
fn each_instruction_is_refused_for_its_reason() {
    use Refused::{
        ChangesTranslation, Exception, Exclusive, IntoSite, NeedsRegister, OpensItBlock,
        TableBranch, Unknown, VectorLiteral,
    };
    for (word, why) in [
        (0x885f_7c01, Exclusive),          // ldxr
        (0xc805_fc41, Exclusive),          // stlxr
        (0xd420_0000, Exception),          // brk
        (0xd440_0000, Exception),          // hlt
        (0xd400_0001, Exception),          // svc
        (0xd400_0002, Exception),          // hvc
        (0xd400_0003, Exception),          // smc
        (0x0000_0000, Unknown),            // udf
        (0x1c00_0040, VectorLiteral),      // ldr s0
        (0x5800_005f, NeedsRegister),      // ldr xzr
        (0xd63f_03c0, NeedsRegister),      // blr x30
        (0xd73f_083e, NeedsRegister),      // blraa x1, x30
        (0xd518_1000, ChangesTranslation), // msr sctlr_el1
        (0xd518_2020, ChangesTranslation), // msr ttbr1_el1
        (0xd503_24ff, Unknown),            // pacm
        (0x7400_0000, Unknown),            // cbgt
        (0x0420_0000, Unknown),            // add of SVE
    ] {
        assert_eq!(a64(word), Some(why), "{word:#x}");
    }
    for word in [
        0xd503_201f,
        0xd503_207f,
        0xd503_205f,
        0xd503_3fdf,
        0xd503_233f,
        0xd503_245f,
        0xd69f_03e0,
        0xd518_2100,
        0xf980_0000,
        0xd65f_0bff,
    ] {
        // nop, wfi, wfe, isb, paciasp, bti c, eret, msr apiakeylo_el1, prfm, retaa
        assert_eq!(a64(word), None, "{word:#x}");
    }
    for (word, why) in [
        (0xe190_1f9f, Exclusive),          // ldrex
        (0xe180_3f94, Exclusive),          // strex
        (0xef00_0000, Exception),          // svc
        (0xe120_0070, Exception),          // bkpt
        (0xe7f0_00f0, Exception),          // udf
        (0xe51f_f004, NeedsRegister),      // ldr pc, [pc, #-4]
        (0xe08f_f100, NeedsRegister),      // add pc, pc, r0, lsl #2
        (0xe58d_f000, NeedsRegister),      // str pc, [sp]
        (0xe92d_8000, NeedsRegister),      // push {pc}
        (0xe12f_ff3e, NeedsRegister),      // blx lr
        (0xe59f_d000, NeedsRegister),      // ldr sp, [pc]
        (0xed9f_0b00, VectorLiteral),      // vldr d0, [pc]
        (0xee01_0f10, ChangesTranslation), // mcr sctlr
        (0xee02_0f10, ChangesTranslation), // mcr ttbr0
        (0xe5bf_0004, Unknown),            // ldr r0, [pc, #4]!
    ] {
        assert_eq!(a32(word), Some(why), "{word:#x}");
    }
    for (halves, why) in [
        (&[0xe850u16, 0x1f00][..], Exclusive), // ldrex
        (&[0xdf00, 0xbf00], Exception),        // svc
        (&[0xbe00, 0xbf00], Exception),        // bkpt
        (&[0xbf08, 0x2000], OpensItBlock),     // it eq
        (&[0xbf00, 0xbf08], OpensItBlock),     // nop; it eq
        (&[0xe8df, 0xf000], TableBranch),      // tbb [pc, r0]
        (&[0xe8d0, 0xf011], TableBranch),      // tbh [r0, r1, lsl #1]
        (&[0x4780, 0xbf00], IntoSite),         // blx r0; nop
        (&[0xe7ff, 0xbf00], IntoSite),         // b to the second one
        (&[0x4487, 0xbf00], NeedsRegister),    // add pc, r0
        (&[0xf8df, 0xf000], NeedsRegister),    // ldr.w pc, [pc]
        (&[0xf7f0, 0xa000], Exception),        // udf.w
        (&[0xb700, 0xbf00], Unknown),
    ] {
        assert_eq!(t32(halves), Some(why), "{halves:x?}");
    }
    assert_eq!(t32(&[0xe7fe, 0xbf00]), None); // b to itself
    assert_eq!(t32(&[0xbf00, 0x4780]), None); // nop; blx r0
    assert_eq!(t32(&[0xbf00]), Some(Refused::MissingBytes));
    assert_eq!(t32(&[0xbf00, 0xf8d0]), Some(Refused::MissingBytes));
}

#[test]
fn a_reason_is_a_sentence() {
    for why in [
        Refused::Unknown,
        Refused::VectorLiteral,
        Refused::OutOfReach,
    ] {
        assert!(why.to_string().split(' ').count() > 5, "{why}");
    }
}

#[test]
fn landing_pads_are_refused_in_guarded_pages() {
    for hint in [25u32, 27, 32, 34, 36, 38] {
        let bytes = (0xd503_201f | hint << 5).to_le_bytes();
        let site = relocated_a64::site(AT, &bytes);
        assert_eq!(refused(&site), None);
        let guarded = Site {
            guarded: true,
            ..site
        };
        assert_eq!(refused(&guarded), Some(Refused::LandingPad));
    }
    let bytes = 0xd503_23bfu32.to_le_bytes(); // autiasp
    let site = Site {
        guarded: true,
        ..relocated_a64::site(AT, &bytes)
    };
    assert_eq!(refused(&site), None);
}

#[test]
fn a_narrow_instruction_takes_the_next_one_along_only_if_it_may() {
    let code = [0x10, 0xb5, 0xd0, 0xf8, 0x04, 0x10]; // push {r4, lr}; ldr.w r1, [r0, #4]
    let site = relocated_arm::site(InstructionSet::T32, AT as u32, &code);
    let made = relocate(&site, gva(SLOT)).expect("fine");
    assert_eq!(made.displaced, 6);
    let [second, third] = [SLOT + 2, SLOT + 6].map(gva);
    assert_eq!(made.second, Some(second));
    assert_eq!(made.origin(gva(SLOT)), Some(gva(AT)));
    assert_eq!(made.origin(second), Some(gva(AT + 2)));
    assert_eq!(made.origin(third), Some(gva(AT + 2)));
    assert_eq!(made.origin(gva(made.code.here())), None);
    let alone = Site {
        joined: false,
        ..site
    };
    assert_eq!(refused(&alone), Some(Refused::TooShort));
    for (block, why) in [
        (ItBlock::Inside, Refused::InItBlock),
        (ItBlock::Unknown, Refused::ItBlockUnknown),
    ] {
        assert_eq!(refused(&Site { block, ..site }), Some(why));
    }
}

fn bytes(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

#[test]
fn it_blocks_before_a_site_are_found() {
    let plain = [0x2000u16; 7];
    assert_eq!(ItBlock::before(&bytes(&plain)), ItBlock::Outside);
    assert_eq!(ItBlock::before(&bytes(&plain[..6])), ItBlock::Unknown);
    // itttt with three instructions of two halfwords, then the site.
    let most = [0xbf01, 0xf240, 0, 0xf240, 0, 0xf240, 0];
    assert_eq!(ItBlock::before(&bytes(&most)), ItBlock::Unknown);
    let shorter = [0xbf02, 0xf240, 0, 0xf240, 0, 0xf240, 0];
    assert_eq!(ItBlock::before(&bytes(&shorter)), ItBlock::Outside);
    for (it, inside) in [(0xbf08, 0), (0xbf04, 1), (0xbf02, 2), (0xbf01, 3)] {
        for between in 0..5 {
            let mut code = plain.to_vec();
            code.push(it);
            code.extend(&plain[..between]);
            let expected = if between <= inside {
                ItBlock::Unknown
            } else {
                ItBlock::Outside
            };
            assert_eq!(
                ItBlock::before(&bytes(&code)),
                expected,
                "{it:#x} {between}"
            );
        }
    }
    // A hint is no IT, and a block that ends in the midst of an instruction is none.
    assert_eq!(
        ItBlock::before(&bytes(&[0x2000, 0, 0, 0, 0, 0, 0xbf10])),
        ItBlock::Outside
    );
    assert_eq!(
        ItBlock::before(&bytes(&[0, 0, 0, 0, 0, 0xbf08, 0xf240])),
        ItBlock::Outside
    );
}

#[test]
fn sites_between_exclusive_accesses_are_found() {
    let a64 = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let (load, store, add) = (0x885f_7c01, 0x8803_7c02, 0x1100_0422);
    let set = InstructionSet::A64;
    let between =
        |set, before: &[u8], behind: &[u8]| may_be_between_exclusives(set, before, behind);
    assert!(between(set, &a64(&[add, load, add]), &a64(&[add, store])));
    assert!(between(set, &a64(&[load]), &[]) && between(set, &[], &a64(&[add, store])));
    assert!(!between(
        set,
        &a64(&[load, store]),
        &a64(&[add, load, store])
    ));
    assert!(!between(set, &[], &[]) && !between(set, &a64(&[add]), &a64(&[add])));
    assert!(between(set, &a64(&[0x895e_72ac]), &[])); // ldtxr
    let (load, store) = (0xe190_1f9f, 0xe180_3f94);
    let set = InstructionSet::A32;
    assert!(between(set, &a64(&[load, 0xe1a0_0000]), &[]));
    assert!(!between(
        set,
        &a64(&[load, store, 0xe190_0c9f]),
        &a64(&[0xe190_0c9f])
    )); // lda
    // T32, at any halfword: ldrex, ldrexb, strexd.
    let set = InstructionSet::T32;
    for load in [[0xe850, 0x1f00], [0xe8d0, 0x1f4f]] {
        for after in 0..3 {
            let code = [&load[..], &[0xbf00; 3][..after]].concat();
            assert!(between(set, &bytes(&code), &[]), "{code:x?}");
        }
    }
    assert!(between(set, &[], &bytes(&[0xbf00, 0xe8c0, 0x2371])));
    assert!(!between(
        set,
        &bytes(&[0xe8d0, 0xf001]),
        &bytes(&[0xe8df, 0xf000])
    )); // tbb
    assert!(!between(set, &bytes(&[0xe8d0, 0x1faf]), &[])); // lda
}

#[test]
fn a_patch_knows_what_stands_at_its_site() {
    let patch = Patch {
        site: gva(AT),
        original: [1, 2, 3, 4],
        patched: [5, 6, 7, 8],
    };
    assert_eq!(patch.standing([5, 6, 7, 8]), Standing::Ours);
    assert_eq!(patch.standing([1, 2, 3, 4]), Standing::Original);
    assert_eq!(patch.standing([5, 6, 7, 4]), Standing::Rewritten);
}

#[test]
fn rings_are_aligned_and_do_not_wrap() {
    let ring = |head, records, capacity| Ring::new(gva(head), gva(records), capacity);
    assert!(ring(0x1000, 0x1040, 64).is_ok());
    for (head, records, capacity) in [
        (0x1008, 0x1040, 64),
        (0x1000, 0x1050, 64),
        (0x1000, 0x1040, 1),
        (0x1000, 0x1040, 65),
        (0x1000, 0x1040, 1 << 21),
        (0x1000, u64::MAX - 31, 2),
        (0x1000, 0x1000, 2),
        (0x1070, 0x1000, 4),
    ] {
        assert_eq!(ring(head, records, capacity), Err(Refused::Misaligned));
    }
}

/// The largest distances of each instruction set, forward and backward, from the manual.
#[test]
fn branches_reach_as_far_as_the_manual_says() {
    for (set, ahead, forward, backward, step) in [
        (InstructionSet::A64, 0, (1i64 << 27) - 4, -(1i64 << 27), 4),
        (InstructionSet::A32, 8, (1 << 25) - 4, -(1 << 25), 4),
        (InstructionSet::T32, 4, (1 << 24) - 2, -(1 << 24), 2),
    ] {
        let from = 0x4000_0000u64;
        let to = |distance: i64| {
            branch(
                set,
                gva(from),
                gva(from.wrapping_add_signed(distance + ahead)),
            )
        };
        assert!(to(forward).is_ok() && to(backward).is_ok(), "{set:?}");
        assert_eq!(to(forward + step), Err(Refused::OutOfReach), "{set:?}");
        assert_eq!(to(backward - step), Err(Refused::OutOfReach), "{set:?}");
        assert_eq!(
            branch(set, gva(from + 1), gva(from)),
            Err(Refused::Misaligned)
        );
    }
    let beyond = gva(1 << 32);
    assert_eq!(
        branch(InstructionSet::A32, beyond, beyond),
        Err(Refused::Misaligned)
    );
}

#[test]
fn slots_out_of_reach_are_refused() {
    let code = 0xd503_201fu32.to_le_bytes();
    let site = relocated_a64::site(AT, &code);
    for far in [AT + (1 << 27), AT + (1 << 40)] {
        assert_eq!(relocate(&site, gva(far)), Err(Refused::OutOfReach));
    }
    // Back it is one word farther.
    assert_eq!(
        relocate(&site, gva(AT - (1 << 27))),
        Err(Refused::OutOfReach)
    );
    assert_eq!(relocate(&site, gva(SLOT + 2)), Err(Refused::Misaligned));
}

/// What a caller, or a guest by its code, may say.
fn anything() -> impl Strategy<Value = (InstructionSet, u64, u64, Vec<u8>, Argument)> {
    let argument = prop_oneof![
        any::<u8>().prop_map(Argument::Register),
        (any::<u8>(), any::<i32>()).prop_map(|(base, offset)| Argument::Word { base, offset }),
        any::<u64>().prop_map(|at| Argument::Fixed(gva(at))),
    ];
    let near = prop_oneof![any::<u64>(), 0u64..0x2000, 0xffff_f000u64..0x1_0000_1000];
    let code = proptest::collection::vec(any::<u8>(), 0..8);
    (
        crate::trampolines::sets(),
        near,
        any::<i32>(),
        code,
        argument,
    )
        .prop_map(|(set, at, distance, code, argument)| {
            let slot = at.wrapping_add_signed((distance >> 7).into());
            (set, at & !3, slot & !3, code, argument)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn there_is_an_answer_to_everything((set, at, slot, code, argument) in anything()) {
        let site = Site { at: gva(at), ..relocated_arm::site(set, 0, &code) };
        let _ = relocate(&site, gva(slot));
        let ring = Ring::new(gva(at & !31), gva(slot & !31), 4);
        if let Ok(ring) = ring {
            let (slot, arguments) = (gva(slot), [argument, Argument::None]);
            let _ = trampoline(&Probe { site, slot, ring, number: 0, arguments });
        }
        let _ = may_be_between_exclusives(set, &code, &code);
        prop_assert!(ItBlock::before(&code) != ItBlock::Inside);
    }

    /// The other crate that makes such branches makes the same ones.
    #[test]
    fn branches_are_those_of_other_trampolines(from: u32, to: u32, near in -0x200_0000i32..0x200_0000) {
        for to in [to, from.wrapping_add_signed(near)] {
            let [a32, t32] = [3, 1].map(|mask| (from & !mask, to & !mask));
            let ours = |set, (from, to): (u32, u32)| {
                let made = branch(set, gva(from.into()), gva(to.into())).ok();
                made.map(u32::from_le_bytes)
            };
            let theirs = abi::branch(0xe000_0000, a32.0, a32.1);
            prop_assert_eq!(ours(InstructionSet::A32, a32), theirs);
            let theirs = abi::t32::enter(t32.0, t32.1).map(|both| both.rotate_left(16));
            prop_assert_eq!(ours(InstructionSet::T32, t32), theirs);
        }
    }
}
