//! The instructions on proven code that have to become traps.

use crate::flow::{Goes, step};
use crate::frame::{self, BYTES, Words};
use crate::halved::is_halved;
use crate::proof::FrameProof;
use crate::suspect;
use hanok_decode::aarch32::{Encoding, ItState, Sensitive, indirect, sensitive};

/// How a frame is executed, which decides what has to become a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As other frames are: nothing in it is doubtful.
    Free,
    /// As the only executable frame, because something in it is doubtful: what may go to a place that
    /// is not proven is a trap, too, so that no doubtful place is reached unseen.
    Confined,
}

/// Why an instruction has to become a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// User mode would execute it silently differently or unpredictably.
    Sensitive,
    /// It is an indirect branch.
    IndirectBranch,
    /// The architecture does not define it, so that nothing behind it is proven; but it has a
    /// condition, and goes on there if that fails. If it does not fail, it is undefined.
    Conditional,
}

/// A proven instruction that has to become a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its offset in the frame, in bytes.
    pub offset: u32,
    /// Its bits.
    pub encoding: Encoding,
    /// Whether it is in an IT block.
    pub in_block: bool,
    /// Why.
    pub cause: Cause,
}

/// The sites of a frame, in the order of their offsets.
#[derive(Clone)]
pub struct Sites<'a> {
    proof: &'a FrameProof,
    words: &'a Words,
    execution: Execution,
    /// Where the rest begins.
    offset: u32,
}

impl FrameProof {
    /// The sites that have to be rewritten before the frame is executed so. All of them are looked
    /// for; whoever may not take that long asks for one after the other ([`Self::next_code`]).
    pub const fn sites<'a>(&'a self, words: &'a Words, execution: Execution) -> Sites<'a> {
        Sites {
            proof: self,
            words,
            execution,
            offset: 0,
        }
    }

    /// The site at `offset`, if a proven instruction begins there that has to be rewritten.
    pub fn site(&self, offset: u32, words: &Words, execution: Execution) -> Option<Site> {
        let isa = self.instruction(offset)?;
        let encoding = frame::encoding(words, offset, isa)?;
        let it = self.it(offset);
        let rewritten = |found: Sensitive| found.user.must_be_rewritten();
        let suspect = suspect::any(encoding);
        let halved = || match encoding {
            Encoding::A32(word) => is_halved(word, words.get(offset as usize / 4 + 1).copied()),
            _ => false,
        };
        let cause = if suspect && sensitive(encoding, it).is_some_and(rewritten) && !halved() {
            Cause::Sensitive
        } else if execution == Execution::Confined {
            unproven(encoding, it)?
        } else {
            return None;
        };
        Some(Site {
            offset,
            encoding,
            in_block: it.is_inside(),
            cause,
        })
    }
}

/// Why a proven instruction may go to a place of the frame that is not proven. An exception's return
/// is no reason: the exception is seen.
fn unproven(encoding: Encoding, it: ItState) -> Option<Cause> {
    if indirect(encoding, it).is_some() {
        return Some(Cause::IndirectBranch);
    }
    let always = match encoding {
        Encoding::A32(word) => word >> 28 >= 0b1110,
        _ => !it.is_inside(),
    };
    if always {
        return None;
    }
    let step = step(encoding, it);
    // BKPT is executed whatever an IT block says (A8.8.24).
    let breakpoint = matches!(encoding, Encoding::Narrow(half) if half >> 8 == 0xbe);
    let ends = step.goes == Goes::Nowhere && step.conditional && !breakpoint;
    ends.then_some(Cause::Conditional)
}

impl Iterator for Sites<'_> {
    type Item = Site;

    fn next(&mut self) -> Option<Site> {
        while let Some(offset) = self.proof.next_code(self.offset) {
            self.offset = offset + 2;
            let site = self.proof.site(offset, self.words, self.execution);
            if site.is_some() {
                return site;
            }
        }
        self.offset = BYTES;
        None
    }
}
