//! First-level tables and whose they are.

use super::asid::Tag;
use super::root_set::RootSet;
use crate::short::{Privilege, ShortRegime};
use hanok_types::Hpa;

/// A space of a guest: the registers that say how its addresses are translated, and its ASID.
#[derive(Clone, Copy, Debug, Eq)]
pub struct GuestSpace {
    /// The registers.
    pub regime: ShortRegime,
    /// CONTEXTIDR.ASID.
    pub asid: u8,
    /// Whether it has tables of its own in which the kernel may execute next to nothing.
    pub confined: bool,
}

/// Not derived: that would be a call which compares bytes.
impl PartialEq for GuestSpace {
    #[inline(never)]
    fn eq(&self, other: &Self) -> bool {
        self.regime.dacr == other.regime.dacr && self.is_but_for_domains(other)
    }
}

impl GuestSpace {
    /// Whether this is the same space, or one that differs in DACR alone.
    pub(super) fn is_but_for_domains(&self, other: &Self) -> bool {
        let (one, two) = (&self.regime, &other.regime);
        one.ttbr0 == two.ttbr0
            && self.asid == other.asid
            && self.confined == other.confined
            && one.sctlr == two.sctlr
            && one.ttbr1 == two.ttbr1
            && one.ttbcr == two.ttbcr
            && one.prrr == two.prrr
            && one.nmrr == two.nmrr
            && one.pxn == two.pxn
    }
}

/// Whose a root is. Equal spaces have equal owners, as the regime is normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub space: GuestSpace,
    pub view: Privilege,
}

impl Owner {
    pub fn new(space: &GuestSpace, view: Privilege) -> Self {
        let regime = space.regime.normalized();
        let space = GuestSpace { regime, ..*space };
        Self { space, view }
    }

    /// A number that few other owners have.
    pub fn mark(&self) -> u32 {
        let Self { space, view } = self;
        let kind = 2 * u32::from(space.confined) + u32::from(*view == Privilege::User);
        let tables = space.regime.ttbr0.wrapping_mul(0x9e37_79b9);
        tables ^ space.regime.dacr ^ u32::from(space.asid) << 2 ^ kind
    }

    /// The owner of the common root: what a global entry of a TLB does not depend on is cleared. `None`
    /// without the MMU, where nothing is in a TLB.
    pub fn common(&self) -> Option<Self> {
        let regime = ShortRegime {
            ttbr0: 0,
            ..self.space.regime
        };
        let space = GuestSpace {
            regime,
            asid: 0,
            ..self.space
        };
        let view = self.view;
        regime.control().mmu().then_some(Self { space, view })
    }
}

/// The number of descriptors of a first-level table.
pub(super) const ENTRIES: usize = 4096;
const BITS: usize = u32::BITS as usize;

/// The descriptors that a supersection is repeated in, for which [`Holders`] are noted together.
pub(super) const GROUP: usize = 16;

/// A set of first-level descriptors.
#[derive(Debug)]
pub(super) struct Indices {
    words: [u32; ENTRIES / BITS],
    /// A bit for each word that is not 0: a search passes 1024 indices at once.
    filled: [u32; ENTRIES / BITS / BITS],
    number: u16,
}

impl Indices {
    const EMPTY: Self = Self {
        words: [0; ENTRIES / BITS],
        filled: [0; ENTRIES / BITS / BITS],
        number: 0,
    };

    pub fn contains(&self, index: usize) -> bool {
        let word = self.words.get(index / BITS);
        word.is_some_and(|word| word >> (index % BITS) & 1 != 0)
    }

    pub fn insert(&mut self, index: usize) {
        if !self.contains(index)
            && let Some(word) = self.words.get_mut(index / BITS)
        {
            *word |= 1 << (index % BITS);
            self.filled[index / BITS / BITS] |= 1 << (index / BITS % BITS);
            self.number += 1;
        }
    }

