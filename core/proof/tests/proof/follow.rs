//! Frames put together by hand, and what is proven about them.

use crate::frames::{a32, data, doubts, followed, frame, halves, instructions, t32};
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use hanok_proof::{
    AfterCall, Cause, Conflict, Contradiction, Execution, FrameProof, Place, Progress, Site,
    Verdict, Words,
};

/// `mrs r0, cpsr`
const MRS: u32 = 0xe10f_0000;
/// `bx lr`
const BX_LR: u32 = 0xe12f_ff1e;

fn conflict(offset: u32, contradiction: Contradiction) -> Progress {
    Progress::Contradictory(Conflict {
        offset,
        contradiction,
    })
}

/// Two functions, and between them a literal that looks like a sensitive instruction.
fn two_functions() -> Words {
    frame(&[(
        0,
        &[
            0xe59f_0004, // ldr r0, [pc, #4]
            0xeb00_0001, // bl 16
            BX_LR,
            MRS, // the literal
            MRS,
            BX_LR,
        ],
    )])
}

#[test]
fn a_literal_between_functions_is_data() {
    let words = two_functions();
    let (proof, progress) = followed(&words, &[a32(0)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 8, 16, 20]);
    assert_eq!(data(&proof), [12, 14]);
    let site = Site {
        offset: 16,
        encoding: Encoding::A32(MRS),
        in_block: false,
        cause: Cause::Sensitive,
    };
    assert_eq!(
        proof.sites(&words, Execution::Free).collect::<Vec<_>>(),
        [site]
    );
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Executable);
    assert_eq!(proof.page(), 0xc000_0000);
}

#[test]
fn nothing_is_proven_before_the_first_fetch() {
    let words = two_functions();
    let (proof, _) = followed(&words, &[]);
    assert_eq!(instructions(&proof, Isa::A32), [0; 0]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Doubtful(12));
}

#[test]
fn what_is_behind_a_call_may_wait_for_its_fetch() {
    let words = two_functions();
    let mut proof = FrameProof::new(0, AfterCall::Stop);
    assert_eq!(proof.follow(a32(0), &words, 100), Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 16, 20]);
    assert_eq!(proof.follow(a32(8), &words, 100), Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 8, 16, 20]);
}

#[test]
fn code_that_is_loaded_is_a_contradiction() {
    // ldr r0, [pc, #-4] loads the word behind itself.
    let words = frame(&[(0, &[0xe51f_0004, 0xe1a0_0000, BX_LR])]);
    let (proof, progress) = followed(&words, &[a32(0)]);
    assert_eq!(progress, conflict(4, Contradiction::CodeAndData));
    assert!(matches!(
        proof.verdict(&doubts(&words)),
        Verdict::Contradictory(_)
    ));
    // The other order: the code is known when it is loaded.
    let (mut proof, _) = followed(&words, &[a32(4)]);
    let again = proof.follow(a32(0), &words, 100);
    assert_eq!(again, conflict(4, Contradiction::CodeAndData));
    assert_eq!(proof.follow(a32(8), &words, 100), again);
}

#[test]
fn every_kind_of_literal_is_data() {
    let loads = [
        (0xe5df_0038, 4), // ldrb r0, [pc, #0x38]
        (0xe1df_03b8, 4), // ldrh
        (0xe1cf_03d8, 8), // ldrd
        (0xed9f_0b0e, 8), // vldr d0
        (0xed9f_0a0e, 4), // vldr s0
        (0xed9f_5e0e, 4), // ldc p14, c5
    ];
    for (word, bytes) in loads {
        let words = frame(&[(0, &[word, BX_LR])]);
        let (proof, _) = followed(&words, &[a32(0)]);
        let found = data(&proof);
        assert_eq!(found.first(), Some(&0x40), "{word:x}");
        assert!(found.len() * 2 <= bytes, "{word:x}");
    }
}

