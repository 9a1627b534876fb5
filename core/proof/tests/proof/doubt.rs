//! Which places are doubtful, beside the definition.

use crate::anything::frames;
use crate::frames::{a32, doubts, followed, frame, halves};
use hanok_decode::aarch32::{ItState, is_wide, sensitive_a32, sensitive_t32};
use hanok_proof::{AfterCall, Doubts, FrameProof, Looked, Verdict, Words};
use proptest::prelude::*;

fn wrong_t32(first: u16, second: u16) -> bool {
    sensitive_t32(first, second, ItState::NONE)
        .is_some_and(|found| found.as_it_should_be && found.user.must_be_rewritten())
}

fn wrong_a32(word: u32) -> bool {
    sensitive_a32(word).is_some_and(|found| found.as_it_should_be && found.user.must_be_rewritten())
}

/// MRS of CPSR and LSR by 16 of the same register, for R0 to R12.
fn is_upper_half(word: u32, behind: u32) -> bool {
    let pairs = (0..13).map(|to| (0xe10f_0000 + to * 0x1000, 0xe1a0_0820 + to * 0x1001));
    pairs.into_iter().any(|pair| pair == (word, behind))
}

/// Whether the place with this number of halfwords goes wrong, word by word as the definition says.
fn is_doubtful(proof: &FrameProof, words: &[u16], at: usize) -> bool {
    let known = |half: usize| {
        let offset = half as u32 * 2;
        half >= words.len() || proof.is_code(offset) || proof.is_data(offset)
    };
    let first = words[at];
    let whole = !known(at) || !known(at + 1);
    let word = |at: usize| u32::from(words[at + 1]) << 16 | u32::from(words[at]);
    if at.is_multiple_of(2) && whole && wrong_a32(word(at)) {
        return at + 4 > words.len() || !is_upper_half(word(at), word(at + 2));
    }
    match (is_wide(first), words.get(at + 1)) {
        (false, _) => !known(at) && wrong_t32(first, 0),
        (true, Some(second)) => whole && wrong_t32(first, *second),
        (true, None) => !known(at) && (0..=0xffff).any(|second| wrong_t32(first, second)),
    }
}

fn brute_force(proof: &FrameProof, words: &Words) -> Option<u32> {
    let halves: Vec<u16> = words
        .iter()
        .flat_map(|word| [*word as u16, (*word >> 16) as u16])
        .collect();
    let found = (0..halves.len()).find(|at| is_doubtful(proof, &halves, *at));
    found.map(|at| at as u32 * 2)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_definition_says_the_same((words, entries) in frames(), last: u16) {
        let mut words = words;
        words[1023] = words[1023] & 0xffff | u32::from(last) << 16;
        let mut proof = FrameProof::new(0, AfterCall::Follow);
        for entry in entries {
            let _ = proof.follow(entry, &words, u32::MAX);
        }
        prop_assert_eq!(proof.doubtful(&doubts(&words)), brute_force(&proof, &words));
    }

    /// What was not looked at is doubtful, whatever it is.
    #[test]
    fn pieces_only_take_longer((words, entries) in frames(), budget in 1u32..300) {
        let mut proof = FrameProof::new(0, AfterCall::Follow);
        for entry in entries {
            let _ = proof.follow(entry, &words, u32::MAX);
        }
        let whole = proof.doubtful(&doubts(&words));
        let mut pieces = Doubts::new();
        while pieces.looked() == Looked::Partly {
            let found = proof.doubtful(&pieces);
            prop_assert!(found.is_some() || whole.is_none());
            prop_assert!(found.is_none_or(|at| whole.is_none_or(|whole| at <= whole)));
            let _ = pieces.look(&words, budget);
        }
        prop_assert!(pieces == doubts(&words));
    }

    /// Stores, each in one word, and words with what goes wrong in them.
    #[test]
    fn updates_are_the_same_as_to_look_anew(
        (words, _) in frames(),
        stores in proptest::collection::vec((0u32..1026, wrong()), 1..20),
    ) {
        let mut words = words;
        let mut updated = doubts(&words);
        for (at, value) in stores {
            if let Some(word) = words.get_mut(at as usize) {
                *word = value;
            }
            updated.update(at, &words);
            prop_assert!(updated == doubts(&words));
        }
    }
}

