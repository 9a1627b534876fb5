//! The vCPUs of a VM: what one of them changes for all.
//!
//! Each has shadow tables of its own, which its own pCPU alone changes. What goes for all is left in the
//! letter box of each sibling's [`Seat`], and a sibling whose guest runs is kicked; it may run again only with an
//! empty letter box. Whoever left the change waits until no sibling runs its guest as before. Then nothing that
//! the change takes away is in use any more, and none gets it back, as new entries are made by what
//! [`Code`](crate::code::Code) says.
//!
//! Kept true:
//! - A guest runs only while its seat says so, and that is said before the letter box is looked into for the last time.
//! - Who waits has left its guest, so that two that wait for each other do not wait. A sibling in its guest leaves at
//!   once, by its interrupt.
//! - Who waits does nothing else, as for a lock: a pCPU that panics ends the board, so that nobody has to go on without it.
//! - A letter box has a fixed size. One that is full asks for all entries to go.
//! - Before a vCPU reads the guest's tables to make an entry, its seat says that it has *touched* the megabyte. A sibling that
//!   invalidates a page, after it has changed the tables, leaves out a seat that has touched none of the sixteen megabytes that
//!   a supersection there would have: an entry made later stems from what the tables say now. Between what each writes and
//!   what it reads of the other stands a barrier.

use crate::host::Host;
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use hanok_paging::shadow::{FrameLoss, Invalidation};
use hanok_types::Hpa;

/// The changes that a letter box holds.
const LETTERS: usize = 8;

/// What a vCPU's shadow tables have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An invalidation for all CPUs.
    Invalidate(Invalidation),
    /// A frame allows less than before.
    Forget(Hpa, FrameLoss),
    /// All entries go.
    Everything,
}

/// Changes that were left for a vCPU. All of them take something away, so that their order means nothing.
#[derive(Debug)]
struct Letters {
    changes: [Change; LETTERS],
    count: usize,
}

impl Letters {
    const NONE: Self = Self {
        changes: [Change::Everything; LETTERS],
        count: 0,
    };