#[test]
fn a_literal_is_data_as_far_as_it_is_in_the_frame() {
    // ldrd r0, [pc, #-16] at 4 begins before the frame; ldrd r0, [pc] at 4084 ends behind it; ldrd
    // r0, [pc, #-40] at 12 is outside.
    let first = [0, 0xe14f_01d0, BX_LR, 0xe14f_02d8, BX_LR];
    let words = frame(&[(0, &first), (4084, &[0xe1cf_00d0, BX_LR])]);
    let (proof, progress) = followed(&words, &[a32(4), a32(12), a32(4084)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(data(&proof), [0, 2, 0xffc, 0xffe]);
}

/// itt eq; mrseq r0, cpsr; bxeq lr; cpsie i; pop {pc}
fn block() -> Vec<u32> {
    halves(&[0xbf04, 0xf3ef, 0x8000, 0x4770, 0xb662, 0xbd00])
}

#[test]
fn a_block_is_followed_with_its_conditions() {
    let words = frame(&[(0x100, &block())]);
    let (proof, progress) = followed(&words, &[t32(0x100)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(
        instructions(&proof, Isa::T32),
        [0x100, 0x102, 0x106, 0x108, 0x10a]
    );
    let sites = proof
        .sites(&words, Execution::Free)
        .map(|site| (site.offset, site.in_block));
    assert_eq!(sites.collect::<Vec<_>>(), [(0x102, true), (0x108, false)]);
}

#[test]
fn a_fetch_in_a_block_continues_the_block() {
    let words = frame(&[(0x100, &block())]);
    let first = Place::new(0x102, Isa::T32, ItState::from_bits(0x04)).expect("a place");
    let (mut proof, _) = followed(&words, &[first]);
    assert_eq!(instructions(&proof, Isa::T32), [0x102, 0x106, 0x108, 0x10a]);
    assert_eq!(proof.follow(t32(0x100), &words, 100), Progress::Finished);
    let outside = proof.follow(t32(0x102), &words, 100);
    assert_eq!(outside, conflict(0x102, Contradiction::Block));
}

#[test]
fn a_branch_into_a_block_is_a_contradiction() {
    // cbz r0, 6; itt eq; moveq r0, #1; moveq r0, #1; bx lr
    let words = frame(&[(0, &halves(&[0xb108, 0xbf04, 0x2001, 0x2001, 0x4770]))]);
    let (_, progress) = followed(&words, &[t32(0)]);
    assert_eq!(progress, conflict(6, Contradiction::Block));
}

#[test]
fn the_middle_of_an_instruction_is_a_contradiction() {
    // cbz r0, 4; nop.w; bx lr
    let words = frame(&[(0, &halves(&[0xb100, 0xf3af, 0x8000, 0x4770]))]);
    let (_, progress) = followed(&words, &[t32(0)]);
    assert_eq!(progress, conflict(4, Contradiction::Overlap));
    // The middle first.
    let (_, progress) = followed(&words, &[t32(4), t32(2)]);
    assert_eq!(progress, conflict(2, Contradiction::Overlap));
}

#[test]
fn two_instruction_sets_at_one_place_are_a_contradiction() {
    let words = frame(&[(0, &[BX_LR, BX_LR])]);
    let (_, progress) = followed(&words, &[a32(0), t32(2)]);
    assert_eq!(progress, conflict(2, Contradiction::InstructionSets));
    let (_, progress) = followed(&words, &[t32(2), a32(0)]);
    assert_eq!(progress, conflict(0, Contradiction::InstructionSets));
}

#[test]
fn the_flow_ends_in_front_of_what_ends_in_the_next_frame() {
    let words = frame(&[(4092, &halves(&[0x2001, 0xf3ef]))]);
    let (proof, progress) = followed(&words, &[t32(4094)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(instructions(&proof, Isa::T32), []);
    // The frame stays doubtful.
    let (proof, progress) = followed(&words, &[t32(4092)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(instructions(&proof, Isa::T32), [4092]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Doubtful(4094));
    // Between two instructions, the flow just leaves.
    let words = frame(&[(4092, &[0xe1a0_0000])]);
    let (_, progress) = followed(&words, &[a32(4092)]);
    assert_eq!(progress, Progress::Finished);
}

#[test]
fn a_call_changes_the_instruction_set() {
    // blx 0x20 (T32); bx lr. There: blx 0x30 (A32); bx lr.
    let words = frame(&[
        (0, &[0xfa00_0006, BX_LR]),
        (0x20, &halves(&[0xf000, 0xe806, 0x4770])),
        (0x30, &[BX_LR]),
    ]);
    let (proof, progress) = followed(&words, &[a32(0)]);
    assert_eq!(progress, Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 0x30]);
    assert_eq!(instructions(&proof, Isa::T32), [0x20, 0x24]);
}

#[test]
fn a_table_ends_the_flow() {
    // ldrls pc, [pc, r3, lsl #2]; b 0x20; a table, of which one entry looks like code.
    let words = frame(&[
        (0, &[0x979f_f103, 0xea00_0005, 0xc000_0040, MRS]),
        (0x20, &[BX_LR]),
    ]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 0x20]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Doubtful(12));
    // tbb [pc, r0], and bytes.
    let words = frame(&[(0, &halves(&[0xe8df, 0xf000, 0x0402, 0x4770]))]);
    let (proof, _) = followed(&words, &[t32(0)]);
    assert_eq!(instructions(&proof, Isa::T32), [0]);
}

#[test]
fn a_budget_only_interrupts() {
    let words = two_functions();
    let (whole, _) = followed(&words, &[a32(0)]);
    let mut proof = FrameProof::new(0, AfterCall::Follow);
    let mut progress = proof.follow(a32(0), &words, 0);
    let mut calls = 0;
    while progress == Progress::Unfinished {
        progress = proof.resume(&words, 1);
        calls += 1;
    }
    assert_eq!(
        instructions(&proof, Isa::A32),
        instructions(&whole, Isa::A32)
    );
    assert_eq!((calls, progress), (5, Progress::Finished));
}

#[test]
fn entries_do_not_break_blocks_that_are_followed() {
    // itt eq; moveq r0, r0; moveq r1, r1; bx lr; and a function behind.
    let words = frame(&[
        (0, &halves(&[0xbf04, 0x4600, 0x4609, 0x4770])),
        (16, &[BX_LR]),
    ]);
    let mut proof = FrameProof::new(0, AfterCall::Follow);
    assert_eq!(proof.follow(t32(0), &words, 2), Progress::Unfinished);
    assert_eq!(proof.follow(a32(16), &words, 1), Progress::Unfinished);
    assert_eq!(proof.resume(&words, 1), Progress::Unfinished);
    assert_eq!(instructions(&proof, Isa::A32), [16]);
    assert_eq!(proof.resume(&words, 1), Progress::Finished);
    assert_eq!(instructions(&proof, Isa::T32), [0, 2, 4, 6]);
    assert!(proof.it(4).is_last());
}

#[test]
fn places_are_inside_and_aligned() {
    let it = ItState::from_bits(8);
    assert_eq!(Place::new(4096, Isa::A32, it), None);
    assert_eq!(Place::new(2, Isa::A32, it), None);
    assert_eq!(Place::new(3, Isa::T32, it), None);
    let place = Place::new(8, Isa::A32, it).expect("a place");
    assert_eq!(
        (place.offset(), place.isa(), place.it()),
        (8, Isa::A32, ItState::NONE)
    );
}
