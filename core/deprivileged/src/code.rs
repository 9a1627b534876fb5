//! Which frames of a VM hold code of its kernel.

use crate::host::Host;
use crate::slot::{Ended, Slot, Stage, Ticket, Work};
use crate::traps::Traps;
use hanok_abi::trampoline::{MOST_TRIPLES, Room, TO_CODE, TRIPLE, room};
use hanok_decode::aarch32::Encoding;
use hanok_hal::{AccessError, Forgotten};
use hanok_proof::{Place, is_part_of_doubt};
use hanok_types::{GuestPage, Ipa, PAGE_SIZE, Span};

/// The bytes of a section.
const SECTION: u64 = 1 << 20;
/// How many fetches from a page wait for a store of a sibling's.
const SPARED: u32 = 128;
/// The regions of memory that a VM can execute: RAM and firmware.
const REGIONS: usize = 2;

/// What is known of one page of memory: nothing, that it has no doubtful word, or its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodePage(u16);

impl CodePage {
    const UNKNOWN: Self = Self(0);
    const CLEAN: Self = Self(u16::MAX);
    /// It was clean, and is given up.
    const LEAVING: Self = Self(u16::MAX - 1);

    fn of_slot(slot: usize) -> Self {
        u16::try_from(slot + 1).map_or(Self::UNKNOWN, Self)
    }

    fn slot(self) -> Option<usize> {
        match self {
            Self::CLEAN | Self::LEAVING => None,
            Self(number) => usize::from(number).checked_sub(1),
        }
    }
}

/// A region of a VM's memory, with a [`CodePage`] for each of its pages.
#[derive(Debug)]
pub struct CodePages {
    span: Span<Ipa>,
    pages: &'static mut [CodePage],
}

impl CodePages {
    /// The region at `span`, whole pages; there is an element of `pages` for each.
    pub fn new(span: Span<Ipa>, pages: &'static mut [CodePage]) -> Self {
        Self { span, pages }
    }

    /// Which of the elements is that of `page`; one that there is not, if the page is in none of the region's. With 32 bits only: it is
    /// asked for each neighbour of a page that is filled.
    fn index(&self, page: GuestPage) -> usize {
        let first = (self.span.start().get() / PAGE_SIZE) as u32;
        page.number().wrapping_sub(first) as usize
    }
}

/// What is known of pages that follow each other.
#[derive(Clone, Copy)]
pub(crate) struct States<'a> {
    first: u32,
    pages: &'a [CodePage],
}

impl States<'_> {
    /// Whether nothing is known of the page with this number, which is one of them.
    pub fn is_unknown(&self, page: u32) -> bool {
        let place = page.wrapping_sub(self.first) as usize;
        self.pages.get(place) == Some(&CodePage::UNKNOWN)
    }
}

/// What a page may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executability {
    /// Nothing is known: it is memory.
    Unknown,
    /// It is write-protected, and nobody may execute it.
    Closed,
    /// It is write-protected, and the kernel may execute it only confined, if at all.
    Doubtful,
    /// It is write-protected, and the kernel may execute it.
    Sound,
}

/// An alias of the virtual CPU's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alias {
    /// It can be written only while nothing waits.
    Doorbell,
    /// A doorbell that no trampoline writes through: it cannot be written.
    Closed,
    /// It can be written always.
    Plain,
}

/// The triples in `added`, by the header in its second page; none if there is no header.
fn room_in(added: Span<Ipa>, host: &impl Host) -> Result<Room, AccessError> {
    let header = added.start().get() + u64::from(TO_CODE);
    let word = |index: u64| host.word(Ipa::new(header + 4 * index));
    if added.len() < u64::from(TRIPLE) {
        return Ok(Room::default());
    }
    let found = room([word(0)?, word(1)?, word(2)?, word(3)?, word(4)?]);
    let fits = |found: &Room| {
        u64::from(found.triples) * u64::from(TRIPLE) <= added.len() && found.triples <= MOST_TRIPLES
    };
    Ok(found.filter(fits).unwrap_or_default())
}

/// What has to be done before the kernel can execute the place that it fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proven {
    /// More work on this page.
    More,
    /// It is left alone for now.
    Later,
    /// All entries of shadow tables that allow it to be written have to go first
    /// ([`Code::protected`]).
    Protect(GuestPage, Ticket),
    /// This page has to be given up first, so that its slot can serve another one ([`Code::leave`]).
    Leaves(GuestPage),
    /// All entries that allow it to be executed have to go first ([`Code::settle`]).
    Settles(GuestPage, Ticket),
    /// It may be executed.
    Sound,
    /// It may be executed, confined.
    Confined,
    /// It cannot be proven.
    Contradictory,
}

