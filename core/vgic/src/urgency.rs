//! The urgency of interrupts, and the most urgent one of each word of 32: see `choice.rs`.

use crate::bank::WORDS;

/// The priority of an interrupt, then its id, in one number: a smaller number is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency(u32);

impl Urgency {
    /// The urgency of no interrupt: less urgent than any.
    pub const NONE: Self = Self(u32::MAX);
    /// The urgency of an interrupt that must be listed before all others: more urgent than any that
    /// waits.
    pub const FIRST: Self = Self(0);
    /// The lowest bit of the priority.
    const PRIORITY: u32 = 16;

    pub fn new(priority: u8, id: u32) -> Self {
        Self(u32::from(priority) << Self::PRIORITY | id)
    }

    pub fn priority(self) -> u8 {
        (self.0 >> Self::PRIORITY) as u8
    }

    pub fn id(self) -> u32 {
        self.0 & 0xffff
    }

    pub fn bit(self) -> u32 {
        self.0 % 32
    }

    #[inline(always)]
    pub fn word(self) -> usize {
        (self.id() / 32) as usize
    }

    /// The urgency of interrupt `bit` of the same word, which has the same priority.
    pub fn peer(self, bit: u32) -> Self {
        Self(self.0 & !31 | bit)
    }
}

/// The number of places for heads: a power of two, so that an index can be masked.
const PLACES: usize = WORDS.next_power_of_two();

/// The heads of all words.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Heads {
    /// For each word its head. That of a word that is not in `some` has no meaning.
    each: [Urgency; PLACES],
    /// A bit for each word that has a head.
    some: u32,
}

impl Heads {
    pub const fn new() -> Self {
        Self {
            each: [Urgency::NONE; PLACES],
            some: 0,
        }
    }

    /// A bit for each word that has a head.
    pub fn words(&self) -> u32 {
        self.some
    }

    /// Clears all heads.
    pub fn clear(&mut self) {
        self.some = 0;
    }

    #[cfg(test)]
    pub fn get(&self, word: usize) -> Urgency {
        match self.some >> word & 1 {
            0 => Urgency::NONE,
            _ => self.each[word % PLACES],
        }
    }

    /// Sets the head of a word, which may have none.
    #[inline(always)]
    pub fn set(&mut self, word: usize, head: Urgency) {
        self.put(word, head);
        if head == Urgency::NONE {
            self.some ^= 1 << word;
        }
    }

    /// Sets the head of a word that has one.
    #[inline(always)]
    pub fn put(&mut self, word: usize, head: Urgency) {
        self.each[word % PLACES] = head;
        self.some |= 1 << word;
    }

    /// The most urgent head.
    #[inline(always)]
    pub fn best(&self) -> Urgency {
        let mut best = Urgency::NONE;
        let mut left = self.some;
        while left != 0 {
            let head = self.each[left.trailing_zeros() as usize % PLACES];
            left &= left - 1;
            if head < best {
                best = head;
            }
        }
        best
    }
}
