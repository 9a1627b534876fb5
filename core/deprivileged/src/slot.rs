//! A frame with doubtful words: what is proven about it, and what was rewritten in it.

use crate::host::Host;
use crate::traps::{Traps, begins_trap, may_have_traps};
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use hanok_hal::AccessError;
use hanok_proof::{
    AfterCall, Cause, Doubts, Execution, FrameProof, Looked, Place, Progress, Verdict, WORDS, Words,
};
use hanok_types::{GuestPage, Ipa};

/// How many words are copied together: those that [`Host::words`] gives.
const COPIED: usize = 16;
/// How often that is done at once, as long as no word has to be translated.
const COPIES: usize = 4;
/// How many words are looked at at once.
const LOOKED: u32 = 16;
/// How many instructions are followed at once.
const FOLLOWED: u32 = 8;
/// How many traps are looked at at once to put back what they stand for.
const PUT_BACK: u32 = 8;
/// The halfwords of a frame, by 32.
const BITS: usize = 64;

/// How far a frame has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The guest may still write it by old entries of shadow tables.
    Unprotected,
    /// The words before this one are copied.
    Copied(usize),
    /// It is being looked through for doubtful words.
    Looking,
    /// It has doubtful words.
    Doubtful,
    /// It had doubtful words, all of which are proven now. Indirect branches are still traps.
    Settling {
        /// The offset behind those that are put back already.
        next: u32,
    },
    /// It had doubtful words, all of which are proven now.
    Sound,
    /// It is given up.
    Leaving {
        /// Whether its words were copied.
        copied: bool,
    },
}

/// What a piece of work led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// There is more to be done.
    More,
    /// It has no doubtful word at all.
    Clean,
    /// The place that was asked for may be executed, confined if the frame is still doubtful.
    Done,
    /// The frame contradicts itself.
    Contradictory,
}

/// Whether work that is done in pieces has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    /// It has.
    Yes,
    /// The call is to be made again.
    NotYet,
}

impl Ended {
    const fn of(ended: bool) -> Self {
        if ended { Self::Yes } else { Self::NotYet }
    }
}

/// Names what has begun with a page, so that nobody ends what others have begun since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u32);

impl Ticket {
    /// That of nothing.
    pub const NONE: Self = Self(0);

    /// Another one.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// A place for a frame with doubtful words.
#[derive(Clone, Debug)]
pub struct Slot {
    pub(crate) page: Option<GuestPage>,
    pub(crate) stage: Stage,
    /// What has begun with the frame.
    pub(crate) ticket: Ticket,
    /// When it was used last.
    pub(crate) used: u32,
    /// What the guest wrote.
    words: Words,
    doubts: Doubts,
    proof: FrameProof,
    /// The flow was not followed to its end.
    unfinished: bool,
    /// The proven instructions that were looked at, by the halfword at which they begin.
    seen: [u32; BITS],
    /// Those of them that are traps in memory.
    trapped: [u32; BITS],
}

impl Slot {
    /// A slot for no frame: no constant, which would take its 7 KiB in the image.
    pub const fn empty() -> Self {
        Self {
            page: None,
            stage: Stage::Unprotected,
            ticket: Ticket::NONE,
            used: 0,
            words: [0; WORDS],
            doubts: Doubts::new(),
            proof: FrameProof::new(0, AfterCall::Stop),
            unfinished: false,
            seen: [0; BITS],
            trapped: [0; BITS],
        }
    }

    /// Begins with another frame.
    pub(crate) fn begin(&mut self, page: GuestPage, ticket: Ticket) {
        self.page = Some(page);
        self.ticket = ticket;
        self.stage = Stage::Unprotected;
        self.doubts = Doubts::new();
        self.proof = FrameProof::new(0, AfterCall::Stop);
        self.unfinished = false;
        self.seen = [0; BITS];
        self.trapped = [0; BITS];
    }

    /// The instruction at `offset` as the guest wrote it, if it is a trap in memory.
    pub(crate) fn original(&self, offset: u32) -> Option<Encoding> {
        has(&self.trapped, offset)
            .then(|| self.proof.encoding(offset, &self.words))
            .flatten()
    }