/// Whether a page has been given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Released {
    /// Nothing is known of it.
    Yes,
    /// Something has been begun with it since.
    No,
    /// Not all is put back.
    NotYet,
}

/// How many pages are forgotten at a time: some 3,000 instructions.
const FORGOTTEN: usize = 2048;

/// How many slots are looked at for one to use.
const SEARCHED: usize = 64;

/// The frames of a VM that hold code of its kernel.
#[derive(Debug)]
pub struct Code {
    regions: [Option<CodePages>; REGIONS],
    slots: &'static mut [Slot],
    traps: Traps,
    /// Whether the kernel was rewritten before it was loaded, so that its SVCs may be sensitive
    /// instructions (`hanok_abi::trap`).
    rewritten: bool,
    /// RAM with code that was added to the kernel then.
    added: Option<Span<Ipa>>,
    /// How many triples of pages of trampolines it begins with (`hanok_abi::trampoline`); `None` until that was looked up.
    room: Option<Room>,
    /// How many pages, of all regions, are forgotten for the VM's next boot ([`Self::forget_pages`]).
    forgotten: usize,
    /// The page that was given up last for a store that the guest makes by itself, and how many fetches from it wait for that.
    spared: Option<(GuestPage, u32)>,
    /// Where the next search for a slot begins.
    hand: usize,
    /// Counts uses of slots.
    clock: u32,
    /// The ticket that was given out last, and the one of clean pages that are given up.
    given: Ticket,
    leaving: Ticket,
}

impl Code {
    /// No code, with room for as many frames with doubtful words as there are `slots`.
    ///
    /// `rewritten` says whether the kernel was rewritten before it was loaded, so that an SVC of it may
    /// stand for a sensitive instruction (`hanok_abi::trap`). In `added` is code that was added to it then:
    /// the kernel may execute it where its own tables only let it be read.
    pub fn new(
        regions: [Option<CodePages>; REGIONS],
        slots: &'static mut [Slot],
        rewritten: bool,
        added: Option<Span<Ipa>>,
    ) -> Self {
        Self {
            regions,
            slots,
            traps: Traps::NONE,
            rewritten,
            added,
            room: None,
            forgotten: 0,
            spared: None,
            hand: 0,
            clock: 0,
            given: Ticket::NONE,
            leaving: Ticket::NONE,
        }
    }

    pub(crate) fn is_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Whether `at` is in code that was added to the kernel.
    pub(crate) fn is_added(&self, at: Ipa) -> bool {
        self.added.is_some_and(|added| added.contains(at))
    }

    /// Finds out how much of the added code is trampolines.
    pub(crate) fn find_trampolines(&mut self, host: &impl Host) -> Result<(), AccessError> {
        if self.room.is_none() {
            self.room = Some(match self.added {
                Some(added) => room_in(added, host)?,
                None => Room::default(),
            });
        }
        Ok(())
    }

    /// The kernel has no trampolines any more, until the VM's next boot.
    pub(crate) fn give_up_trampolines(&mut self) {
        self.room = Some(Room::default());
    }

    /// The trampolines that were added to the kernel, by the place of the first doorbell's page and the triples.
    pub(crate) fn trampolines(&self) -> Option<(Span<Ipa>, Room)> {
        let room = self.room.filter(|room| room.triples != 0)?;
        Some((self.added?, room))
    }

    /// The alias of the virtual CPU's page that the kernel is to find in the page at `at`, if any.
    pub(crate) fn alias(&self, at: Ipa) -> Option<Alias> {
        let (added, room) = self.trampolines()?;
        let page = added.offset_of(at)? / PAGE_SIZE;
        match page % 3 {
            _ if page >= u64::from(3 * room.triples) => None,
            0 if page >= u64::from(3 * room.doorbells) => Some(Alias::Closed),
            0 => Some(Alias::Doorbell),
            2 => Some(Alias::Plain),
            _ => None,
        }
    }

    /// Forgets what is known of a part of the pages, as the VM's memory is made anew: a large memory takes longer than an
    /// interrupt may wait.
    pub fn forget_pages(&mut self) -> Forgotten {
        let mut first = self.forgotten;
        for region in self.regions.iter_mut().flatten() {
            let end = region.pages.len().min(first + FORGOTTEN);
            if let Some(part @ [_, ..]) = region.pages.get_mut(first..end) {
                part.fill(CodePage::UNKNOWN);
                self.forgotten += part.len();
                return Forgotten::Part;
            }
            first = first.saturating_sub(region.pages.len());
        }
        self.forgotten = 0;
        Forgotten::All
    }

