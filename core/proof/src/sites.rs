//! The instructions on proven code that have to become traps.

use crate::frame::{self, BYTES, Words};
use crate::proof::{self, FrameProof};
use crate::undefined;
use hanok_decode::aarch32::{Encoding, indirect, sensitive};

/// How a frame is executed, which decides what has to become a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// As other frames are: nothing in it is doubtful.
    Free,
    /// As the only executable frame, because something in it is doubtful: its indirect branches are
    /// traps, too, so that none goes to a doubtful place unseen; and so are instructions at which the flow
    /// ends.
    Confined,
}

/// Why an instruction has to become a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// User mode would execute it silently differently or unpredictably.
    Sensitive,
    /// It is an indirect branch.
    IndirectBranch,
    /// It is undefined or UNPREDICTABLE, so that it is not known where a CPU would go on. UDF and BKPT
    /// are none of these: their exceptions are certain, and handlers look at their numbers.
    End,
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
        let cause = if let Some(found) = sensitive(encoding, it) {
            found.user.must_be_rewritten().then_some(Cause::Sensitive)
        } else if execution == Execution::Confined {
            match indirect(encoding, it) {
                Some(_) => Some(Cause::IndirectBranch),
                None if undefined::raises(encoding) => None,
                None => proof::ends(encoding, it).then_some(Cause::End),
            }
        } else {
            None
        };
        Some(Site {
            offset,
            encoding,
            in_block: it.is_inside(),
            cause: cause?,
        })
    }
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
