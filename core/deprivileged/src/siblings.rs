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
//! - A letter box has a fixed size. One that is full asks for all entries to go.

use crate::host::Host;
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::{AtomicBool, Ordering};
use hanok_paging::shadow::{FrameLoss, Invalidation};
use hanok_types::Hpa;

/// The changes that a letter box holds.
const LETTERS: usize = 8;

/// What a vCPU's shadow tables have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An invalidation for all CPUs.
    Invalidate(Invalidation),
    /// A frame allows less than before.
    Forget(Hpa, FrameLoss),
    /// All entries go.
    Everything,
}

/// Changes that were left for a vCPU, in order.
#[derive(Debug, Default)]
struct Letters {
    changes: [Option<Change>; LETTERS],
    /// Where the oldest one is, and how many there are.
    first: usize,
    count: usize,
}

impl Letters {
    fn push(&mut self, change: Change) {
        let last = (self.first + self.count + LETTERS - 1) % LETTERS;
        if self.count != 0 && self.changes[last] == Some(change) {
            return;
        }
        if self.count == LETTERS {
            self.count = 0;
            return self.push(Change::Everything);
        }
        self.changes[(self.first + self.count) % LETTERS] = Some(change);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<Change> {
        self.count = self.count.checked_sub(1)?;
        let oldest = self.changes[self.first].take();
        self.first = (self.first + 1) % LETTERS;
        oldest
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
}

impl Default for Seat {
    fn default() -> Self {
        Self {
            inside: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            letters: Mutex::new(Letters::default()),
        }
    }
}

impl Seat {
    fn post(&self, change: Change) {
        let mut letters = self.letters.lock();
        letters.push(change);
        self.waits.store(true, Ordering::SeqCst);
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
    pub(crate) fn enter(&self) -> bool {
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

    /// The oldest change that was left here.
    pub(crate) fn take(&self) -> Option<Change> {
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

    /// Leaves a change for all siblings. When it returns, none of them runs its guest as before. To be called after
    /// [`Self::leave`], without any lock.
    #[inline(never)]
    pub(crate) fn tell(&self, change: Change, host: &impl Host) {
        let siblings = || {
            let all = self.seats.iter().enumerate();
            all.filter(|(number, _)| *number != self.number)
        };
        for (number, seat) in siblings() {
            seat.post(change);
            if seat.runs_as_before() {
                host.kick(number);
            }
        }
        for (_, seat) in siblings() {
            while seat.runs_as_before() {
                core::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(at: u32) -> Change {
        Change::Invalidate(Invalidation::PageOfAllAsids { at })
    }

    #[test]
    fn letters_come_in_order_and_equal_ones_once() {
        let mut letters = Letters::default();
        for round in 0..3 {
            for at in 0..LETTERS as u32 {
                letters.push(page(round + at));
                letters.push(page(round + at));
            }
            for at in 0..LETTERS as u32 {
                assert_eq!(letters.pop(), Some(page(round + at)));
            }
            assert_eq!(letters.pop(), None);
        }
    }

    #[test]
    fn a_full_letter_box_asks_for_everything() {
        let mut letters = Letters::default();
        for at in 0..=LETTERS as u32 {
            letters.push(page(at));
        }
        letters.push(page(99));
        assert_eq!(letters.pop(), Some(Change::Everything));
        assert_eq!(letters.pop(), Some(page(99)));
        assert_eq!(letters.pop(), None);
    }
}