    #[inline(never)]
    fn push(&mut self, change: Change) {
        let waiting = self.changes.get(..self.count).unwrap_or(&[]);
        let same = |one: &Change| *one == change || *one == Change::Everything;
        if waiting.iter().any(same) {
            return;
        }
        // One search at most before an entry: each may take long.
        let searches = |one: &Change| matches!(one, Change::Forget(..));
        let second = searches(&change) && waiting.iter().any(searches);
        let all = second || self.count == LETTERS;
        if all {
            self.count = 0;
        }
        if let Some(place) = self.changes.get_mut(self.count) {
            *place = if all { Change::Everything } else { change };
        }
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Change> {
        self.count = self.count.checked_sub(1)?;
        self.changes.get(self.count).copied()
    }
}

/// A vCPU among its VM's.
#[derive(Debug)]
pub struct Seat {
    /// Whether its guest may be running.
    inside: AtomicBool,
    /// Whether changes wait for it.
    waits: AtomicBool,
    letters: Mutex<Letters>,
    /// The megabytes in which its shadow tables may have an entry: a bit for each.
    touched: [AtomicU32; MEGABYTES / BITS],
}

/// The megabytes of an address space, and the bits of a word.
const MEGABYTES: usize = 4096;
const BITS: usize = u32::BITS as usize;

impl Default for Seat {
    fn default() -> Self {
        Self {
            inside: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            letters: Mutex::new(Letters::NONE),
            touched: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl Seat {
    fn post(&self, change: Change) {
        let mut letters = self.letters.lock();
        letters.push(change);
        self.waits.store(true, Ordering::SeqCst);
    }

    /// The word with the bit for the megabyte of an address, and the bit.
    fn bit(&self, address: u32) -> Option<(&AtomicU32, u32)> {
        let megabyte = (address >> 20) as usize;
        let word = self.touched.get(megabyte / BITS)?;
        Some((word, 1 << (megabyte % BITS)))
    }

    /// Whether a change can concern its shadow tables.
    fn is_concerned(&self, change: Change) -> bool {
        let (at, count) = match change {
            Change::Invalidate(
                Invalidation::Page { at, .. } | Invalidation::PageOfAllAsids { at },
            ) => (at, 1),
            Change::Invalidate(Invalidation::Pages { at, count, .. }) => (at, count.into()),
            _ => return true,
        };
        // An entry for any of a supersection's sixteen megabytes goes with any of its addresses.
        const GROUP: u32 = 0xffff;
        let last = (at >> 12).saturating_add(count).saturating_sub(1) >> 8;
        (at >> 24..=last >> 4).any(|group| {
            let word = self.touched.get((group / 2) as usize);
            let touched = word.map_or(0, |word| word.load(Ordering::SeqCst));
            touched >> (group % 2 * 16) & GROUP != 0
        })
    }

    /// Whether its guest may be running as before a change that was posted.
    fn runs_as_before(&self) -> bool {
        self.inside.load(Ordering::SeqCst) && self.waits.load(Ordering::SeqCst)
    }
}

/// One vCPU of its VM.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The seats of all vCPUs, by number; none if there is one vCPU.
    seats: &'static [Seat],
    number: usize,
}

impl Member {
    /// The only vCPU of a VM.
    pub const ALONE: Self = Self {
        seats: &[],
        number: 0,
    };

    /// The vCPU with this number, of a VM whose vCPUs have these seats.
    pub const fn new(seats: &'static [Seat], number: usize) -> Self {
        Self { seats, number }
    }

    /// Whether its VM has other vCPUs.
    pub(crate) const fn has_siblings(&self) -> bool {
        !self.seats.is_empty()
    }

    /// The number of the vCPU.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The guest has left.
    pub fn leave(&self) {
        if let Some(seat) = self.seats.get(self.number) {
            seat.inside.store(false, Ordering::SeqCst);
        }
    }

    /// The guest is about to run. Answers whether it may: otherwise there are changes to be made before.
    pub fn enter(&self) -> bool {
        let Some(seat) = self.seats.get(self.number) else {
            return true;
        };
        seat.inside.store(true, Ordering::SeqCst);
        let may = !seat.waits.load(Ordering::SeqCst);
        if !may {
            self.leave();
        }
        may
    }

    /// An entry is about to be made for an address. To be called before the guest's tables are read for it.
    pub fn touch(&self, address: u32) {
        let seat = self.seats.get(self.number);
        if let Some((word, bit)) = seat.and_then(|seat| seat.bit(address))
            && word.load(Ordering::Relaxed) & bit == 0
        {
            word.fetch_or(bit, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// A change that was left here.
    pub fn take(&self) -> Option<Change> {
        let seat = self.seats.get(self.number)?;
        if !seat.waits.load(Ordering::SeqCst) {
            return None;
        }
        let mut letters = seat.letters.lock();
        let change = letters.pop();
        if change.is_none() {
            seat.waits.store(false, Ordering::SeqCst);
        }
        change
    }

    /// Leaves a change for all siblings, which [`Self::wait`] is to follow.
    pub fn post(&self, change: Change) {
        // The guest's own barrier may order nothing but stores.
        fence(Ordering::SeqCst);
        for (number, seat) in self.seats.iter().enumerate() {
            if number != self.number && seat.is_concerned(change) {
                seat.post(change);
            }
        }
    }

    /// Waits until no sibling runs its guest as before the changes that were posted. To be called after [`Self::leave`],
    /// without any lock. All are kicked first, so that they leave at the same time.
    #[inline(never)]
    pub fn wait(&self, host: &impl Host) {
        // Its own guest does not run.
        for (number, seat) in self.seats.iter().enumerate() {
            if seat.runs_as_before() {
                host.kick(number);
            }
        }
        for seat in self.seats {
            while seat.runs_as_before() {
                core::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn page(at: u32) -> Change {
        Change::Invalidate(Invalidation::PageOfAllAsids { at })
    }

    #[test]
    fn a_page_concerns_who_has_touched_its_megabyte() {
        static SEATS: std::sync::OnceLock<[Seat; 2]> = std::sync::OnceLock::new();
        let seats = SEATS.get_or_init(Default::default);
        let one = Member::new(seats, 1);
        one.touch(0xffe1_2345);
        let concerned = |at| seats.each_ref().map(|seat| seat.is_concerned(page(at)));
        let range = |at, count| {
            let asid = None;
            Change::Invalidate(Invalidation::Pages { at, count, asid })
        };
        assert_eq!(concerned(0xffef_f000), [false, true]);
        // It may be of a supersection's, which goes with any of its addresses.
        assert_eq!(concerned(0xff00_0000), [false, true]);
        assert_eq!(concerned(0xffff_f000), [false, true]);
        assert_eq!(concerned(0xfeff_f000), [false, false]);
        assert!(!seats[1].is_concerned(range(0xfeff_f000, 1)));
        assert!(seats[1].is_concerned(range(0xfeff_f000, 2)));
        assert!(!seats[1].is_concerned(range(0, 4096)));
        assert!(seats[0].is_concerned(Change::Invalidate(Invalidation::All)));
        assert!(seats[0].is_concerned(Change::Invalidate(Invalidation::Asid(1))));
        assert!(seats[0].is_concerned(Change::Forget(Hpa::new(0), FrameLoss::Write)));
        Member::ALONE.touch(0);
    }

    #[test]
    fn each_letter_comes_once() {
        let mut letters = Letters::NONE;
        for _ in 0..2 {
            (0..LETTERS as u32).for_each(|at| letters.push(page(at)));
        }
        let mut found: [_; LETTERS] = core::array::from_fn(|_| letters.pop());
        found.reverse();
        assert_eq!(found, core::array::from_fn(|at| Some(page(at as u32))));
        assert_eq!(letters.pop(), None);
    }

    #[test]
    fn a_full_letter_box_asks_for_everything_and_so_does_a_second_search() {
        let forget = |frame: u64| Change::Forget(Hpa::new(frame << 12), FrameLoss::Write);
        let many: [_; LETTERS + 1] = core::array::from_fn(|at| page(at as u32));
        for changes in [&many[..], &[page(1), forget(1), forget(2)]] {
            let mut letters = Letters::NONE;
            changes.iter().for_each(|change| letters.push(*change));
            letters.push(page(99));
            assert_eq!(letters.pop(), Some(Change::Everything));
            assert_eq!(letters.pop(), None);
        }
        let mut letters = Letters::NONE;
        (0..2).for_each(|_| letters.push(forget(1)));
        assert_eq!(letters.pop(), Some(forget(1)));
    }
}
