//! No word that the decoder calls sensitive, and that must be rewritten, is left out.

extern crate std;

use super::{a32, is_none, narrow, wide};
use hanok_decode::aarch32::{ItState, sensitive_a32, sensitive_t32};

/// Whether all words are tried, which takes minutes: `HANOK_ALL_WORDS=1`.
fn all() -> bool {
    std::env::var_os("HANOK_ALL_WORDS").is_some()
}

fn wrong_a32(word: u32) -> bool {
    sensitive_a32(word).is_some_and(|found| found.user.must_be_rewritten())
}

/// Outside of a block, in the middle of one, and at its end.
const PLACES: [u8; 3] = [0, 0x04, 0x08];

fn wrong_t32(first: u16, second: u16) -> bool {
    PLACES.map(ItState::from_bits).into_iter().any(|it| {
        sensitive_t32(first, second, it).is_some_and(|found| found.user.must_be_rewritten())
    })
}

#[test]
fn no_narrow_instruction_is_left_out() {
    for half in 0..0xe800 {
        assert!(narrow(half) || !wrong_t32(half, 0), "{half:x}");
    }
}

/// All words; or bits 27 to 4, with some values of the condition and of the lowest bits, which
/// together are all that the decoder looks at to tell instructions apart.
#[test]
fn no_a32_word_is_left_out() {
    let check = |word: u32| assert!(a32(word) || !wrong_a32(word), "{word:x}");
    if all() {
        return (0..=u32::MAX).for_each(check);
    }
    for middle in 0u32..1 << 24 {
        let low = middle.wrapping_mul(0x9e37_79b1) >> 28;
        check(0xe000_0000 | middle << 4 | low);
        // Only the unconditional space differs, and all of it is suspect but for branches.
        if middle & 0xff == 0 {
            (0..16).for_each(|condition| check(condition << 28 | middle << 4 | low));
        }
    }
}

/// Also the halfwords of such a word, and what may be behind it.
#[test]
fn no_word_is_passed_over_that_has_a_place_that_goes_wrong() {
    const BEHIND: [u16; 8] = [0, 0x8000, 0x8e30, 0xc000, 0x8720, 0x8fff, 0x0e00, 0xf000];
    let (mut passed, mut tried) = (0, 0);
    let mut check = |word: u32| {
        tried += 1;
        if !is_none(word) {
            return;
        }
        passed += 1;
        let (low, high) = (word as u16, (word >> 16) as u16);
        assert!(!wrong_a32(word) && !wrong_t32(low, high), "{word:x}");
        // What is no wide instruction does not depend on what is behind it.
        let behind = if high < 0xe800 { &BEHIND[..1] } else { &BEHIND };
        let wrong = behind.iter().any(|behind| wrong_t32(high, *behind));
        assert!(!wrong, "{word:x}");
    };
    let step = if all() { 1 } else { 5 };
    for number in (0..1u32 << 24).step_by(step) {
        let mixed = number.wrapping_mul(0x9e37_79b1);
        // All upper halves with AL, and all words with few bits in the middle; then any word.
        check(0xe000_0000 | number << 4 & 0x0fff_0000 | mixed >> 16);
        check(0xe000_0000 | number << 4 | mixed >> 28);
        check(mixed);
        check(mixed & 0xffff_0000 | 0xb640 | mixed & 0x3f);
    }
    assert!(passed > tried / 4, "{passed} of {tried}");
}

#[test]
fn no_wide_instruction_is_left_out() {
    let step = if all() { 1 } else { 17 };
    for first in 0xe800..=0xffff {
        for second in (first % step..=0xffff).step_by(step.into()) {
            let wrong = wrong_t32(first, second);
            assert!(wide(first, second) || !wrong, "{first:x} {second:x}");
        }
    }
}

/// What is suspect without reason is decoded in vain: not much of what compilers write.
#[test]
fn what_programs_are_made_of_is_not_suspect() {
    for word in [
        0xe3a0_0000,
        0xe1a0_0001,
        0xe590_1004,
        0xe580_1004,
        0xe92d_4010,
        0xe8bd_8010,
        0xeb00_0010,
        0x1aff_fff0,
        0xe280_0001,
        0xe350_0000,
        0xe1d0_10b2,
        0xe5d0_1000,
        0xe000_0291,
        0,
        0xed2d_8b10,
    ] {
        assert!(!a32(word), "{word:x}");
    }
    for (first, second) in [
        (0xf000, 0xf800),
        (0xe92d, 0x41f0),
        (0xe8bd, 0x81f0),
        (0xf8d0, 0x1004),
        (0xf8df, 0x0010),
        (0xf04f, 0x0000),
        (0xea40, 0x0001),
        (0xf240, 0x0000),
        (0xe9d0, 0x0102),
        (0xfb00, 0x0001),
    ] {
        assert!(!wide(first, second), "{first:x} {second:x}");
    }
}
