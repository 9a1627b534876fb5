//! What was changed in a frame, so that it can be put back.

use crate::conflict::Conflict;
use crate::doubt::{Doubts, Verdict};
use crate::frame::{self, Words};
use crate::proof::FrameProof;
use crate::sites::{Execution, Site};
use hanok_abi::trap;
use hanok_decode::aarch32::Encoding;

/// How many instructions of a frame can be rewritten. A kernel's frames have a few; those with
/// many are its entry code.
pub const CAPACITY: usize = 64;

/// An instruction that was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The offset in bytes.
    pub offset: u32,
    /// What the guest wrote.
    pub original: Encoding,
    /// What stands there instead, of the same length.
    pub new: Encoding,
}

/// Why a frame was not rewritten; it stays execute-never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The frame contradicts itself.
    Contradictory(Conflict),
    /// The place with this offset, which is not proven, would do something else in User mode, now or
    /// together with a rewritten instruction that it overlaps.
    Doubtful(u32),
    /// No trap can hold the instruction at this offset.
    NoForm(u32),
    /// There are more than [`CAPACITY`] sites; this is the offset of the first that did not fit.
    Full(u32),
}

/// The changes of one frame, in the order of their offsets.
#[derive(Clone, Debug)]
pub struct Rewritten {
    changes: [Option<Change>; CAPACITY],
    number: usize,
}

impl Default for Rewritten {
    fn default() -> Self {
        Self::NONE
    }
}

impl Rewritten {
    /// No changes.
    pub const NONE: Self = Self {
        changes: [None; CAPACITY],
        number: 0,
    };

    /// The changes.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().flatten()
    }

    /// The change at `offset`, if the instruction there was rewritten.
    pub fn at(&self, offset: u32) -> Option<&Change> {
        self.changes().find(|change| change.offset == offset)
    }

    /// Rewrites all sites of the frame to traps (`hanok_abi::trap`). Earlier changes are put back
    /// first. `doubts` are those of the frame's words, and follow them.
    ///
    /// # Errors
    /// See [`Refusal`]. The words are then as the guest wrote them.
    pub fn rewrite(
        &mut self,
        proof: &FrameProof,
        doubts: &mut Doubts,
        words: &mut Words,
    ) -> Result<(), Refusal> {
        self.restore(doubts, words);
        match proof.verdict(doubts) {
            Verdict::Executable => {}
            Verdict::Doubtful(offset) => return Err(Refusal::Doubtful(offset)),
            Verdict::Contradictory(conflict) => return Err(Refusal::Contradictory(conflict)),
        }
        if let Err(refusal) = self.plan(proof, words) {
            *self = Self::NONE;
            return Err(refusal);
        }
        for change in self.changes() {
            write(change.offset, change.new, doubts, words);
        }
        proof.doubtful(doubts).map_or(Ok(()), |offset| {
            self.restore(doubts, words);
            Err(Refusal::Doubtful(offset))
        })
    }

    /// Puts back what the guest wrote.
    pub fn restore(&mut self, doubts: &mut Doubts, words: &mut Words) {
        for change in self.changes() {
            write(change.offset, change.original, doubts, words);
        }
        *self = Self::NONE;
    }

    fn plan(&mut self, proof: &FrameProof, words: &Words) -> Result<(), Refusal> {
        for site in proof.sites(words, Execution::Free) {
            let new = form(&site).ok_or(Refusal::NoForm(site.offset))?;
            let free = self
                .changes
                .get_mut(self.number)
                .ok_or(Refusal::Full(site.offset))?;
            *free = Some(Change {
                offset: site.offset,
                original: site.encoding,
                new,
            });
            self.number += 1;
        }
        Ok(())
    }
}

/// Writes an instruction, which may be in two words.
fn write(offset: u32, encoding: Encoding, doubts: &mut Doubts, words: &mut Words) {
    frame::write(words, offset, encoding);
    let (first, last) = (offset / 4, (offset + encoding.bytes() - 1) / 4);
    (first..=last).for_each(|word| doubts.update(word, words));
}

/// The trap for a site; `None` if none can hold it. In an IT block the halfword behind an SVC would
/// be executed if the condition fails, so an instruction of two halfwords becomes a UDF there.
fn form(site: &Site) -> Option<Encoding> {
    match (site.encoding, site.in_block) {
        (Encoding::A32(word), _) => trap::trap_a32(word).map(Encoding::A32),
        (Encoding::Narrow(half), _) => trap::trap_narrow(half).map(Encoding::Narrow),
        (Encoding::Wide(both), false) => trap::trap_wide(both).map(Encoding::Wide),
        (Encoding::Wide(both), true) => trap::trap_conditional(both).map(Encoding::Wide),
    }
}
