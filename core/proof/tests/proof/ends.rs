//! Where a flow ends and where it goes on, and what is no site.

use crate::frames::{a32, data, followed, frame, halves, instructions, t32};
use hanok_decode::aarch32::{Isa, ItState};
use hanok_proof::{AfterCall, Contradiction, Execution, FrameProof, Place, Progress};

/// `bx lr`
const BX_LR: u32 = 0xe12f_ff1e;

/// It is UNPREDICTABLE there, but only if its condition holds.
#[test]
fn a_branch_inside_a_block_may_be_skipped() {
    // itt eq; bxeq lr; moveq r0, #1
    let words = frame(&[(0, &halves(&[0xbf04, 0x4770, 0x2001]))]);
    let (proof, _) = followed(&words, &[t32(0)]);
    assert_eq!(instructions(&proof, Isa::T32), [0, 2, 4, 6]);
}

#[test]
fn the_flow_ends_behind_what_no_manual_defines() {
    let undefined = [
        0xe10f_f000, // mrs pc, cpsr
        0xee00_0000, // cdp p0
        0xfe01_0f10, // mcr2 p15
        0xe7f0_00f0, // udf
        0xe120_0070, // bkpt
    ];
    for word in undefined {
        let words = frame(&[(0, &[word, BX_LR])]);
        let (proof, _) = followed(&words, &[a32(0)]);
        assert_eq!(instructions(&proof, Isa::A32), [0], "{word:x}");
    }
}

#[test]
fn the_flow_goes_on_behind_what_the_hypervisor_answers() {
    let answered = [
        0xef00_0000, // svc 0
        0xe140_0070, // hvc 0
        0xe160_0070, // smc 0
        0xee11_0f10, // mrc p15, 0, r0, c1, c0, 0
        0xeef1_0a10, // vmrs r0, fpscr
    ];
    for word in answered {
        let words = frame(&[(0, &[word, BX_LR])]);
        let (proof, _) = followed(&words, &[a32(0)]);
        assert_eq!(instructions(&proof, Isa::A32), [0, 4], "{word:x}");
        // Each is legal or raises an exception of its own.
        assert_eq!(proof.sites(&words, Execution::Free).count(), 0, "{word:x}");
    }
}

#[test]
fn an_undefined_operand_of_a_sensitive_instruction_is_still_a_site() {
    let words = frame(&[(0, &[0xe10f_f000])]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(
        proof
            .sites(&words, Execution::Free)
            .map(|site| site.offset)
            .collect::<Vec<_>>(),
        [0]
    );
}

#[test]
fn two_places_of_a_block_are_a_contradiction() {
    let words = frame(&[(0, &halves(&[0x2001, 0x4770]))]);
    let place = |bits| Place::new(0, Isa::T32, ItState::from_bits(bits)).expect("a place");
    let (_, progress) = followed(&words, &[place(0x08), place(0x04)]);
    let Progress::Contradictory(conflict) = progress else {
        panic!("{progress:?}");
    };
    assert_eq!(conflict.contradiction, Contradiction::Block);
}

#[test]
fn an_odd_literal_touches_all_its_halfwords() {
    // ldr r0, [pc, #0x39]; ldrb r0, [pc, #0x49]
    let words = frame(&[(0, &[0xe59f_0039, 0xe5df_0049, BX_LR])]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(data(&proof), [0x40, 0x42, 0x44, 0x54]);
}

#[test]
fn a_conditional_call_goes_on() {
    // blne 0x10; blxne r1; bx lr
    let words = frame(&[(0, &[0x1b00_0002, 0x112f_ff31, BX_LR]), (16, &[BX_LR])]);
    let mut proof = FrameProof::new(0, AfterCall::Stop);
    assert_eq!(proof.follow(a32(0), &words, 10), Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 8, 16]);
}

#[test]
fn a_new_fetch_does_not_forget_what_was_left() {
    let words = frame(&[(0, &[0xe1a0_0000, 0xe1a0_0000, BX_LR]), (32, &[BX_LR])]);
    let mut proof = FrameProof::new(0, AfterCall::Follow);
    assert_eq!(proof.follow(a32(0), &words, 1), Progress::Unfinished);
    assert_eq!(proof.follow(a32(32), &words, 1), Progress::Unfinished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 32]);
    assert_eq!(proof.resume(&words, 10), Progress::Finished);
    assert_eq!(instructions(&proof, Isa::A32), [0, 4, 8, 32]);
}

/// More branches than any list would hold: all targets are proven, also in pieces.
#[test]
fn no_target_is_forgotten() {
    let mut words = [BX_LR; 1024];
    for word in words.iter_mut().take(500) {
        *word = 0x0a00_01f2; // beq .+500 words
    }
    for budget in [1, 7, u32::MAX] {
        let mut proof = FrameProof::new(0, AfterCall::Stop);
        let mut progress = proof.follow(a32(0), &words, budget);
        while progress == Progress::Unfinished {
            progress = proof.resume(&words, budget);
        }
        assert_eq!(progress, Progress::Finished);
        let proven = |word: u32| proof.instruction(word * 4).is_some();
        assert!((0..1000).all(proven));
        assert!(!(1000..1024).any(proven));
    }
}
