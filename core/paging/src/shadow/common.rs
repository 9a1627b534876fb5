//! What is global, kept once for all spaces of a view.
//!
//! A TLB may use what it has of a global descriptor with any ASID and any TTBR0, until the guest invalidates it
//! (DDI 0406C, B3.9.1 and B3.10.1). So the first few roots are *common*: each holds the
//! global entries of all spaces whose other registers are the same. A root has copies of these entries, by which
//! it *shares* their second-level tables, and begins with them. The kernel runs by its common root itself in a space that
//! has none of its own yet.
//!
//! Kept true:
//! - An entry of a root that has a common one is a copy of the entry there, word by word, or the root's own. A table
//!   is its parent's; a change of its first-level entry goes to the copies with it.
//! - In a megabyte of which a root has an entry of its own, it shares nothing.
//! - A root whose common one is void is void itself.
//! - What TLBs hold of a common entry is under the ASIDs of many roots: it is invalidated for all ASIDs, or counted
//!   ([`Root::lose`](super::roots::Root::lose)), and each root gets another ASID before it is entered.
//!
//! Rejected: to look whether the guest's first-level descriptors are equal in both spaces, which takes an abort for
//! each megabyte of each new space.

use super::entries::{Entry, Leaf};
use super::owed::Progress;
use super::roots::{GuestSpace, Owner, Root};
use super::{Shadow, first_index};
use crate::short::{Privilege, Words};
use hanok_hal::TableMemory;

/// How many common roots there are at most: the kernel's, confined or not, and programs', each for two DACRs.
const MOST: usize = 6;
/// How many common entries a root gets at once; it gets others when it aborts there.
const COPIED: usize = 64;

/// The number of common roots of so many.
pub(super) const fn number(roots: usize) -> usize {
    if roots / 4 < MOST { roots / 4 } else { MOST }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// The number of common roots, which are the first ones. With few roots there are none.
    pub(super) const COMMON: usize = number(ROOTS);

    /// The common root for this view of a space, if there is one.
    pub(super) fn common_of(&self, space: &GuestSpace, view: Privilege) -> Option<usize> {
        let key = Owner::new(space, view).common()?;
        self.roots[..Self::COMMON]
            .iter()
            .position(|root| root.owner == Some(key))
    }

    /// As [`Self::common_of`]; one is taken if there is none, and could be one.
    pub(super) fn take_common(&mut self, owner: &Owner) -> Progress<Option<usize>> {
        let Some(key) = owner.common().filter(|_| Self::COMMON > 0) else {
            return Progress::Done(None);
        };
        if let Some(number) = self.common_of(&owner.space, owner.view) {
            return Progress::Done(Some(number));
        }
        let number = self.oldest_root(0..Self::COMMON, None);
        self.disown(number);
        if self.sweep(number) == Progress::Again {
            return Progress::Again;
        }
        self.clock += 1;
        let root = &mut self.roots[number];
        (root.owner, root.owned) = (Some(key), self.clock);
        // The caller empties a root, too, which is as much work.
        Progress::Again
    }

    /// Makes all entries of a root void, and those that others have of it.
    #[inline(never)]
    pub(super) fn disown(&mut self, number: usize) {
        self.roots[number].disown();
        self.unknow(number);
        if number < Self::COMMON {
            for root in &mut self.roots {
                if root.common == Some(number) {
                    root.disown();
                }
            }
        }
    }

    /// Gives a root the common entries that it does not have, or some of them.
    pub(super) fn share_all(&mut self, number: usize) {
        let Some(common) = self.roots[number].common else {
            return;
        };
        let mut first = 0;
        for _ in 0..COPIED {
            let [all, mine] = [common, number].map(|root| &self.roots[root].filled);
            let Some(index) = all.next_beyond(mine, first) else {
                return;
            };
            self.share(number, index);
            first = index + 1;
        }
    }

    /// Copies the common entry for a megabyte, if there is one.
    pub(super) fn share(&mut self, number: usize, index: usize) {
        if let Some(common) = self.roots[number].common
            && self.roots[common].filled.contains(index)
        {
            let entry = self.memory.word(self.roots[common].table, index);
            self.set_first(number, index, entry);
        }
    }

    /// Whether the entry of a root is a copy of its common one.
    #[inline(never)]
    pub(super) fn shares(&self, number: usize, index: usize) -> bool {
        let Some(common) = self.roots[number].common else {
            return false;
        };
        let word = |root: &Root| {
            let filled = root.filled.contains(index);
            filled.then(|| self.memory.word(root.table, index))
        };
        let own = word(&self.roots[number]);
        own.is_some() && own == word(&self.roots[common])
    }

    /// The root to which an entry for `root` belongs: its common one, or itself, which then shares nothing there.
    #[inline(never)]
    pub(super) fn holder(&mut self, root: usize, leaf: &Leaf) -> usize {
        let Some(common) = self.roots[root].common else {
            return root;
        };
        let index = first_index(leaf.at);
        let shares = self.shares(root, index);
        if leaf.origin.global && (shares || !self.roots[root].filled.contains(index)) {
            return common;
        }
        if shares {
            self.remove_first(root, index);
            self.lose(root);
        }
        root
    }

    /// Whether a second-level table belongs to another root than this one.
    pub(super) fn is_foreign(&self, root: usize, entry: Entry) -> bool {
        let Entry::Table(table, _) = entry else {
            return false;
        };
        let parent = self.tables.get(table).parent;
        parent.is_none_or(|parent| usize::from(parent.root) != root)
    }

    /// An entry of a root was `before` and is `after`: if the root is a common one, so are the copies.
    #[inline(never)]
    pub(super) fn follow(&mut self, common: usize, index: usize, before: u32, after: u32) {
        if common >= Self::COMMON || before == 0 || self.roots[common].owner.is_none() {
            return;
        }
        for number in self.holders.of(index).numbers() {
            let root = &self.roots[number];
            if root.common == Some(common)
                && root.filled.contains(index)
                && self.memory.word(root.table, index) == before
            {
                match after {
                    0 => self.set_first(number, index, 0),
                    // It is noted already. There may be many of them.
                    _ => self.memory.set_word(root.table, index, after),
                }
            }
        }
    }
}
