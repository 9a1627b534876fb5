//! The sensitive instructions on proven code.

use crate::frame::{self, BYTES, Words};
use crate::proof::FrameProof;
use hanok_decode::aarch32::{Encoding, sensitive};

/// A proven instruction that User mode would execute silently differently or unpredictably.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its offset in the frame, in bytes.
    pub offset: u32,
    /// Its bits.
    pub encoding: Encoding,
    /// Whether it is in an IT block.
    pub in_block: bool,
}

/// The sites of a frame, in the order of their offsets.
#[derive(Clone)]
pub struct Sites<'a> {
    proof: &'a FrameProof,
    words: &'a Words,
    offset: u32,
}

impl FrameProof {
    /// The sites that have to be rewritten before the frame is executed.
    pub const fn sites<'a>(&'a self, words: &'a Words) -> Sites<'a> {
        Sites {
            proof: self,
            words,
            offset: 0,
        }
    }

    /// The site at `offset`, if there is one.
    fn site(&self, offset: u32, words: &Words) -> Option<Site> {
        let isa = self.instruction(offset)?;
        let encoding = frame::encoding(words, offset, isa)?;
        let it = self.it(offset);
        let found = sensitive(encoding, it)?;
        found.user.must_be_rewritten().then_some(Site {
            offset,
            encoding,
            in_block: it.is_inside(),
        })
    }
}

impl Iterator for Sites<'_> {
    type Item = Site;

    fn next(&mut self) -> Option<Site> {
        while self.offset < BYTES {
            let site = self.proof.site(self.offset, self.words);
            self.offset += 2;
            if site.is_some() {
                return site;
            }
        }
        None
    }
}
