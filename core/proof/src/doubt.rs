//! Which places of a frame would go wrong in User mode, and whether a frame may be executed as far
//! as it is proven.
//!
//! Which places go wrong depends on the words alone, so it is found out once for a frame's words
//! ([`Doubts`]), in pieces. A verdict is asked for after each proof, and is a walk over sets of bits.

use crate::bits::{self, Bits};
use crate::conflict::Conflict;
use crate::frame::{WORDS, Words};
use crate::halved::{self, is_halved};
use crate::proof::FrameProof;
use crate::suspect;
use hanok_decode::aarch32::{Encoding, ItState, is_wide, sensitive};

/// Whether a frame may be executed once its sites are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// No other place would do something else in User mode.
    Executable,
    /// The place with this offset would; it is the first one.
    Doubtful(u32),
    /// The frame contradicts itself.
    Contradictory(Conflict),
}

/// How much of a frame was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Looked {
    /// All of it.
    Everywhere,
    /// A part: [`Doubts::look`] goes on.
    Partly,
}

/// The words that are looked at together: those of 32 halfwords.
pub const GROUP: usize = WORDS / bits::LENGTH;

/// The places of a frame, A32 at each word and T32 at each halfword, that User mode would execute
/// silently differently or unpredictably, outside of an IT block.
///
/// What was not looked at yet counts as if it went wrong, so that a verdict never permits
/// more than it would after all of it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubts {
    /// Instructions of one halfword.
    narrow: Bits,
    /// Instructions of two: T32's, and A32's words. The place at the frame's last halfword is
    /// here, too: what follows it is not known.
    wide: Bits,
    /// Which groups have such places, a bit for each.
    groups: u64,
    /// The number of the first word that was not looked at, a multiple of [`GROUP`].
    next: u16,
}

impl Default for Doubts {
    fn default() -> Self {
        Self::new()
    }
}

impl Doubts {
    /// Nothing was looked at.
    pub const fn new() -> Self {
        Self {
            narrow: Bits::NONE,
            wide: Bits::ALL,
            groups: u64::MAX,
            next: 0,
        }
    }

    /// Looks at `budget` more words, or up to [`GROUP`] - 1 beyond; each of them has three places.
    pub fn look(&mut self, words: &Words, budget: u32) -> Looked {
        let budget = budget.min(WORDS as u32) as u16;
        let end = self.next + budget;
        while self.next < end.min(WORDS as u16) {
            self.group(usize::from(self.next) / GROUP, words);
            self.next += GROUP as u16;
        }
        self.looked()
    }

    /// How much was looked at.
    pub const fn looked(&self) -> Looked {
        if (self.next as usize) < WORDS {
            Looked::Partly
        } else {
            Looked::Everywhere
        }
    }

    /// Decides anew about the places that the word with number `word` is a part of, after it has
    /// changed.
    pub fn update(&mut self, word: u32, words: &Words) {
        if let Some(before) = word.checked_sub(1) {
            self.decide(before, words);
        }
        self.decide(word, words);
    }

    /// Decides about the places that begin in this word.
    fn decide(&mut self, word: u32, words: &Words) {
        let Some(bits) = words.get(word as usize).copied() else {
            return;
        };
        let behind = words.get(word as usize + 1).copied();
        let [narrow, wide] = places(bits, behind);
        self.narrow.set_word(word, narrow);
        self.wide.set_word(word, wide);
        self.note(word as usize / GROUP);
    }

    /// Decides about the places that begin in the words of one group.
    fn group(&mut self, number: usize, words: &Words) {
        let [mut narrow, mut wide] = [0, 0];
        let mut rest = words.iter().copied().skip(number * GROUP).peekable();
        for shift in (0..u32::BITS).step_by(2) {
            let Some(bits) = rest.next() else {
                break;
            };
            if suspect::is_none(bits) {
                continue;
            }
            let found = places(bits, rest.peek().copied());
            narrow |= found[0] << shift;
            wide |= found[1] << shift;
        }
        self.narrow.set(number, narrow);
        self.wide.set(number, wide);
        self.note(number);
    }

    /// Notes whether a group has doubtful places.
    fn note(&mut self, number: usize) {
        let of = |bits: &Bits| bits.words().get(number).copied().unwrap_or(0);
        let bit = 1u64.checked_shl(number as u32).unwrap_or(0);
        if of(&self.narrow) | of(&self.wide) == 0 {
            self.groups &= !bit;
        } else {
            self.groups |= bit;
        }
    }

