//! What holds for every frame.

use crate::frames::{data, doubts};
use hanok_decode::aarch32::{Isa, ItState};
use hanok_proof::{
    AfterCall, Execution, FrameProof, Goes, Place, Progress, Refusal, Rewritten, Step, WORDS,
    Words, step_a32, step_t32,
};
use proptest::prelude::*;

/// Words of which many are code: near branches, literals, sensitive instructions, blocks.
fn word() -> impl Strategy<Value = u32> {
    let near =
        |word: u32| prop_oneof![0u32..64, 0xff_ffc0u32..0xff_ffff].prop_map(move |to| word | to);
    let half = prop_oneof![
        any::<u16>(),
        Just(0xbf04u16),
        Just(0xb662u16),
        Just(0x4770u16),
        0xb100u16..0xb180,
        0x4800u16..0x4840,
        0x2000u16..0x2100,
        0xd000u16..0xd020,
    ];
    let plain = prop_oneof![
        Just(0xe1a0_0000u32),
        Just(0xe10f_0000),
        Just(0xf10c_0080),
        Just(0xe8c0_0006),
        Just(0xf3ef_8000u32.rotate_left(16)),
    ];
    prop_oneof![
        4 => plain,
        1 => any::<u32>(),
        1 => near(0x0a00_0000),
        1 => near(0xeb00_0000),
        1 => (0u32..256).prop_map(|to| 0xe59f_0000 + to * 4),
        4 => (half.clone(), half).prop_map(|(low, high)| u32::from(high) << 16 | u32::from(low)),
    ]
}

pub fn words() -> impl Strategy<Value = Words> {
    // A piece, and zeros: a frame full of such words is seldom free of contradictions.
    (proptest::collection::vec(word(), 1..200), 0usize..WORDS).prop_map(|(some, at)| {
        let mut words = [0; WORDS];
        for (number, word) in some.into_iter().enumerate() {
            words[(at + number) % WORDS] = word;
        }
        words
    })
}

pub fn entries(words: &Words) -> impl Strategy<Value = Vec<Place>> + use<> {
    let used: Vec<u32> = (0..WORDS as u32)
        .filter(|at| words[*at as usize] != 0)
        .collect();
    let used = if used.is_empty() { vec![0] } else { used };
    let place = (
        proptest::sample::select(used),
        any::<bool>(),
        0u32..2,
        0u8..2,
    )
        .prop_map(|(word, a32, half, it)| {
            let (isa, offset) = match (a32, half) {
                (true, _) => (Isa::A32, word * 4),
                (false, half) => (Isa::T32, word * 4 + half * 2),
            };
            Place::new(offset, isa, ItState::from_bits(it * 0x04)).expect("inside and aligned")
        });
    proptest::collection::vec(place, 0..4)
}

pub fn frames() -> impl Strategy<Value = (Words, Vec<Place>)> {
    words().prop_flat_map(|words| (Just(words), entries(&words)))
}

/// The proven instruction at `offset`.
fn step_at(proof: &FrameProof, offset: u32, words: &Words) -> (Step, Isa) {
    let half = |at: u32| {
        let word = words.get(at as usize / 4).copied().unwrap_or(0);
        (word >> (at % 4 * 8)) as u16
    };
    match proof.instruction(offset) {
        Some(Isa::A32) => (step_a32(words[offset as usize / 4]), Isa::A32),
        _ => {
            let it = proof.it(offset);
            (step_t32(half(offset), half(offset + 2), it), Isa::T32)
        }
    }
}

