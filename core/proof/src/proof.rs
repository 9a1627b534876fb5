//! The flow through one frame.

use crate::conflict::{Conflict, Contradiction};
use crate::flow::{Goes, Literal, Step, step};
use crate::frame::{self, BYTES, Words};
use crate::map::{Known, Map};
use crate::place::Place;
use crate::waiting::Waiting;
use hanok_decode::aarch32::{Isa, ItState};

/// Whether the instruction behind a call counts as reached.
///
/// A compiler may put literals behind the call of a function that never returns. If they are loaded
/// by proven code, that is a contradiction; if not, a literal that looks like a sensitive
/// instruction would be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterCall {
    /// It is reached: the caller relies on it that calls return.
    Follow,
    /// It is not reached before it is fetched.
    Stop,
}

/// How far the flow was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// To all its ends: what proven code reaches in this frame by itself is proven, but for what is
    /// reached by an indirect branch, an exception, or a condition that fails at an instruction
    /// that the architecture does not define.
    Finished,
    /// As far as the budget went: [`FrameProof::resume`] goes on.
    Unfinished,
    /// The frame contradicts itself. Only new words in it change that, with a new proof.
    Contradictory(Conflict),
}

/// What is proven about the words of one frame.
///
/// All functions take the frame's words as the guest wrote them. If sites are rewritten,
/// [`Rewritten::restore`](crate::Rewritten::restore) puts them back first. If the guest writes to the
/// frame, its proof is void, and a new one begins.
#[derive(Clone, Debug)]
pub struct FrameProof {
    page: u32,
    after_call: AfterCall,
    map: Map,
    /// Where the guest fetched: it is followed as soon as no IT block is left in its middle.
    entry: Option<Place>,
    /// The place that is followed next, before those that wait.
    current: Option<Place>,
    waiting: Waiting,
    conflict: Option<Conflict>,
}

impl FrameProof {
    /// A proof of nothing, for a frame that was fetched through the page at the virtual address
    /// `page`. The address is only kept: offsets decide, and they are the same in every alias.
    pub const fn new(page: u32, after_call: AfterCall) -> Self {
        Self {
            page: page & !(BYTES - 1),
            after_call,
            map: Map::NOTHING,
            entry: None,
            current: None,
            waiting: Waiting::NONE,
            conflict: None,
        }
    }

    /// The virtual address of the page through which the frame was first fetched.
    pub const fn page(&self) -> u32 {
        self.page
    }

    /// The contradiction, if one was found.
    pub const fn conflict(&self) -> Option<Conflict> {
        self.conflict
    }

    /// The instruction set of the proven instruction that begins `offset` bytes behind the frame's
    /// begin; `None` if none begins there.
    pub fn instruction(&self, offset: u32) -> Option<Isa> {
        self.map.start(offset)
    }

    /// The offset of the first proven instruction at `offset` or behind.
    pub fn next_code(&self, offset: u32) -> Option<u32> {
        self.map.next_start(offset, &[0; _])
    }

    /// As [`Self::next_code`], of those that are not in `seen`: a bit for each halfword of the frame.
    pub fn next_unseen(&self, offset: u32, seen: &[u32; 64]) -> Option<u32> {
        self.map.next_start(offset, seen)
    }

    /// The proven instruction that begins at `offset`, as it stands in the frame's words.
    pub fn encoding(&self, offset: u32, words: &Words) -> Option<hanok_decode::aarch32::Encoding> {
        frame::encoding(words, offset, self.instruction(offset)?)
    }

    /// Whether the halfword at `offset` is a part of proven code.
    pub fn is_code(&self, offset: u32) -> bool {
        self.map.is_code(offset)
    }

    /// Whether the halfword at `offset` is loaded by proven code of this frame.
    pub fn is_data(&self, offset: u32) -> bool {
        self.map.is_data(offset)
    }

    /// The halfwords that are code or data, 32 of them at a time.
    pub(crate) fn known(&self, number: usize) -> u32 {
        self.map.known(number)
    }

    /// The place in an IT block of the proven instruction at `offset`, but for its condition, which
    /// is "equal" here; no place if nothing is proven there.
    pub fn it(&self, offset: u32) -> ItState {
        self.map.it(offset)
    }

    /// Whether a CPU that is at `place` goes on as was proven: the instruction is known in the same
    /// instruction set, and so are those behind it in an IT block, at their places there.
    pub fn is_proven(&self, place: Place, words: &Words) -> bool {
        self.instruction(place.offset()) == Some(place.isa()) && self.agrees(place, words)
    }