    /// What the guest wrote in a word, if it may be another one in memory.
    pub(crate) fn word(&self, offset: u32) -> Option<u32> {
        let copied = self.is_copied();
        let word = self.words.get((offset / 4) as usize).copied();
        word.filter(|_| copied)
    }

    /// Does a piece of the work before the instruction at `place` can be executed.
    pub(crate) fn work(
        &mut self,
        host: &impl Host,
        traps: &mut Traps,
        place: Place,
    ) -> Result<Work, AccessError> {
        let Some(start) = self.page.map(GuestPage::start) else {
            return Ok(Work::Contradictory);
        };
        match self.stage {
            Stage::Unprotected | Stage::Leaving { .. } => Ok(Work::More),
            Stage::Copied(_) => self.copy(host, traps, start),
            Stage::Looking => Ok(self.look()),
            Stage::Doubtful => self.prove(host, traps, start, place),
            Stage::Settling { .. } => Ok(Work::More),
            Stage::Sound => Ok(Work::Done),
        }
    }

    /// Copies some words.
    fn copy(&mut self, host: &impl Host, traps: &Traps, start: Ipa) -> Result<Work, AccessError> {
        for _ in 0..COPIES {
            let Stage::Copied(next) = self.stage else {
                break;
            };
            let all = host.words(Ipa::new(start.get() + 4 * next as u64))?;
            let before = match next {
                0 => 0,
                _ => host.word(Ipa::new(start.get() + 4 * next as u64 - 4))?,
            };
            let mut more = true;
            let plain = !may_have_traps(&all) && !begins_trap(before);
            if plain && let Some(words) = self.words.get_mut(next..next + COPIED) {
                words.copy_from_slice(&all);
            } else {
                self.translate(host, traps, start, (next, &all))?;
                more = false;
            }
            self.stage = match next + COPIED {
                WORDS.. => {
                    // The guest may have written it as memory without caches, which its own are not.
                    host.clean(start);
                    Stage::Looking
                }
                next => Stage::Copied(next),
            };
            if !more {
                break;
            }
        }
        Ok(Work::More)
    }

    /// Takes over words among which the guest may have copied traps from elsewhere: they become what they stand for.
    #[inline(never)]
    fn translate(
        &mut self,
        host: &impl Host,
        traps: &Traps,
        start: Ipa,
        (next, all): (usize, &[u32; COPIED]),
    ) -> Result<(), AccessError> {
        let at = |index: usize| Ipa::new(start.get() + 4 * index as u64);
        let raw = |index: usize| match index {
            0..WORDS => host.word(at(index)),
            _ => Ok(0),
        };
        let mut before = match next.checked_sub(1) {
            Some(index) => raw(index)?,
            None => 0,
        };
        let last = raw(next + COPIED)?;
        let mut here = all[0];
        let words = self.words.iter_mut().enumerate().skip(next).take(COPIED);
        for (index, word) in words {
            let behind = all.get(index + 1 - next).copied().unwrap_or(last);
            *word = traps.translate(here, (before >> 16) as u16, behind as u16);
            (before, here) = (here, behind);
        }
        Ok(())
    }

    fn look(&mut self) -> Work {
        if self.doubts.look(&self.words, LOOKED) == Looked::Partly {
            return Work::More;
        }
        if self.proof.verdict(&self.doubts) == Verdict::Executable {
            return Work::Clean;
        }
        self.stage = Stage::Doubtful;
        Work::More
    }

    /// Whether the instruction at `place` is proven, and so is all that is reached from there in the
    /// frame.
    pub(crate) fn is_proven(&self, place: Place) -> bool {
        let ready = matches!(self.stage, Stage::Doubtful | Stage::Sound);
        ready && !self.unfinished && self.proof.is_proven(place, &self.words)
    }

    /// Takes over the word at `offset`, which the guest writes. Answers whether all that is known of the frame still
    /// holds with it.
    pub(crate) fn written(&mut self, offset: u32, raw: u32) -> bool {
        let index = (offset / 4) as usize;
        match self.stage {
            Stage::Unprotected => return true,
            // It is copied later.
            Stage::Copied(next) if index >= next => return true,
            Stage::Settling { .. } | Stage::Leaving { .. } => return false,
            // What is behind code may be code, too, until the flow has been followed to its end.
            _ if self.unfinished || self.holds_code(offset) => return false,
            Stage::Copied(_) | Stage::Looking | Stage::Doubtful | Stage::Sound => {}
        }
        let before = self.words.get(index).copied().unwrap_or(0);
        self.set_word(index, raw);
        let holds =
            self.stage != Stage::Sound || self.proof.verdict(&self.doubts) == Verdict::Executable;
        if !holds {
            self.set_word(index, before);
        }
        holds
    }

