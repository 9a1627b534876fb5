//! Which places of a frame would go wrong in User mode, and whether a frame may be executed as far
//! as it is proven.
//!
//! Which places go wrong depends on the words alone, so it is found out once for a frame's words
//! ([`Doubts`]), in pieces. A verdict is asked for after each proof, and is a walk over sets of bits.

use crate::bits::{self, Bits};
use crate::conflict::Conflict;
use crate::frame::{WORDS, Words};
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
    /// The number of the first word that was not looked at.
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
            next: 0,
        }
    }

    /// Looks at `budget` more words; each of them has three places.
    pub fn look(&mut self, words: &Words, budget: u32) -> Looked {
        let end = u32::from(self.next)
            .saturating_add(budget)
            .min(WORDS as u32);
        for word in u32::from(self.next)..end {
            self.decide(word, words);
        }
        self.next = end as u16;
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
        let (first, second) = (bits as u16, (bits >> 16) as u16);
        let behind = words.get(word as usize + 1).map(|next| *next as u16);
        let [narrow, wide] = t32(first, Some(second));
        let [upper_narrow, upper_wide] = t32(second, behind);
        let a32 = u32::from(suspect::a32(bits) && goes_wrong(Encoding::A32(bits)));
        self.narrow.set_word(word, narrow | upper_narrow << 1);
        self.wide.set_word(word, a32 | wide | upper_wide << 1);
    }

    /// The offset of the first doubtful place that has a halfword about which nothing is known.
    /// `known` are the halfwords that are proven, 32 of them at a time.
    fn first(&self, mut known: impl FnMut(usize) -> u32) -> Option<u32> {
        let all = self.narrow.words().iter().zip(self.wide.words());
        for (number, (narrow, wide)) in all.enumerate() {
            if narrow | wide == 0 {
                continue;
            }
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

fn goes_wrong(encoding: Encoding) -> bool {
    sensitive(encoding, ItState::NONE).is_some_and(|found| found.user.must_be_rewritten())
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

/// Second halfwords such that a first one with which any second one goes wrong does so with one of
/// these.
const SECOND: [u16; 2] = [0xdeff, 0x8fff];
