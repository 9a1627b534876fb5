//! Which interrupts are to stand in the list registers: the most urgent ones, sorted, in a
//! fixed number of places.
//!
//! All that may be listed are offered as masks, a word of 32 interrupts at a time. What is done
//! then does not grow with their number, only with that of the places: of each word the most
//! urgent one is known, and the best of these is taken, and looked for again in its word alone.

use crate::bank::{Bank, bits};
use crate::state::{MAX_LRS, WORDS};

/// An interrupt that is to have a list register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    id: u16,
}

/// What kind of need; those of one kind come before all of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Class {
    /// The guest has acknowledged it and will deactivate it.
    Acknowledged,
    /// The guest has not seen it yet.
    Pending,
    /// The guest declared it active, and may or may not end it.
    Forced,
}

impl Class {
    const ALL: [Self; 3] = [Self::Acknowledged, Self::Pending, Self::Forced];
}

impl Need {
    pub fn word(self) -> usize {
        usize::from(self.id / 32)
    }

    pub fn bit(self) -> u32 {
        u32::from(self.id % 32)
    }

    pub fn id(self) -> u32 {
        u32::from(self.id)
    }
}

/// All that may be listed, a mask for each kind and word.
#[derive(Debug, Default)]
pub(crate) struct Offers([[u32; WORDS]; 3]);

impl Offers {
    /// Offers the interrupts `mask` of a word.
    pub fn add(&mut self, class: Class, word: usize, mask: u32) {
        if let Some(all) = self.0[class as usize].get_mut(word) {
            *all |= mask;
        }
    }

    /// Whether more are to get a list register than there is `room`: those that may give way do not
    /// count.
    pub fn more_than(&self, room: usize) -> bool {
        let [acknowledged, pending, _] = &self.0;
        let all = acknowledged.iter().chain(pending);
        all.flat_map(|mask| bits(*mask)).nth(room).is_some()
    }

    /// The most urgent ones for `room` list registers: by kind, then by priority, then by id. A word's
    /// bank is `bank`.
    pub fn choose<'a>(mut self, room: usize, bank: impl Fn(usize) -> Option<&'a Bank>) -> Choice {
        let mut choice = Choice {
            best: [Need { id: 0 }; MAX_LRS],
            len: 0,
            room: room.min(MAX_LRS),
            acknowledged: false,
            waiting: false,
        };
        for (class, masks) in Class::ALL.into_iter().zip(&mut self.0) {
            let before = choice.len;
            choice.take(masks, &bank);
            choice.acknowledged |= class == Class::Acknowledged && choice.len > before;
            choice.waiting |= class != Class::Forced && masks.iter().any(|mask| *mask != 0);
        }
        choice
    }
}

/// The best of what was offered.
#[derive(Debug)]
pub(crate) struct Choice {
    best: [Need; MAX_LRS],
    len: usize,
    room: usize,
    acknowledged: bool,
    /// Some that the guest must get found no room.
    pub waiting: bool,
}

/// Of a word of which no interrupt is offered: less urgent than any.
const NONE: u16 = u16::MAX;

impl Choice {
    /// The chosen ones, most urgent first.
    pub fn best(&self) -> &[Need] {
        self.best.get(..self.len).unwrap_or(&[])
    }

    /// Whether an acknowledged one is among them.
    pub fn has_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Moves the most urgent interrupts of `masks` to where there is room.
    fn take<'a>(&mut self, masks: &mut [u32; WORDS], bank: &impl Fn(usize) -> Option<&'a Bank>) {
        if self.len == self.room || masks.iter().all(|mask| *mask == 0) {
            return;
        }
        let head = |word: usize, mask: u32| match bank(word) {
            Some(bank) if mask != 0 => {
                let (best, priority) = bank.priorities.most_urgent(mask);
                u16::from(priority) << 5 | best.trailing_zeros() as u16
            }
            _ => NONE,
        };
        let mut heads = [NONE; WORDS];
        for (word, (first, mask)) in heads.iter_mut().zip(masks.iter()).enumerate() {
            *first = head(word, *mask);
        }
        while self.len < self.room {
            // By priority alone: of equal ones, that of the first word.
            let best = heads.iter().zip(0..).min_by_key(|(head, _)| **head >> 5);
            let Some((first, word)) = best.filter(|(head, _)| **head != NONE) else {
                return;
            };
            let (bit, word): (u16, usize) = (first & 31, word);
            if let Some(need) = self.best.get_mut(self.len) {
                need.id = word as u16 * 32 + bit;
            }
            self.len += 1;
            if let (Some(mask), Some(first)) = (masks.get_mut(word), heads.get_mut(word)) {
                *mask &= !(1 << bit);
                *first = head(word, *mask);
            }
        }
    }
}