    #[inline(never)]
    fn set_word(&mut self, index: usize, word: u32) {
        if let Some(place) = self.words.get_mut(index) {
            *place = word;
        }
        if !matches!(self.stage, Stage::Copied(_)) {
            self.doubts.update(index as u32, &self.words);
        }
    }

    /// Whether there is proven code in the word at `offset`, so that it must not be written.
    fn holds_code(&self, offset: u32) -> bool {
        self.proof.is_code(offset & !3) || self.proof.is_code(offset & !3 | 2)
    }

    fn prove(
        &mut self,
        host: &impl Host,
        traps: &mut Traps,
        start: Ipa,
        place: Place,
    ) -> Result<Work, AccessError> {
        if self.is_proven(place) {
            return Ok(Work::Done);
        }
        let progress = if self.unfinished {
            self.proof.resume(&self.words, FOLLOWED)
        } else {
            self.proof.follow(place, &self.words, FOLLOWED)
        };
        self.unfinished = progress == Progress::Unfinished;
        self.rewrite(host, traps, start)?;
        if let Progress::Contradictory(_) = progress {
            return Ok(Work::Contradictory);
        }
        if self.unfinished {
            return Ok(Work::More);
        }
        if self.proof.verdict(&self.doubts) == Verdict::Executable {
            self.stage = Stage::Settling { next: 0 };
        }
        // The place itself is asked for again, since it may not have been followed yet.
        Ok(Work::More)
    }

    /// Turns what was proven newly into traps where that is needed.
    fn rewrite(
        &mut self,
        host: &impl Host,
        traps: &mut Traps,
        start: Ipa,
    ) -> Result<(), AccessError> {
        let mut any = false;
        let mut next = 0;
        while let Some(offset) = self.proof.next_unseen(next, &self.seen) {
            next = offset + 2;
            let site = self.proof.site(offset, &self.words, Execution::Confined);
            if let Some(site) = site {
                put(&mut self.trapped, offset);
                let _trap = traps.trap(site.encoding);
                self.show(host, traps, start, offset)?;
                if let Encoding::Wide(_) = site.encoding {
                    self.show(host, traps, start, offset + 2)?;
                }
                any = true;
            }
            put(&mut self.seen, offset);
        }
        if any {
            host.synchronize_fetches();
        }
        Ok(())
    }

    /// Puts some of the indirect branches back, if the frame is to be confined no longer.
    pub(crate) fn settle(&mut self, host: &impl Host, traps: &Traps) -> Result<Ended, AccessError> {
        let (Stage::Settling { next }, Some(page)) = (self.stage, self.page) else {
            return Ok(Ended::Yes);
        };
        let next = self.put_back(host, traps, page.start(), next, |slot, offset| {
            let site = slot.proof.site(offset, &slot.words, Execution::Confined);
            site.is_some_and(|site| site.cause == Cause::IndirectBranch)
        })?;
        self.stage = match next {
            Some(next) => Stage::Settling { next },
            None => Stage::Sound,
        };
        Ok(Ended::of(next.is_none()))
    }

    /// Begins to give the frame up.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        let copied = self.is_copied();
        (self.stage, self.ticket) = (Stage::Leaving { copied }, ticket);
    }

    /// Whether it is given up since this ticket was given out.
    pub(crate) fn is_leaving(&self, ticket: Ticket) -> bool {
        matches!(self.stage, Stage::Leaving { .. }) && self.ticket == ticket
    }

    /// Whether its words are what the guest wrote.
    fn is_copied(&self) -> bool {
        match self.stage {
            Stage::Doubtful | Stage::Settling { .. } | Stage::Sound => true,
            Stage::Leaving { copied } => copied,
            Stage::Unprotected | Stage::Copied(_) | Stage::Looking => false,
        }
    }