    pub fn remove(&mut self, index: usize) {
        if self.contains(index)
            && let Some(word) = self.words.get_mut(index / BITS)
        {
            *word &= !(1 << (index % BITS));
            if *word == 0 {
                self.filled[index / BITS / BITS] &= !(1 << (index / BITS % BITS));
            }
            self.number -= 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// Those in the group of `index`: a bit for each.
    pub fn group(&self, index: usize) -> u16 {
        let word = self.words.get(index / BITS).copied().unwrap_or(0);
        (word >> ((index % BITS) & !(GROUP - 1))) as u16
    }

    /// Whether there is one in the group of `index`.
    pub fn has_group(&self, index: usize) -> bool {
        self.group(index) != 0
    }

    /// The least of them from `first` on.
    pub fn next(&self, first: usize) -> Option<usize> {
        least(first, &self.filled, |number| self.words[number])
    }

    /// The least of them from `first` on that is none of the others.
    pub fn next_beyond(&self, others: &Self, first: usize) -> Option<usize> {
        least(first, &self.filled, |number| {
            self.words[number] & !others.words[number]
        })
    }
}

/// The least index from `first` on whose bit is set in these words, of which only those that are `filled` can be other than 0.
fn least(
    first: usize,
    filled: &[u32; ENTRIES / BITS / BITS],
    word: impl Fn(usize) -> u32,
) -> Option<usize> {
    let mut mask = u32::MAX << (first % BITS);
    let mut number = first / BITS;
    // Not by iterators: what they become for T32 takes three times as long.
    while number < ENTRIES / BITS {
        let rest = filled[number / BITS] >> (number % BITS);
        if rest & 1 == 0 {
            // To the next one, or to the end of this word of `filled`.
            let skipped = (rest.trailing_zeros() as usize).min(BITS - number % BITS);
            number += skipped;
            mask = u32::MAX;
            continue;
        }
        let found = word(number) & mask;
        if found != 0 {
            return Some(number * BITS + found.trailing_zeros() as usize);
        }
        mask = u32::MAX;
        number += 1;
    }
    None
}

/// Which roots have something in each group of megabytes: a bit for each.
#[derive(Debug)]
pub(super) struct Holders([RootSet; ENTRIES / GROUP]);

impl Holders {
    pub const NONE: Self = Self([RootSet::NONE; ENTRIES / GROUP]);

    /// The roots that may have an entry at `index`.
    pub fn of(&self, index: usize) -> RootSet {
        let set = self.0.get(index / GROUP);
        set.copied().unwrap_or(RootSet::NONE)
    }

    /// Notes whether a root has something in the group of `index`.
    pub fn note(&mut self, root: usize, index: usize, has: bool) {
        match self.0.get_mut(index / GROUP) {
            Some(set) if has => set.insert(root),
            Some(set) => set.remove(root),
            None => (),
        }
    }
}

/// A first-level table.
#[derive(Debug)]
pub(super) struct Root {
    pub table: Hpa,
    /// Whose it is; `None` if its entries are void, and it is to be emptied.
    pub owner: Option<Owner>,
    /// Its ASID, if it has one. No TLB holds anything of it otherwise.
    pub tag: Option<Tag>,
    /// The common root that it has entries of.
    pub common: Option<usize>,
    /// How often it lost entries by [`Self::lose`]; of a root with a common one, what that had counted when
    /// the ASID was last known to hold.
    pub losses: u32,
    /// The clock when it was used last.
    pub used: u64,
    /// The clock when it got its owner.
    pub owned: u64,
    /// The descriptors that are not 0, that of the window left out.
    pub filled: Indices,
    /// The groups of descriptors of which one may be no copy of a common one: a bit for each.
    pub own: [u32; ENTRIES / GROUP / BITS],
    /// What the guest's descriptors were that the entries of a common root stem from, in a table as large as the root's.
    pub sources: Hpa,
    /// A bit for each megabyte of the host, modulo 64, to which a section may lead.
    pub sections: u64,
    /// Whether a doorbell may be open.
    pub doorbells: bool,
}

impl Root {
    pub fn new() -> Self {
        Self {
            table: Hpa::new(0),
            owner: None,
            tag: None,
            common: None,
            losses: 0,
            used: 0,
            owned: 0,
            filled: Indices::EMPTY,
            own: [0; _],
            sources: Hpa::new(0),
            sections: 0,
            doorbells: false,
        }
    }

    /// Makes all entries void.
    pub fn disown(&mut self) {
        self.owner = None;
        self.tag = None;
        self.common = None;
        // Its tables are the first to be taken.
        self.used = 0;
    }

    /// Entries are gone that TLBs may hold. The ASID of a root goes; of a common root, those of all that have
    /// its entries, when they are entered.
    pub fn lose(&mut self) {
        self.tag = None;
        self.losses = self.losses.wrapping_add(1);
    }

    /// Notes that the descriptor at `index` may be no copy.
    pub fn note_own(&mut self, index: usize) {
        let group = index / GROUP;
        if let Some(word) = self.own.get_mut(group / BITS) {
            *word |= 1 << (group % BITS);
        }
    }

    /// Whether one in the group of `index` may be no copy.
    pub fn has_own(&self, index: usize) -> bool {
        let group = index / GROUP;
        let word = self.own.get(group / BITS);
        word.is_some_and(|word| word >> (group % BITS) & 1 != 0)
    }

    /// The first descriptor of the first group in which one may be no copy.
    pub fn first_own(&self) -> Option<usize> {
        let mut words = self.own.iter().enumerate();
        let (number, word) = words.find(|(_, word)| **word != 0)?;
        Some((number * BITS + word.trailing_zeros() as usize) * GROUP)
    }

    /// Notes that all descriptors in the group of `index` are copies.
    pub fn no_own(&mut self, index: usize) {
        let group = index / GROUP;
        if let Some(word) = self.own.get_mut(group / BITS) {
            *word &= !(1 << (group % BITS));
        }
    }

    /// Forgets what was noted of entries of its own, which are all gone.
    pub fn emptied(&mut self) {
        self.own = [0; _];
        self.sections = 0;
        self.doorbells = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_a_set() {
        let mut set = Root::new().filled;
        assert!(set.is_empty());
        for index in [4095, 31, 32] {
            set.insert(index);
        }
        let next = [0, 31, 32, 33, 4095, 4096].map(|first| set.next(first));
        assert_eq!(
            next,
            [Some(31), Some(31), Some(32), Some(4095), Some(4095), None]
        );
        assert!(set.has_group(16) && set.has_group(47) && !set.has_group(15));
        set.remove(31);
        assert!(!set.contains(31) && set.contains(32) && set.contains(4095));
        assert!(set.next(0) == Some(32) && !set.has_group(16));
        set.remove(32);
        set.remove(4095);
        assert!(set.next(0).is_none() && set.is_empty());
    }

    /// Beside an element for each index, which are looked at one by one.
    #[test]
    fn searches_find_what_a_search_one_by_one_finds() {
        let mut sets = [Root::new().filled, Root::new().filled];
        let mut plain = [[false; ENTRIES]; 2];
        let mut state = 1u32;
        let mut random = |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        for step in 0..8000usize {
            // Dense in few places, and now and then all over.
            let index = match random(8) {
                0 => random(ENTRIES),
                _ => 32 * (random(3) * 61) + random(34),
            };
            let which = random(2);
            let insert = random(100) < [70, 3, 20, 3][step / 250 % 4];
            plain[which][index] = insert;
            if insert {
                sets[which].insert(index);
            } else {
                sets[which].remove(index);
            }
            let first = random(ENTRIES + 1);
            let [one, other] = &sets;
            let expected = (first..ENTRIES).find(|at| plain[0][*at]);
            assert_eq!(one.next(first), expected, "step {step}, from {first}");
            let expected = (first..ENTRIES).find(|at| plain[0][*at] && !plain[1][*at]);
            assert_eq!(
                one.next_beyond(other, first),
                expected,
                "step {step}, from {first}"
            );
        }
    }

    #[test]
    fn holders_are_a_mask() {
        let mut holders = Holders::NONE;
        for root in [127, 0, 5] {
            holders.note(root, 4095, true);
        }
        holders.note(0, 4080, false);
        assert!(holders.of(4090).numbers().eq([127, 5]));
        assert_eq!(holders.of(4079), RootSet::NONE);
    }
}