    /// The offset of the first doubtful place that has a halfword about which nothing is known.
    /// `known` are the halfwords that are proven, 32 of them at a time.
    fn first(&self, mut known: impl FnMut(usize) -> u32) -> Option<u32> {
        let mut left = self.groups;
        while left != 0 {
            let number = left.trailing_zeros() as usize;
            left &= left - 1;
            let of = |bits: &Bits| bits.words().get(number).copied().unwrap_or(0);
            let (narrow, wide) = (of(&self.narrow), of(&self.wide));
            let open = !known(number);
            // What is in the next frame is none of this frame's.
            let next = if number + 1 < bits::LENGTH {
                !known(number + 1)
            } else {
                0
            };
            let behind = open >> 1 | next << (u32::BITS - 1);
            let found = narrow & open | wide & (open | behind);
            if found != 0 {
                return Some(bits::offset(number, found.trailing_zeros()));
            }
        }
        None
    }
}

/// Whether a word, between the ones before and behind it in a frame, is a part of a place that would go
/// wrong; `None` stands for what is not in the frame.
pub fn is_part_of_doubt(before: Option<u32>, word: u32, behind: Option<u32>) -> bool {
    // Of the places that begin before it, only the last one passes into the word. A32's is judged by it, too, if
    // it is a read of CPSR.
    let last = before.map_or(0, |before| {
        let own = u32::from(halved::reads(before));
        places(before, Some(word))[1] & (0b10 | own)
    });
    let [narrow, wide] = places(word, behind);
    last | narrow | wide != 0
}

impl FrameProof {
    /// Whether the frame may be executed once its sites are rewritten. `doubts` are those of the
    /// frame's words.
    pub fn verdict(&self, doubts: &Doubts) -> Verdict {
        match (self.conflict(), self.doubtful(doubts)) {
            (Some(conflict), _) => Verdict::Contradictory(conflict),
            (None, Some(offset)) => Verdict::Doubtful(offset),
            (None, None) => Verdict::Executable,
        }
    }

    /// The offset of the first place that goes wrong, or that was not looked at, and that has a
    /// part which is neither proven code nor proven data.
    pub fn doubtful(&self, doubts: &Doubts) -> Option<u32> {
        doubts.first(|number| self.known(number))
    }
}

/// Which of the places that begin in a word go wrong: those of one halfword and those of two, as two
/// bits each. `behind` is the word behind in the frame.
fn places(bits: u32, behind: Option<u32>) -> [u32; 2] {
    let (first, second) = (bits as u16, (bits >> 16) as u16);
    let [narrow, wide] = t32(first, Some(second));
    let [upper_narrow, upper_wide] = t32(second, behind.map(|word| word as u16));
    let wrong = suspect::a32(bits) && goes_wrong(Encoding::A32(bits)) && !is_halved(bits, behind);
    let a32 = u32::from(wrong);
    [narrow | upper_narrow << 1, a32 | wide | upper_wide << 1]
}

/// What the manual calls UNPREDICTABLE in every mode may do in User mode whatever it does there: nobody can
/// tell that from what a CPU of the guest's own would do.
fn goes_wrong(encoding: Encoding) -> bool {
    sensitive(encoding, ItState::NONE)
        .is_some_and(|found| found.as_it_should_be && found.user.must_be_rewritten())
}

/// Whether the T32 instruction that begins with `first` goes wrong, as one of one halfword and as
/// one of two. `second` is what follows in the frame.
fn t32(first: u16, second: Option<u16>) -> [u32; 2] {
    if !is_wide(first) {
        let wrong = suspect::narrow(first) && goes_wrong(Encoding::Narrow(first));
        return [u32::from(wrong), 0];
    }
    let wrong = match second {
        Some(second) => wide_goes_wrong(first, second),
        None => SECOND
            .into_iter()
            .any(|second| wide_goes_wrong(first, second)),
    };
    [0, u32::from(wrong)]
}

fn wide_goes_wrong(first: u16, second: u16) -> bool {
    suspect::wide(first, second) && goes_wrong(Encoding::t32(first, second))
}

/// Second halfwords such that a first one with which any second one may go wrong does so with one of
/// these.
const SECOND: [u16; 5] = [0x8e30, 0xc000, 0x8720, 0x8fff, 0x8e00];
