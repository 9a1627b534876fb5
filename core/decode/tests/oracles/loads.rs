//! Loads and stores.

use crate::said::Said;
use crate::{llvm, yaxpeax};
use hanok_decode::decode_load_store;
use proptest::prelude::*;

/// A word of the load/store space: bit 27 set, bit 25 clear (DDI 0487 C4.1).
fn in_space(word: u32) -> bool {
    word & 1 << 27 != 0 && word & 1 << 25 == 0
}

/// Every 30 bits make a word of the space.
fn into_space(index: u32) -> u32 {
    let (low, middle, high) = (index & 0x1ff_ffff, index >> 25 & 1, index >> 26);
    high << 28 | 1 << 27 | middle << 26 | low
}

fn ours(word: u32) -> Option<Said> {
    decode_load_store(word).map(|decoded| Said::ours(&decoded))
}

/// Compares with yaxpeax-arm; `Err` with both readings where they differ.
fn compare(word: u32) -> Result<(), String> {
    let (mine, their) = (ours(word), yaxpeax::read(word));
    if mine == their {
        return Ok(());
    }
    let text = yaxpeax::text(word);
    Err(format!(
        "{word:#010x} {text:?}\n  ours {mine:?}\n  theirs {their:?}"
    ))
}

/// LDAPR with Rs all ones, as it should be. LLVM knows no other; to the architecture another
/// is constrained unpredictable, and a CPU that executes it does not look at it.
fn as_it_should_be(word: u32) -> u32 {
    match word & 0x3fe0_fc00 {
        0x38a0_c000 => word | 0x1f << 16,
        _ => word,
    }
}

/// The words on which LLVM and we differ, with both readings. `Ok` is how many of them are
/// loads and stores.
fn compare_all(words: &[u32]) -> Result<usize, String> {
    let asked: Vec<u32> = words.iter().map(|word| as_it_should_be(*word)).collect();
    let texts = llvm::disassemble(&asked);
    let mut known = 0;
    let mut different = Vec::new();
    for ((word, text), address) in words.iter().zip(&texts).zip((0..).step_by(4)) {
        let mine = ours(*word);
        let their = text.as_ref().and_then(|text| llvm::read(text, address));
        known += usize::from(their.is_some());
        if mine != their {
            different.push(format!(
                "{word:#010x} {text:?}\n  ours {mine:?}\n  theirs {their:?}"
            ));
        }
    }
    match different.first() {
        None => Ok(known),
        Some(first) => Err(format!("{} differ, first {first}", different.len())),
    }
}

/// Numbers that are the same on every run (Knuth's MMIX generator).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

/// Bits that select an instruction rather than an operand.
const SELECTING: u32 = 0xffe0_fc00;

/// Every combination of the selecting bits, with four choices of operands each; the first
/// has all ones, where the manual demands them.
fn sample() -> Vec<u32> {
    let mut random = Random(1);
    let mut words = Vec::new();
    for high in 0..1u32 << 11 {
        for low in 0..1u32 << 6 {
            let selected = high << 21 | low << 10;
            if in_space(selected) {
                let operands = [!0, random.next(), random.next(), random.next()];
                words.extend(operands.map(|bits| selected | bits & !SELECTING));
            }
        }
    }
    words
}

#[test]
fn every_selecting_combination_is_yaxpeax_s() {
    let different: Vec<_> = sample()
        .into_iter()
        .filter_map(|word| compare(word).err())
        .collect();
    let first = different.first();
    assert!(
        different.is_empty(),
        "{} differ: {first:?}",
        different.len()
    );
}

#[test]
fn every_selecting_combination_is_llvm_s() {
    let known = compare_all(&sample()).unwrap_or_else(|error| panic!("{error}"));
    // Most of the space is taken; a comparison of nothing with nothing is none.
    assert!(known > 50_000, "{known}");
}

#[test]
fn the_space_is_counted_whole() {
    assert!(
        (0..1 << 30)
            .step_by(977)
            .all(|index| in_space(into_space(index)))
    );
    assert_eq!(into_space((1 << 30) - 1), !(1 << 25));
    assert_eq!(into_space(0x1ff_ffff), 0x09ff_ffff);
    assert_eq!(into_space(0x200_0000), 0x0c00_0000);
}

/// All words of the space, by two threads.
#[test]
#[ignore = "a billion words: minutes, and an optimized build"]
fn whole_space_is_yaxpeax_s() {
    let sweep = |first: u32| {
        let mut words = (first..1 << 30).step_by(2).map(into_space);
        words.find_map(|word| compare(word).err())
    };
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(|| sweep(1));
        [sweep(0), other.join().expect("no panic")]
    });
    assert_eq!(found, [None, None]);
}

/// Every value of the bits above Rn and Rt, which hold all that is not a plain register
/// number, with four choices of those two.
#[test]
#[ignore = "four million words: a minute, and an optimized build"]
fn whole_space_is_llvm_s() {
    let mut random = Random(2);
    let mut known = 0;
    for chunk in 0..32u32 {
        let indices = chunk << 15..(chunk + 1) << 15;
        let words: Vec<u32> = indices
            .flat_map(|index| {
                let word = into_space(index << 10);
                let operands = [0x3ff, random.next(), random.next(), random.next()];
                operands.map(|bits| word | bits & 0x3ff)
            })
            .collect();
        known += compare_all(&words).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(known > 1_900_000, "{known}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_word_has_an_answer(word: u32) {
        let decoded = decode_load_store(word);
        prop_assert!(decoded.is_none() || in_space(word));
    }

    #[test]
    fn yaxpeax_agrees(index in 0..1u32 << 30) {
        prop_assert_eq!(compare(into_space(index)), Ok(()));
    }
}