/// Words that go wrong, that are half of what does, and others.
fn wrong() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0xe10f_0000u32),
        Just(0xe1a0_0820),
        Just(0xb662_b662),
        Just(0xf3ef_0000),
        Just(0xf3ef_8000),
        Just(0x0000_8000),
        Just(0),
        any::<u32>(),
    ]
}

/// A last halfword is doubtful if some second one makes it go wrong. All second ones were compared
/// once; here it is every seventh.
#[test]
fn the_last_halfword_is_judged_with_any_behind_it() {
    let (proof, _) = followed(&[0; 1024], &[]);
    for first in 0xe800..=0xffff {
        let mut words = [0; 1024];
        words[1023] = u32::from(first) << 16;
        let any = (0..=0xffff)
            .step_by(7)
            .any(|second| wrong_t32(first, second));
        let alone = wrong_a32(words[1023]);
        let found = proof.doubtful(&doubts(&words));
        assert!(!any || found.is_some(), "{first:x}");
        assert!(found != Some(4094) || !alone, "{first:x}");
        let one = found == Some(4094) && (0..=0xffff).any(|second| wrong_t32(first, second));
        assert!(one || found != Some(4094), "{first:x}");
    }
}

#[test]
fn every_place_is_judged_in_both_sets() {
    let cases = [
        (0x10, vec![0xe10f_0000], Some(0x10)), // mrs r0, cpsr, as A32
        (0x10, halves(&[0xb662, 0x4770]), Some(0x10)), // cpsie i, as T32
        (0x10, halves(&[0x0000, 0xf3ef, 0x8000]), Some(0x12)), // mrs r0, cpsr, across two words
        (0x10, vec![0xe59f_1000], None),
        (0xffc, halves(&[0x0000, 0xf3ef]), Some(0xffe)), // its second half is in the next frame
    ];
    for (offset, code, expected) in cases {
        let mut words = [0; 1024];
        let at = offset as usize / 4;
        words[at..at + code.len()].copy_from_slice(&code);
        let (proof, _) = followed(&words, &[]);
        assert_eq!(proof.doubtful(&doubts(&words)), expected, "{code:x?}");
    }
}

#[test]
fn what_is_proven_is_not_doubtful() {
    // ldr r0, [pc, #-0]; bx lr; a literal; then the same word where nothing loads it.
    let code = [0xe59f_0000, 0xe12f_ff1e, 0xe10f_0000, 0xe10f_0000];
    let words = frame(&[(0, &code)]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Doubtful(12));
    let words = frame(&[(0, &code[..3])]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(proof.verdict(&doubts(&words)), Verdict::Executable);
}

/// The first half is proven data, the second one is not, and 32 halfwords end between them.
#[test]
fn an_open_second_half_is_enough() {
    // ldrh r0, [pc, #54]; bx lr; then mrs r0, cpsr of T32 at 62.
    let mut words = frame(&[(0, &[0xe1df_03b6, 0xe12f_ff1e])]);
    (words[15], words[16]) = (0xf3ef_0000, 0x0000_8000);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert!(proof.is_data(62) && !proof.is_data(64));
    assert_eq!(proof.doubtful(&doubts(&words)), Some(62));
}

#[test]
fn what_a_store_takes_away_is_no_longer_noted() {
    let mut words = [0; 1024];
    let clean = doubts(&words);
    words[100] = 0xe10f_0000;
    let mut stored = clean.clone();
    stored.update(100, &words);
    assert!(stored != clean);
    words[100] = 0;
    stored.update(100, &words);
    assert!(stored == clean);
}
