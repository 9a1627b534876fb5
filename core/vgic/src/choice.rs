//! Which interrupts are to stand in the list registers: the most urgent ones, sorted, in a
//! fixed number of places.
//!
//! There are three kinds, and all of one come before those of the next: what the guest has
//! acknowledged and will deactivate, what it has not seen yet, and what it declared active and may
//! or may not end. All that may be listed are offered as masks, a word of 32 interrupts at a time.
//! What is done then does not grow with their number, only with that of the places: of each word
//! the most urgent one is known, and the best of these is taken, and looked for again in its word
//! alone.

use crate::bank::Bank;
use crate::state::{MAX_LRS, WORDS};

/// An interrupt that is to have a list register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    id: u16,
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

/// What of one word may be listed, a mask for each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offer {
    /// Acknowledged by the guest.
    pub acknowledged: u32,
    /// Not seen by it yet.
    pub pending: u32,
    /// Declared active by it.
    pub forced: u32,
}

impl Offer {
    /// How many there are.
    pub fn number(self) -> u32 {
        (self.acknowledged | self.pending | self.forced).count_ones()
    }
}

/// All that may be listed.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    each: [Offer; WORDS],
    /// Of all words together.
    all: Offer,
}

impl Offers {
    /// Offers what may be listed of a word, which is its only offer; whether there is any.
    #[inline(always)]
    pub fn put(&mut self, word: usize, offer: Offer) -> bool {
        self.all.acknowledged |= offer.acknowledged;
        self.all.pending |= offer.pending;
        self.all.forced |= offer.forced;
        self.each[word % WORDS] = offer;
        offer.acknowledged | offer.pending | offer.forced != 0
    }

    /// Offers a pending interrupt of a word more.
    pub fn add_pending(&mut self, word: usize, mask: u32) {
        self.all.pending |= mask;
        self.each[word % WORDS].pending |= mask;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.acknowledged | self.all.pending | self.all.forced == 0
    }

    /// Whether more are to get a list register than there is `room`: those that may give way do not
    /// count.
    pub fn more_than(&self, room: usize) -> bool {
        // Most often that is clear by then.
        let at_least = self.all.acknowledged.count_ones() + self.all.pending.count_ones();
        if at_least as usize > room {
            return true;
        }
        let mut number = 0;
        for one in &self.each {
            if one.acknowledged | one.pending != 0 {
                number += one.acknowledged.count_ones() + one.pending.count_ones();
            }
        }
        number as usize > room
    }
}

/// The priority of an interrupt, then its id, in one number: less is more urgent.
type Urgency = u32;
/// Of a word of which no interrupt is offered: less urgent than any.
const NONE: Urgency = Urgency::MAX;
/// Where the priority begins.
const PRIORITY: u32 = 16;

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

impl Choice {
    /// The most urgent ones of `offers` for `room` list registers: by kind, then by priority, then
    /// by id. `banks` are the words'.
    pub fn of(offers: &Offers, room: usize, banks: &[&Bank; WORDS]) -> Self {
        let mut choice = Self {
            best: [Need { id: 0 }; MAX_LRS],
            len: 0,
            room: room.min(MAX_LRS),
            acknowledged: false,
            waiting: false,
        };
        let left = choice.take(offers, banks, |one| one.acknowledged);
        choice.acknowledged = choice.len > 0;
        choice.waiting = choice.take(offers, banks, |one| one.pending) || left;
        choice.take(offers, banks, |one| one.forced);
        choice
    }

    /// The chosen ones, most urgent first.
    pub fn best(&self) -> &[Need] {
        self.best.get(..self.len).unwrap_or(&[])
    }

    /// Whether an acknowledged one is among them.
    pub fn has_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Takes the most urgent interrupts of one kind as far as there is room; whether some are left.
    fn take(&mut self, offers: &Offers, banks: &[&Bank; WORDS], kind: fn(&Offer) -> u32) -> bool {
        if kind(&offers.all) == 0 {
            return false;
        }
        // Written out: if a loop filled them, they would be cleared first.
        let [a, b, c, d, e, f, g, h, i] = &offers.each;
        let mut masks = [
            kind(a),
            kind(b),
            kind(c),
            kind(d),
            kind(e),
            kind(f),
            kind(g),
            kind(h),
            kind(i),
        ];
        let mut heads = [
            head(banks, 0, masks[0]),
            head(banks, 1, masks[1]),
            head(banks, 2, masks[2]),
            head(banks, 3, masks[3]),
            head(banks, 4, masks[4]),
            head(banks, 5, masks[5]),
            head(banks, 6, masks[6]),
            head(banks, 7, masks[7]),
            head(banks, 8, masks[8]),
        ];
        loop {
            let mut best = NONE;
            for head in &heads {
                if *head < best {
                    best = *head;
                }
            }
            if best == NONE || self.len >= self.room {
                return best != NONE;
            }
            let need = Need { id: best as u16 };
            self.best[self.len % MAX_LRS] = need;
            self.len += 1;
            let word = need.word() % WORDS;
            masks[word] &= !(1 << need.bit());
            heads[word] = head(banks, word, masks[word]);
        }
    }
}

/// The most urgent interrupt of `mask` in a word.
#[inline(never)]
fn head(banks: &[&Bank; WORDS], word: usize, mask: u32) -> Urgency {
    if mask == 0 {
        return NONE;
    }
    let (best, priority) = banks[word % WORDS].priorities.most_urgent(mask);
    let id = word as u32 * 32 + best.trailing_zeros();
    priority << PRIORITY | id
}
