//! What instructions mean that trapped lately.
//!
//! A kernel executes a few hundred different sensitive instructions. To decode one takes some hundred
//! instructions, and a look at this table ten.

use hanok_decode::aarch32::{Encoding, IndirectBranch, ItState, Sensitive, indirect, sensitive};

/// The number of places.
const PLACES: usize = 256;

/// What an instruction means that User mode does not carry out. It is copied at each trap: by words, as it is aligned to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(4))]
pub(crate) enum Meaning {
    /// A sensitive instruction.
    Sensitive(Sensitive),
    /// An indirect branch.
    Branch(IndirectBranch),
}

impl Meaning {
    /// The meaning of an instruction; `None` for any other one.
    pub fn of(encoding: Encoding, it: ItState) -> Option<Self> {
        match sensitive(encoding, it) {
            Some(found) => Some(Self::Sensitive(found)),
            None => indirect(encoding, it).map(Self::Branch),
        }
    }
}

/// The meanings of the A32 words that trapped lately. A word has one meaning for ever: a trap is never
/// used for a second instruction.
#[derive(Debug)]
pub(crate) struct Decoded([Option<(u32, Meaning)>; PLACES]);

impl Decoded {
    /// None: no constant, which would take its 9 KiB in the image.
    pub fn new() -> Self {
        Self([None; PLACES])
    }

    /// The meaning of the A32 word, which stands for the instruction that `original` answers.
    pub fn of(&mut self, word: u32, original: impl FnOnce() -> Encoding) -> Option<Meaning> {
        let place = self
            .0
            .get_mut((word.wrapping_mul(0x9e37_79b1) >> 24) as usize)?;
        match place {
            Some((known, meaning)) if *known == word => Some(*meaning),
            _ => {
                let meaning = Meaning::of(original(), ItState::NONE)?;
                *place = Some((word, meaning));
                Some(meaning)
            }
        }
    }
}