    /// Puts back some of what the guest wrote.
    pub(crate) fn restore(
        &mut self,
        host: &impl Host,
        traps: &Traps,
    ) -> Result<Ended, AccessError> {
        let Some(start) = self.page.map(GuestPage::start) else {
            return Ok(Ended::Yes);
        };
        let next = self.put_back(host, traps, start, 0, |_, _| true)?;
        Ok(Ended::of(next.is_none()))
    }

    /// Puts back some of those traps from `next` on that are chosen. Answers where to go on.
    fn put_back(
        &mut self,
        host: &impl Host,
        traps: &Traps,
        start: Ipa,
        mut next: u32,
        chosen: impl Fn(&Self, u32) -> bool,
    ) -> Result<Option<u32>, AccessError> {
        let mut left = PUT_BACK;
        let rest = loop {
            let Some(offset) = first(&self.trapped, next) else {
                break None;
            };
            if left == 0 {
                break Some(offset);
            }
            (left, next) = (left - 1, offset + 2);
            if chosen(self, offset) {
                clear(&mut self.trapped, offset);
                let mut done = self.show(host, traps, start, offset);
                if offset % 4 != 0 {
                    // One of four bytes ends in the next word.
                    done = done.and_then(|()| self.show(host, traps, start, offset + 2));
                }
                if done.is_err() {
                    // It is done again when the page is there.
                    put(&mut self.trapped, offset);
                    done?;
                }
            }
        };
        host.synchronize_fetches();
        Ok(rest)
    }

    /// Makes the word around `offset` in memory what the guest wrote, or a trap.
    fn show(
        &self,
        host: &impl Host,
        traps: &Traps,
        start: Ipa,
        offset: u32,
    ) -> Result<(), AccessError> {
        let offset = offset & !3;
        let Some(word) = self.words.get((offset / 4) as usize) else {
            return Ok(());
        };
        let [mut first, mut second] = [*word as u16, (*word >> 16) as u16];
        let trap = |at| self.original(at).map(|original| traps.known(original));
        if let Some(Encoding::Wide(both)) = offset.checked_sub(2).and_then(trap) {
            first = both as u16;
        }
        match trap(offset) {
            Some(Encoding::A32(word)) => [first, second] = [word as u16, (word >> 16) as u16],
            Some(Encoding::Wide(both)) => [first, second] = [(both >> 16) as u16, both as u16],
            Some(Encoding::Narrow(half)) => first = half,
            None => {}
        }
        match trap(offset + 2) {
            Some(Encoding::Wide(both)) => second = (both >> 16) as u16,
            Some(Encoding::Narrow(half)) => second = half,
            Some(Encoding::A32(_)) | None => {}
        }
        let word = u32::from(second) << 16 | u32::from(first);
        host.set_word(Ipa::new(start.get() + u64::from(offset)), word)
    }
}

fn has(bits: &[u32; BITS], offset: u32) -> bool {
    let word = bits.get((offset / 64) as usize);
    word.is_some_and(|word| word >> (offset / 2 % 32) & 1 != 0)
}

/// The first offset from `from` on that is in the set.
fn first(bits: &[u32; BITS], from: u32) -> Option<u32> {
    let mut mask = u32::MAX << (from / 2 % 32);
    for (number, word) in bits.iter().enumerate().skip((from / 64) as usize) {
        if word & mask != 0 {
            return Some(64 * number as u32 + 2 * (word & mask).trailing_zeros());
        }
        mask = u32::MAX;
    }
    None
}

fn clear(bits: &mut [u32; BITS], offset: u32) {
    if let Some(word) = bits.get_mut((offset / 64) as usize) {
        *word &= !(1 << (offset / 2 % 32));
    }
}

fn put(bits: &mut [u32; BITS], offset: u32) {
    if let Some(word) = bits.get_mut((offset / 64) as usize) {
        *word |= 1 << (offset / 2 % 32);
    }
}

/// The place at the guest's PC.
pub(crate) fn place(pc: u32, thumb: bool, it: ItState) -> Option<Place> {
    let isa = if thumb { Isa::T32 } else { Isa::A32 };
    Place::new(pc & 0xfff, isa, it)
}