    /// Whether what is known from `place` on has the places in an IT block that a CPU passes.
    fn agrees(&self, place: Place, words: &Words) -> bool {
        let (mut offset, mut it) = (place.offset(), place.it());
        while let Some(encoding) = self.encoding(offset, words) {
            let known = self.it(offset);
            if (known.is_inside(), known.is_last()) != (it.is_inside(), it.is_last()) {
                return false;
            }
            if !it.is_inside() || it.is_last() {
                break;
            }
            offset += encoding.bytes();
            it = it.next();
        }
        true
    }

    /// Follows the flow from `entry`, at which the guest fetched, through at most `budget`
    /// instructions. What an earlier call left unfinished is followed afterwards; but an entry inside
    /// of an IT block that was not begun is forgotten, and is fetched again.
    ///
    /// The flow ends in front of an instruction that ends in the next frame, the entry or another one.
    pub fn follow(&mut self, entry: Place, words: &Words, budget: u32) -> Progress {
        let old = self.entry.replace(entry);
        if let Some(old) = old.filter(|old| !old.it().is_inside()) {
            self.waiting.push(old);
        }
        self.resume(words, budget)
    }

    /// Goes on where an earlier call's budget ended, through at most `budget` instructions.
    pub fn resume(&mut self, words: &Words, budget: u32) -> Progress {
        if let Some(conflict) = self.conflict {
            return Progress::Contradictory(conflict);
        }
        match self.run(words, budget) {
            Ok(progress) => progress,
            Err(conflict) => {
                self.conflict = Some(conflict);
                Progress::Contradictory(conflict)
            }
        }
    }

    fn run(&mut self, words: &Words, mut budget: u32) -> Result<Progress, Conflict> {
        while let Some(place) = self.take() {
            let Some(rest) = budget.checked_sub(1) else {
                self.current = Some(place);
                return Ok(Progress::Unfinished);
            };
            budget = rest;
            self.current = self.execute(place, words)?;
        }
        Ok(Progress::Finished)
    }

    /// The place that is followed next.
    fn take(&mut self) -> Option<Place> {
        let left = self.current.take();
        if self.entry.is_none() || left.is_some_and(|left| left.it().is_inside()) {
            return left.or_else(|| self.waiting.pop());
        }
        if let Some(left) = left {
            self.waiting.push(left);
        }
        self.entry.take()
    }

    /// Proves the instruction at `place`, and answers the one behind it if the flow goes on there.
    fn execute(&mut self, place: Place, words: &Words) -> Result<Option<Place>, Conflict> {
        let offset = place.offset();
        // No part of what ends in the next frame is executed while this one is confined, and else its first
        // half goes wrong with no second one (`Doubts`).
        let Some(encoding) = frame::encoding(words, offset, place.isa()) else {
            return Ok(None);
        };
        let step = step(encoding, place.it());
        if self.map.execute(place, step.bytes)? == Known::Before {
            if self.agrees(place, words) {
                return Ok(None);
            }
            return Err(Contradiction::Block.at(offset));
        }
        if let Some(literal) = step.loads {
            self.load(place, literal)?;
        }
        self.branch(place, step.goes);
        Ok(self.behind(place, &step))
    }

    /// Notes what is loaded, as far as it is in this frame.
    fn load(&mut self, place: Place, literal: Literal) -> Result<(), Conflict> {
        let first = literal.at.from(place.offset()).cast_signed();
        let last = first.saturating_add(i32::from(literal.bytes));
        let inside = |offset: i32| offset.clamp(0, BYTES.cast_signed()).cast_unsigned();
        let (first, last) = (inside(first), inside(last));
        self.map.load(first, last - first)
    }

    /// Keeps the target of a branch, if it is in this frame.
    fn branch(&mut self, place: Place, goes: Goes) {
        let (target, isa) = match goes {
            Goes::Jump(target) => (target, place.isa()),
            Goes::Call(target, isa) => (target, isa),
            _ => return,
        };
        if let Some(target) = Place::new(target.from(place.offset()), isa, ItState::NONE) {
            self.waiting.push(target);
        }
    }

    /// The place behind, if the flow goes on there. In an IT block each instruction may be skipped,
    /// undefined ones and traps among them: the condition is not a part of what is proven.
    fn behind(&self, place: Place, step: &Step) -> Option<Place> {
        let inside = place.it().is_inside();
        let conditional = step.conditional || inside;
        let goes_on = match step.goes {
            Goes::Next => true,
            Goes::Nowhere => inside,
            Goes::Jump(_) | Goes::Elsewhere => conditional,
            Goes::Call(..) | Goes::CallElsewhere => {
                conditional || self.after_call == AfterCall::Follow
            }
        };
        // An IT in a block is undefined.
        let it = if step.opens.is_inside() && !inside {
            step.opens
        } else {
            place.it().next()
        };
        let next = Place::new(place.offset() + step.bytes, place.isa(), it);
        next.filter(|_| goes_on)
    }
}
