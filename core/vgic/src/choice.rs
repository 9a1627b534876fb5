//! Which interrupts are to stand in the list registers: the most urgent ones, sorted, in a
//! fixed number of places.
//!
//! There are three kinds, and all of one come before those of the next: what the guest has
//! acknowledged and will deactivate, what it has not seen yet, and what it declared active and may
//! or may not end. All that may be listed are offered as masks, a word of 32 interrupts at a time. What is done
//! then does not grow with their number, only with that of the places: of each word the most
//! urgent one is known, and the best of these is taken, and looked for again in its word alone.

use crate::bank::{Bank, bits};
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

/// All that may be listed, a mask for each kind and word.
#[derive(Debug, Default)]
pub(crate) struct Offers([[u32; WORDS]; 3]);

/// The priority of an interrupt, then its id, in one number: less is more urgent.
type Urgency = u32;
/// Of a word of which no interrupt is offered: less urgent than any.
const NONE: Urgency = Urgency::MAX;
/// Where the priority begins.
const PRIORITY: u32 = 16;

impl Offers {
    /// Offers of a word what is pending, and what is active in no list register; of the latter, what
    /// the guest forced to be so. Whether there is any.
    #[inline]
    pub fn add(&mut self, word: usize, pending: u32, stranded: u32, forced: u32) -> bool {
        let [acknowledged, waiting, put] = &mut self.0;
        if let (Some(acknowledged), Some(waiting), Some(put)) = (
            acknowledged.get_mut(word),
            waiting.get_mut(word),
            put.get_mut(word),
        ) {
            *acknowledged |= stranded & !forced;
            *waiting |= pending;
            *put |= stranded & forced;
        }
        pending | stranded != 0
    }

    /// Whether more are to get a list register than there is `room`: those that may give way do not
    /// count.
    pub fn more_than(&self, room: usize) -> bool {
        let [acknowledged, pending, _] = &self.0;
        let all = acknowledged.iter().chain(pending);
        all.flat_map(|mask| bits(*mask)).nth(room).is_some()
    }

    /// The most urgent ones for `room` list registers: by kind, then by priority, then by id. A word's
    /// bank is `bank`; priorities have `bits` bits.
    pub fn choose<'a>(
        &mut self,
        room: usize,
        bits: u32,
        bank: impl Fn(usize) -> Option<&'a Bank>,
    ) -> Choice {
        let mut choice = Choice {
            best: [Need { id: 0 }; MAX_LRS],
            len: 0,
            room: room.min(MAX_LRS),
            acknowledged: false,
            waiting: false,
        };
        let [acknowledged, pending, forced] = &mut self.0;
        let mut left = choice.take(acknowledged, bits, &bank);
        choice.acknowledged = choice.len > 0;
        left |= choice.take(pending, bits, &bank);
        choice.waiting = left;
        choice.take(forced, bits, &bank);
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

impl Choice {
    /// The chosen ones, most urgent first.
    pub fn best(&self) -> &[Need] {
        self.best.get(..self.len).unwrap_or(&[])
    }

    /// Whether an acknowledged one is among them.
    pub fn has_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Moves the most urgent interrupts of `masks` to where there is room; whether some are left.
    fn take<'a>(
        &mut self,
        masks: &mut [u32; WORDS],
        bits: u32,
        bank: &impl Fn(usize) -> Option<&'a Bank>,
    ) -> bool {
        let head = |word: usize, mask: u32| match bank(word) {
            Some(bank) if mask != 0 => {
                let (best, priority) = bank.priorities.most_urgent(mask, bits);
                priority << PRIORITY | word as u32 * 32 + best.trailing_zeros()
            }
            _ => NONE,
        };
        let mut heads = [NONE; WORDS];
        let mut any = false;
        for (word, (first, mask)) in heads.iter_mut().zip(masks.iter()).enumerate() {
            if *mask != 0 {
                any = true;
                *first = head(word, *mask);
            }
        }
        while any {
            let best = heads.iter().fold(NONE, |best, head| best.min(*head));
            let Some(need) = self.best.get_mut(self.len).filter(|_| self.len < self.room) else {
                return best != NONE;
            };
            if best == NONE {
                return false;
            }
            need.id = best as u16;
            self.len += 1;
            let word = need.word();
            if let (Some(mask), Some(first)) = (masks.get_mut(word), heads.get_mut(word)) {
                *mask &= !(1 << need.bit());
                *first = head(word, *mask);
            }
        }
        false
    }
}
