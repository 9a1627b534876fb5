//! Whether a frame may be executed as far as it is proven.

use crate::conflict::Conflict;
use crate::frame::{self, BYTES, Words};
use crate::proof::FrameProof;
use hanok_decode::aarch32::{Encoding, Isa, ItState, is_wide, sensitive};

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

impl FrameProof {
    /// Whether the frame may be executed once its sites are rewritten.
    pub fn verdict(&self, words: &Words) -> Verdict {
        match (self.conflict(), self.doubtful(words)) {
            (Some(conflict), _) => Verdict::Contradictory(conflict),
            (None, Some(offset)) => Verdict::Doubtful(offset),
            (None, None) => Verdict::Executable,
        }
    }

    /// The offset of the first place, A32 at each word and T32 at each halfword, that has a part
    /// which is neither proven code nor proven data, and that User mode would execute silently
    /// differently or unpredictably, outside of an IT block.
    pub fn doubtful(&self, words: &Words) -> Option<u32> {
        (0..BYTES)
            .step_by(2)
            .find(|offset| self.is_doubtful(*offset, words))
    }

    fn is_doubtful(&self, offset: u32, words: &Words) -> bool {
        let open = |bytes: u32| {
            (offset..offset + bytes)
                .step_by(2)
                .any(|at| self.is_open(at))
        };
        if !open(4) {
            return false;
        }
        let a32 = offset.is_multiple_of(4) && goes_wrong(frame::encoding(words, offset, Isa::A32));
        let t32 = match frame::encoding(words, offset, Isa::T32) {
            Some(found) => open(found.bytes()) && goes_wrong(Some(found)),
            // What stands in the next frame is not known, so it may be anything.
            None => may_go_wrong(words),
        };
        a32 || t32
    }

    /// Whether nothing is proven about the halfword at `offset` of this frame.
    fn is_open(&self, offset: u32) -> bool {
        offset < BYTES && !self.is_code(offset) && !self.is_data(offset)
    }
}

fn goes_wrong(encoding: Option<Encoding>) -> bool {
    encoding
        .and_then(|encoding| sensitive(encoding, ItState::NONE))
        .is_some_and(|found| found.user.must_be_rewritten())
}

/// Second halfwords such that a first one with which any second one goes wrong does so with one of
/// these.
const SECOND: [u16; 2] = [0xdeff, 0x8fff];

/// Whether the frame's last halfword, with some halfword behind it, would go wrong.
fn may_go_wrong(words: &Words) -> bool {
    let first = words.last().map_or(0, |word| (word >> 16) as u16);
    is_wide(first)
        && SECOND
            .into_iter()
            .any(|second| goes_wrong(Some(Encoding::t32(first, second))))
}