fn proof(words: &Words, entries: &[Place]) -> FrameProof {
    let mut proof = FrameProof::new(0x8000_0000, AfterCall::Follow);
    for entry in entries {
        let _ = proof.follow(*entry, words, u32::MAX);
    }
    proof
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_halfword_is_code_and_data((words, entries) in frames()) {
        let proof = proof(&words, &entries);
        prop_assert!(data(&proof).into_iter().all(|offset| !proof.is_code(offset)));
        for site in proof.sites(&words, Execution::Free) {
            let halves = (site.offset..site.offset + site.encoding.bytes()).step_by(2);
            prop_assert!(halves.into_iter().all(|at| proof.is_code(at) && !proof.is_data(at)));
        }
    }

    /// Each instruction is visited once, and each of its two ways on costs one visit at most.
    #[test]
    fn the_work_is_bounded((words, entries) in frames()) {
        let mut proof = FrameProof::new(0, AfterCall::Follow);
        let mut visits = 0;
        for entry in &entries {
            let mut progress = proof.follow(*entry, &words, 1);
            while progress == Progress::Unfinished {
                visits += 1;
                prop_assert!(visits <= 3 * 2048);
                progress = proof.resume(&words, 1);
            }
        }
    }

    #[test]
    fn budgets_do_not_change_what_is_proven((words, entries) in frames(), budget in 1u32..9) {
        let whole = proof(&words, &entries);
        let mut pieces = FrameProof::new(0, AfterCall::Follow);
        for entry in &entries {
            let mut progress = pieces.follow(*entry, &words, budget);
            while progress == Progress::Unfinished {
                progress = pieces.resume(&words, budget);
            }
        }
        for offset in (0..4096).step_by(2) {
            prop_assert_eq!(pieces.instruction(offset), whole.instruction(offset));
            prop_assert_eq!(pieces.is_data(offset), whole.is_data(offset));
        }
        prop_assert_eq!(pieces.conflict(), whole.conflict());
    }

    /// Each place of the frame that proven code goes to by itself is proven, also if entries came
    /// while others were followed.
    #[test]
    fn a_finished_flow_is_closed((words, entries) in frames(), budget in 0u32..20) {
        let mut proof = FrameProof::new(0, AfterCall::Follow);
        for entry in entries {
            let _ = proof.follow(entry, &words, budget);
        }
        let progress = proof.resume(&words, u32::MAX);
        let mut at = proof.next_code(0);
        while let (Some(offset), Progress::Finished) = (at, progress) {
            let (step, isa) = step_at(&proof, offset, &words);
            let target = match step.goes {
                Goes::Jump(target) => Some((target.from(offset), isa)),
                Goes::Call(target, isa) => Some((target.from(offset), isa)),
                _ => None,
            };
            let falls = match step.goes {
                Goes::Nowhere => false,
                Goes::Next | Goes::Call(..) | Goes::CallElsewhere => true,
                _ => step.conditional,
            };
            if step.goes == Goes::Nowhere && step.conditional {
                let site = proof.site(offset, &words, Execution::Confined);
                let breakpoint = words[offset as usize / 4] >> (offset % 4 * 8) & 0xff00 == 0xbe00;
                prop_assert!(site.is_some() || breakpoint);
            }
            let behind = falls.then_some((offset + step.bytes, isa));
            // The flow ends in front of what ends in the next frame.
            let beyond = |(to, isa): &(u32, Isa)| {
                *to == 4094 && *isa == Isa::T32 && words[1023] >> 16 >= 0xe800
            };
            let inside = |place: &(u32, Isa)| place.0 < 4096 && !beyond(place);
            for (to, isa) in target.into_iter().chain(behind).filter(inside) {
                prop_assert_eq!(proof.instruction(to), Some(isa), "from {:x} to {:x}", offset, to);
            }
            at = proof.next_code(offset + 2);
        }
    }

    #[test]
    fn what_is_rewritten_comes_back((mut words, entries) in frames()) {
        let original = words;
        let proof = proof(&words, &entries);
        let (mut rewritten, mut seen) = (Rewritten::NONE, doubts(&words));
        match rewritten.rewrite(&proof, &mut seen, &mut words) {
            Ok(()) => {
                prop_assert_eq!(rewritten.changes().count(), proof.sites(&original, Execution::Free).count());
                let data = data(&proof);
                let kept = |at: u32| words[at as usize / 4] ^ original[at as usize / 4];
                prop_assert!(data.iter().all(|at| kept(*at) >> (at % 4 * 8) & 0xffff == 0));
                prop_assert_eq!(proof.doubtful(&doubts(&words)), None);
            }
            Err(Refusal::Contradictory(found)) => prop_assert_eq!(proof.conflict(), Some(found)),
            Err(_) => prop_assert_eq!(words, original),
        }
        prop_assert!(seen == doubts(&words), "the doubts follow the words");
        rewritten.restore(&mut seen, &mut words);
        prop_assert_eq!(words, original);
        prop_assert!(seen == doubts(&words));
    }

    #[test]
    fn places_from_anywhere_are_followed(words: [u32; 32], offset in 0u32..4096, it: u8, t32: bool) {
        let mut all = [0; WORDS];
        all.iter_mut().zip(words.into_iter().cycle()).for_each(|(to, from)| *to = from);
        let isa = if t32 { Isa::T32 } else { Isa::A32 };
        if let Some(entry) = Place::new(offset, isa, ItState::from_bits(it)) {
            let mut proof = FrameProof::new(0, AfterCall::Stop);
            prop_assert_ne!(proof.follow(entry, &all, 4096), Progress::Unfinished);
        }
    }
}
