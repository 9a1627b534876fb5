//! Rewriting and putting back.

use crate::frames::{a32, doubts, followed, frame, halves, t32};
use hanok_abi::trap;
use hanok_decode::aarch32::Encoding;
use hanok_proof::{CAPACITY, Change, Refusal, Rewritten, Verdict};

/// `mrs r0, cpsr`
const MRS: u32 = 0xe10f_0000;
/// `bx lr`
const BX_LR: u32 = 0xe12f_ff1e;

#[test]
fn sites_of_a32_become_traps_and_come_back() {
    // mrs r0, cpsr; cpsid i; nop; bx lr
    let mut words = frame(&[(8, &[MRS, 0xf10c_0080, 0xe1a0_0000, BX_LR])]);
    let original = words;
    let (proof, _) = followed(&words, &[a32(8)]);
    let (mut rewritten, mut seen) = (Rewritten::default(), doubts(&words));
    assert_eq!(rewritten.rewrite(&proof, &mut seen, &mut words), Ok(()));
    assert_eq!(
        trap::original_a32(words[2]),
        Some(trap::Original::Word(MRS))
    );
    assert_eq!(
        trap::original_a32(words[3]),
        Some(trap::Original::Word(0xf10c_0080))
    );
    assert_eq!(words[4..], original[4..]);
    let change = Change {
        offset: 8,
        original: Encoding::A32(MRS),
        new: Encoding::A32(words[2]),
    };
    assert_eq!(rewritten.at(8), Some(&change));
    assert_eq!(rewritten.at(16), None);
    // Once more changes nothing.
    let once = words;
    assert_eq!(rewritten.rewrite(&proof, &mut seen, &mut words), Ok(()));
    assert_eq!((words, rewritten.changes().count()), (once, 2));
    rewritten.restore(&mut seen, &mut words);
    assert_eq!((words, rewritten.changes().count()), (original, 0));
}

#[test]
fn sites_of_t32_become_traps_and_in_a_block_undefined() {
    // nop; itt eq; mrseq r0, cpsr; bxeq lr; cpsie i; mrs r1, cpsr; bx lr
    let code = [
        0xbf00, 0xbf04, 0xf3ef, 0x8000, 0x4770, 0xb662, 0xf3ef, 0x8100, 0x4770,
    ];
    let mut words = frame(&[(0, &halves(&code))]);
    let original = words;
    let (proof, _) = followed(&words, &[t32(0)]);
    let (mut rewritten, mut seen) = (Rewritten::NONE, doubts(&words));
    assert_eq!(rewritten.rewrite(&proof, &mut seen, &mut words), Ok(()));
    let wide = |offset| match rewritten.at(offset).map(|change| change.new) {
        Some(Encoding::Wide(both)) => both,
        other => panic!("{other:x?}"),
    };
    assert_eq!(trap::original_conditional(wide(4)), Some(0xf3ef_8000));
    assert_eq!(trap::original_wide(wide(12)), Some(0xf3ef_8100));
    assert_eq!(trap::original_narrow((words[2] >> 16) as u16), Some(0xb662));
    assert_eq!(words[1] as u16, (wide(4) >> 16) as u16);
    assert_eq!((words[1] >> 16) as u16, wide(4) as u16);
    rewritten.restore(&mut seen, &mut words);
    assert_eq!(words, original);
}

fn refused(mut words: hanok_proof::Words, refusal: Refusal) {
    let original = words;
    let (proof, _) = followed(&words, &[a32(0)]);
    let (mut rewritten, mut seen) = (Rewritten::NONE, doubts(&words));
    assert_eq!(
        rewritten.rewrite(&proof, &mut seen, &mut words),
        Err(refusal)
    );
    assert_eq!((words, rewritten.changes().count()), (original, 0));
}

#[test]
fn what_no_trap_can_hold_is_refused() {
    // stmia r0, {r1, r2}^
    refused(
        frame(&[(0, &[MRS, 0xe8c0_0006, BX_LR])]),
        Refusal::NoForm(4),
    );
}

#[test]
fn too_many_sites_are_refused() {
    let words = frame(&[
        (0, &[MRS; CAPACITY + 1]),
        (CAPACITY as u32 * 4 + 4, &[BX_LR]),
    ]);
    refused(words, Refusal::Full(CAPACITY as u32 * 4));
}

#[test]
fn doubtful_and_contradictory_frames_are_refused() {
    refused(frame(&[(0, &[MRS, BX_LR, MRS])]), Refusal::Doubtful(8));
    let words = frame(&[(0, &[0xe51f_0004, BX_LR])]);
    let (proof, _) = followed(&words, &[a32(0)]);
    let conflict = proof.conflict().expect("it loads code");
    refused(words, Refusal::Contradictory(conflict));
}

#[test]
fn a_trap_that_makes_its_neighbour_doubtful_is_refused() {
    // msr spsr_f, #0; bx lr, and before them what would become an MRS of T32 with the trap's first half.
    let words = frame(&[(0x0c, &[0xf3ef_0000, 0xe368_f000, BX_LR])]);
    let (proof, _) = followed(&words, &[a32(0x10)]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Executable);
    let (mut changed, mut rewritten) = (words, Rewritten::NONE);
    let mut seen = doubts(&words);
    let refused = rewritten.rewrite(&proof, &mut seen, &mut changed);
    assert_eq!(refused, Err(Refusal::Doubtful(0x0e)));
    assert_eq!((changed, rewritten.changes().count()), (words, 0));
}
