//! Which interrupts are to stand in the list registers: the most urgent ones, sorted, in a
//! fixed number of places.

use crate::bank::{Bank, bits};
use crate::state::{MAX_LRS, Place};

/// How urgently an interrupt needs a list register; less is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    class: Class,
    priority: u8,
    id: u16,
}

/// What kind of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// The guest has acknowledged it and will deactivate it.
    Acknowledged,
    /// The guest has not seen it yet.
    Pending,
    /// The guest declared it active, and may or may not end it.
    Forced,
}

impl Need {
    pub const NONE: Self = Self {
        class: Class::Forced,
        priority: u8::MAX,
        id: u16::MAX,
    };

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

/// The best of what was offered.
#[derive(Debug)]
pub(crate) struct Choice {
    best: [Need; MAX_LRS],
    len: usize,
    room: usize,
    /// Some that the guest must get found no room.
    pub waiting: bool,
}

impl Choice {
    pub fn new(room: usize) -> Self {
        Self {
            best: [Need::NONE; MAX_LRS],
            len: 0,
            room: room.min(MAX_LRS),
            waiting: false,
        }
    }

    /// The chosen ones, most urgent first.
    pub fn best(&self) -> &[Need] {
        self.best.get(..self.len).unwrap_or(&[])
    }

    /// Whether an acknowledged one is among them.
    pub fn has_acknowledged(&self) -> bool {
        let first = self.best().first();
        first.is_some_and(|need| need.class == Class::Acknowledged)
    }

    /// Offers the interrupts `mask` of a bank.
    pub fn offer(&mut self, class: Class, place: Place, bank: &Bank, mask: u32) {
        for bit in bits(mask) {
            self.offer_one(Need {
                class,
                priority: bank.priority(bit),
                id: (place.word * 32) as u16 + bit as u16,
            });
        }
    }

    fn offer_one(&mut self, need: Need) {
        let at = self.best().partition_point(|other| *other < need);
        let loser = if self.len < self.room {
            self.len += 1;
            None
        } else {
            self.best().last().copied().max(Some(need))
        };
        let tail = self.best.get_mut(at..self.len).unwrap_or(&mut []);
        if !tail.is_empty() {
            tail.rotate_right(1);
        }
        if let Some(first) = tail.first_mut() {
            *first = need;
        }
        self.waiting |= loser.is_some_and(|loser| loser.class != Class::Forced);
    }
}
