//! Which root is taken for a new owner.
//!
//! One that is void, or else the one of many that was used longest ago. But a guest whose processes take turns may have more of them
//! than there are roots, and then the oldest is the one that is needed next: all are taken each time round, and each
//! has to be filled again. So an owner that has lost its root lately and comes back gets any root that was not used just
//! now. Of those that take turns most find their own then. Rejected: the root that was used last, which leaves the rest alone, but
//! two processes that take turns beside many that have ended would take it from each other for ever.

use super::Shadow;
use super::root_set::MOST_ROOTS;
use super::roots::Owner;
use core::ops::Range;
use hanok_hal::TableMemory;

/// How many owners that lost their root are remembered: as many as there are roots at most.
const REMEMBERED: usize = MOST_ROOTS;
/// Of how many roots the oldest is taken.
const LOOKED_AT: usize = 32;
/// So many uses ago is just now. More than one instruction makes.
const RECENT: u64 = 8;

/// A root that is being emptied.
#[derive(Clone, Copy, Debug)]
struct Taking {
    number: usize,
    /// The mark of the owner that it is for.
    mark: u32,
    /// When it was used last.
    used: u64,
}

/// What is known of former owners, and of the choice that is being carried out.
#[derive(Debug)]
pub(super) struct Choice {
    /// The marks of those that lost their root, and where the next one is noted.
    former: [u32; REMEMBERED],
    next: usize,
    /// The root that is being emptied.
    taking: Option<Taking>,
    /// The state of a generator of numbers by chance.
    state: u32,
    /// Where the search for an old root goes on.
    hand: usize,
}

impl Choice {
    pub const NONE: Self = Self {
        former: [0; REMEMBERED],
        next: 0,
        taking: None,
        state: 0,
        hand: 0,
    };

    fn note(&mut self, former: u32) {
        if let Some(place) = self.former.get_mut(self.next) {
            *place = former;
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// A number below `end`, by chance: of a generator modulo 2^32 whose period is full (Knuth, The Art of Computer Programming, vol. 2,
    /// 3.2.1.2, theorem A), of which the upper bits are used.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1);
        (self.state >> 16) as usize % end.max(1)
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// The root for a new owner, with this common root. It is the same one until [`Self::taken`], unless it is used meanwhile.
    pub(super) fn root_for(&mut self, owner: &Owner, common: Option<usize>) -> usize {
        let mark = owner.mark();
        if let Some(taking) = self.choice.taking
            && taking.mark == mark
            && let root = &self.roots[taking.number]
            && (root.owner.is_none() || root.used == taking.used)
        {
            return taking.number;
        }
        let mut number = self.oldest_root(Self::COMMON..ROOTS, common);
        if self.roots[number].owner.is_some() {
            if self.choice.former.contains(&mark) {
                number = self.any_root(number);
            }
            if let Some(former) = &self.roots[number].owner {
                self.choice.note(former.mark());
            }
        }
        let used = self.roots[number].used;
        self.choice.taking = Some(Taking { number, mark, used });
        number
    }

    /// A root has got its owner: a choice that was made before holds no more.
    pub(super) fn taken(&mut self) {
        self.choice.taking = None;
    }

    /// A root by chance that was not used just now; the `oldest` if it was.
    #[cold]
    #[inline(never)]
    fn any_root(&mut self, oldest: usize) -> usize {
        let number = Self::COMMON + self.choice.below(ROOTS - Self::COMMON);
        if self.roots[number].used.saturating_add(RECENT) < self.clock {
            number
        } else {
            oldest
        }
    }

    /// The root to be taken, of these: the one that was used longest ago among some that follow each other; of several that are
    /// as old, or void, one with this common root, as its copies are good already.
    #[inline(never)]
    pub(super) fn oldest_root(&mut self, numbers: Range<usize>, common: Option<usize>) -> usize {
        let (mut least, mut oldest) = (u64::MAX, numbers.start);
        let mut place = self.choice.hand % numbers.len().max(1);
        for _ in 0..numbers.len().min(LOOKED_AT) {
            place = if place + 1 < numbers.len() {
                place + 1
            } else {
                0
            };
            let number = numbers.start + place;
            let root = &self.roots[number];
            let is_like = root.common == common;
            if root.used < least || (root.used == least && is_like) {
                (least, oldest) = (root.used, number);
                if least == 0 && is_like {
                    break;
                }
            }
        }
        self.choice.hand = place;
        oldest
    }
}