    /// Forgets everything else, once all pages are forgotten ([`Self::forget_pages`]).
    pub fn clear(&mut self) {
        self.room = None;
        for slot in self.slots.iter_mut() {
            slot.page = None;
        }
    }

    /// What is known of the pages of the VM's first region.
    pub(crate) fn states(&self) -> Option<States<'_>> {
        let region = self.regions.first()?.as_ref()?;
        Some(States {
            first: (region.span.start().get() / PAGE_SIZE) as u32,
            pages: region.pages,
        })
    }

    /// The number of the first page that was added to a kernel with trampolines, and how many there are.
    pub(crate) fn trampoline_pages(&self) -> Option<(u32, u32)> {
        let (added, _) = self.trampolines()?;
        let number = |bytes: u64| (bytes / PAGE_SIZE) as u32;
        Some((number(added.start().get()), number(added.len())))
    }

    #[inline(never)]
    fn state(&self, page: GuestPage) -> CodePage {
        let mut regions = self.regions.iter().flatten();
        let found = regions.find_map(|region| region.pages.get(region.index(page)));
        found.copied().unwrap_or_default()
    }

    #[inline(never)]
    fn set_state(&mut self, page: GuestPage, state: CodePage) {
        let mut regions = self.regions.iter_mut().flatten();
        let found = regions.find_map(|region| {
            let index = region.index(page);
            region.pages.get_mut(index)
        });
        if let Some(place) = found {
            *place = state;
        }
    }

    /// Whether `at` is in memory that is the VM's own, in which its kernel may have code. Another VM may change what is in a
    /// channel's memory, so nothing that is proven there would last.
    pub(crate) fn holds(&self, at: Ipa) -> bool {
        let mut regions = self.regions.iter().flatten();
        regions.any(|region| region.span.contains(at))
    }

    pub(crate) fn executability(&self, page: GuestPage) -> Executability {
        match self.state(page) {
            CodePage::UNKNOWN => Executability::Unknown,
            CodePage::CLEAN => Executability::Sound,
            state => match state.slot().and_then(|slot| self.slots.get(slot)) {
                Some(slot) if slot.stage == Stage::Sound => Executability::Sound,
                Some(slot) if slot.stage == Stage::Doubtful => Executability::Doubtful,
                _ => Executability::Closed,
            },
        }
    }

    /// Whether anything is known of a page of the megabyte at `at`, or was added there.
    pub(crate) fn has_code_in_section(&self, at: Ipa) -> bool {
        let Some(section) = Span::new(at, SECTION) else {
            return true;
        };
        if self.added.is_some_and(|added| added.overlaps(&section)) {
            return true;
        }
        self.regions.iter().flatten().any(|region| {
            let first = region.span.offset_of(section.start());
            let pages = first.and_then(|first| {
                let first = (first / PAGE_SIZE) as usize;
                region
                    .pages
                    .get(first..first + (SECTION / PAGE_SIZE) as usize)
            });
            match pages {
                Some(pages) => pages.iter().any(|page| *page != CodePage::UNKNOWN),
                None => region.span.overlaps(&section),
            }
        })
    }

    /// Whether anything is known of `page`, so that it must not be written.
    pub(crate) fn is_known(&self, page: GuestPage) -> bool {
        self.state(page) != CodePage::UNKNOWN
    }

    /// What the guest wrote at `offset` of a page, if it is a trap now.
    pub(crate) fn original(&self, page: GuestPage, offset: u32) -> Option<Encoding> {
        self.slot(page)?.original(offset)
    }

    /// The instruction that a trap stands for, which the guest has copied.
    pub(crate) fn copied(&self, trap: Encoding) -> Option<Encoding> {
        self.traps.original(trap)
    }

    /// What the guest wrote in the word at `at`, if it may be another one in memory.
    pub(crate) fn word(&self, at: Ipa) -> Option<u32> {
        let offset = (at.get() % PAGE_SIZE) as u32;
        self.slot(GuestPage::of(at)?)?.word(offset)
    }

    /// Whether the instruction at `place` of a page with doubtful words is proven, and is a trap if
    /// it has to be.
    pub(crate) fn is_proven(&self, page: GuestPage, place: Place) -> bool {
        self.slot(page).is_some_and(|slot| slot.is_proven(place))
    }

    fn slot(&self, page: GuestPage) -> Option<&Slot> {
        self.slots.get(self.state(page).slot()?)
    }

    /// All entries that allow `page` to be written have gone, since this ticket was given out.
    pub(crate) fn protected(&mut self, page: GuestPage, ticket: Ticket) {
        if let Some(slot) = self.slot_mut(page)
            && slot.stage == Stage::Unprotected
            && slot.ticket == ticket
        {
            slot.stage = Stage::Copied(0);
        }
    }

    /// All entries that allow `page` to be executed have gone, since this ticket was given out: it needs no
    /// confinement any more.
    pub(crate) fn settle(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        ticket: Ticket,
    ) -> Result<Ended, AccessError> {
        let Some(index) = self.state(page).slot() else {
            return Ok(Ended::Yes);
        };
        match self.slots.get_mut(index) {
            Some(slot) if slot.ticket == ticket => slot.settle(host, &self.traps),
            _ => Ok(Ended::Yes),
        }
    }

    fn slot_mut(&mut self, page: GuestPage) -> Option<&mut Slot> {
        self.slots.get_mut(self.state(page).slot()?)
    }

    fn new_ticket(&mut self) -> Ticket {
        self.given = self.given.next();
        self.given
    }

    /// Does a piece of the work before the kernel can execute `place` of `page`, which is memory.
    pub(crate) fn prove(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        place: Place,
    ) -> Result<Proven, AccessError> {
        let state = self.state(page);
        match state {
            CodePage::CLEAN => return Ok(Proven::Sound),
            CodePage::LEAVING => return Ok(Proven::Leaves(page)),
            _ => {}
        }
        let Some(index) = state.slot() else {
            return Ok(self.begin(page));
        };
        self.clock = self.clock.wrapping_add(1);
        let Some(slot) = self.slots.get_mut(index) else {
            return Ok(Proven::Contradictory);
        };
        slot.used = self.clock;
        match slot.stage {
            Stage::Unprotected => return Ok(Proven::Protect(page, slot.ticket)),
            Stage::Leaving { .. } => return Ok(Proven::Leaves(page)),
            _ => {}
        }
        Ok(match slot.work(host, &mut self.traps, place)? {
            Work::More if matches!(slot.stage, Stage::Settling { .. }) => {
                Proven::Settles(page, slot.ticket)
            }
            Work::More => Proven::More,
            Work::Contradictory => {
                // What was followed is not known to its end: siblings do not go on with it.
                let _ticket = self.leave(page);
                Proven::Contradictory
            }
            Work::Done if slot.stage == Stage::Sound => Proven::Sound,
            Work::Done => Proven::Confined,
            Work::Clean => {
                slot.page = None;
                self.set_state(page, CodePage::CLEAN);
                Proven::More
            }
        })
    }

    /// Stores bytes of the guest's in a word of `page`, from `offset` on. It answers `false`, and has stored nothing, if
    /// what is known of the page would not hold any more: it has to be given up before.
    pub(crate) fn store(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        offset: u32,
        bytes: &[u8],
    ) -> Result<bool, AccessError> {
        let at = Ipa::new(page.start().get() + u64::from(offset));
        if !self.is_known(page) {
            return host.store(at, bytes).map(|()| true);
        }
        let word = host.word(Ipa::new(at.get() & !3))?;
        let mut after = word.to_le_bytes();
        let places = after.iter_mut().skip((offset % 4) as usize);
        places.zip(bytes).for_each(|(place, byte)| *place = *byte);
        if !self.tolerates(host, page, offset & !3, u32::from_le_bytes(after))? {
            return Ok(false);
        }
        let stored = host.store(at, bytes);
        if stored.is_err() {
            // Its slot says that it was.
            let _ticket = self.leave(page);
        }
        stored.map(|()| true)
    }

    /// Whether what is known of `page` still holds when the word at `offset` becomes `after`.
    fn tolerates(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        offset: u32,
        after: u32,
    ) -> Result<bool, AccessError> {
        let word = |at: u32| match at {
            _ if at == offset => Ok(after),
            _ => host.word(Ipa::new(page.start().get() + u64::from(at))),
        };
        if self.state(page) == CodePage::CLEAN {
            let before = offset.checked_sub(4).map(word).transpose()?;
            let behind = (offset < 0xffc).then(|| word(offset + 4)).transpose()?;
            return Ok(!is_part_of_doubt(before, after, behind));
        }
        let slot = self.slot_mut(page);
        Ok(slot.is_some_and(|slot| slot.written(offset, after)))
    }

    /// The guest is to store to `page` by itself. Siblings that execute it would make code of it again and again: some of
    /// their fetches wait, each of them an exit of its own.
    pub(crate) fn spare(&mut self, page: GuestPage) {
        self.spared = Some((page, SPARED));
    }

    /// Takes a slot for `page`, a free one; or else, of some, the one that was used longest ago has to become free.
    fn begin(&mut self, page: GuestPage) -> Proven {
        if let Some((spared, left @ 1..)) = &mut self.spared
            && *spared == page
        {
            *left -= 1;
            return Proven::Later;
        }
        let (now, len) = (self.clock, self.slots.len());
        let age = |slot: &Slot| match slot.page {
            None => u32::MAX,
            Some(_) => now.wrapping_sub(slot.used),
        };
        // Not all of them, which would take long; the next search goes on behind.
        let some = (0..len.min(SEARCHED)).map(|number| (self.hand + number) % len);
        let Some(index) = some.max_by_key(|index| age(&self.slots[*index])) else {
            return Proven::Contradictory;
        };
        self.hand = index;
        if let Some(old) = self.slots[index].page {
            return Proven::Leaves(old);
        }
        let ticket = self.new_ticket();
        self.slots[index].begin(page, ticket);
        self.set_state(page, CodePage::of_slot(index));
        // It is to be protected then.
        Proven::More
    }

    /// Begins to give `page` up, which nobody may execute from now on; `None` if nothing is known of it. When all
    /// entries have gone that allow it to be executed, [`Self::release`] ends it.
    pub(crate) fn leave(&mut self, page: GuestPage) -> Option<Ticket> {
        match self.state(page) {
            CodePage::UNKNOWN => return None,
            CodePage::LEAVING => return Some(self.leaving),
            CodePage::CLEAN => {
                self.leaving = self.new_ticket();
                self.set_state(page, CodePage::LEAVING);
                return Some(self.leaving);
            }
            _ => {}
        }
        let ticket = self.new_ticket();
        let slot = self.slot_mut(page)?;
        if !matches!(slot.stage, Stage::Leaving { .. }) {
            slot.leave(ticket);
        }
        Some(slot.ticket)
    }

    /// Puts back what the guest wrote in `page`, of which nothing is known from then on, if it was not done, or
    /// begun anew, since this ticket was given out. Answers whether nothing is known of it.
    pub(crate) fn release(
        &mut self,
        host: &impl Host,
        page: GuestPage,
        ticket: Ticket,
    ) -> Result<Released, AccessError> {
        match self.state(page) {
            CodePage::UNKNOWN => return Ok(Released::Yes),
            CodePage::CLEAN => return Ok(Released::No),
            CodePage::LEAVING if self.leaving != ticket => return Ok(Released::No),
            CodePage::LEAVING => {}
            state => {
                let slot = state.slot().and_then(|index| self.slots.get_mut(index));
                let Some(slot) = slot.filter(|slot| slot.is_leaving(ticket)) else {
                    return Ok(Released::No);
                };
                if slot.restore(host, &self.traps)? == Ended::NotYet {
                    return Ok(Released::NotYet);
                }
                slot.page = None;
            }
        }
        self.set_state(page, CodePage::UNKNOWN);
        Ok(Released::Yes)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::vec;

    fn known(first: u64, pages: usize) -> CodePages {
        let span = Span::new(Ipa::new(first), pages as u64 * PAGE_SIZE).expect("pages");
        let pages = vec![CodePage::CLEAN; pages].into_boxed_slice();
        CodePages::new(span, Box::leak(pages))
    }

    #[test]
    fn all_pages_are_forgotten_part_by_part_at_each_boot() {
        let regions = [known(0, FORGOTTEN + 7), known(1 << 31, 3)].map(Some);
        let mut code = Code::new(regions, &mut [], true, None);
        let pages = |code: &Code| {
            let regions = code.regions.iter().flatten();
            let pages = regions.flat_map(|region| region.pages.iter());
            pages.filter(|page| **page != CodePage::UNKNOWN).count()
        };
        for _ in 0..2 {
            let mut left = std::vec![pages(&code)];
            while code.forget_pages() == Forgotten::Part {
                left.push(pages(&code));
            }
            assert_eq!(left, [FORGOTTEN + 10, 10, 3, 0]);
            let regions = code.regions.iter_mut().flatten();
            regions.for_each(|region| region.pages.fill(CodePage::CLEAN));
        }
    }
}
