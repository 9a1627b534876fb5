//! What outlives it that the guest invalidates its whole TLB.
//!
//! Linux does so for each process that it forks or ends, where it works around an erratum, and its own map of
//! memory stays as it is. A TLB may load a global descriptor again at once, by the registers of that time. So an
//! entry of a common root need not go, if the guest's descriptor is still the one that the entry stems from. That
//! is looked up where one first-level descriptor says all of a megabyte: one word of the guest's for a section of
//! the shadow, or for up to 256 pages. All other common entries go, and all own entries of the other roots, when
//! these are used next; their copies of what stays are left in place.
//!
//! Kept true:
//! - Before [`Shadow::check_kept`] is done, or else all that is common is void, no root is entered.
//! - The *source* of an entry of a common root is the guest's first-level descriptor that all in that megabyte stems
//!   from, if there is one; else it is 0.
//! - A root that is *purged* has no own entries that are older than the latest invalidation of all of them.
//! - The domains of a descriptor are part of it, and what a guest may do there is of the common root's owner. So DACR
//!   may be another one than when the descriptor is read.

use super::entries::Entry;
use super::owed::{Owed, Progress};
use super::root_set::RootSet;
use super::roots::{ENTRIES, GROUP, GuestSpace, Owner};
use super::tables::ENTRIES as PAGES;
use super::{SWEEP, Shadow};
use crate::short::{MappingSize, Privilege, Words};
use hanok_hal::TableMemory;
use hanok_types::Ipa;

/// The numbers of the bits that are set, the greatest first.
fn numbers(mut mask: u16) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let number = mask.checked_ilog2()?;
        mask &= !(1 << number);
        Some(number as usize)
    })
}

/// How many groups of common entries are looked at in one call at most.
const GROUPS: usize = 8;

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Everything is invalidated: of what is common nothing is known to be right. If that comes before the last check has
    /// ended, nothing is kept, or who invalidates again and again would keep it from ending.
    pub(super) fn invalidate_all(&mut self) -> Owed {
        if self.checked != 0 && self.has_unchecked() {
            self.clear();
        }
        self.purged = RootSet::NONE;
        self.known = RootSet::NONE;
        self.checked = 0;
        Owed::Nothing
    }

    /// Goes on with looking which entries may be kept after everything was invalidated. To be called before
    /// [`Self::enter`], until it is done: otherwise none are kept. `space` is the one that the guest is in, and `read` answers
    /// the sixteen words of its memory from an address on, if they are there.
    pub fn check_kept(
        &mut self,
        space: &GuestSpace,
        read: impl Fn(Ipa) -> Option<[u32; GROUP]>,
    ) -> Progress<()> {
        for _ in 0..GROUPS {
            let (root, first) = (self.checked / ENTRIES, self.checked % ENTRIES);
            if root >= Self::COMMON {
                return Progress::Done(());
            }
            let state = &self.roots[root];
            let next = state.owner.and_then(|_| state.filled.next(first));
            let Some(index) = next else {
                self.checked = (root + 1) * ENTRIES;
                continue;
            };
            let section = self.check_group(root, index, space, &read);
            let next = section.map_or((index | (GROUP - 1)) + 1, |section| section + 1);
            self.checked = root * ENTRIES + next;
            if section.is_some() {
                break;
            }
        }
        Progress::Again
    }

    /// Whether there is anything left for [`Self::check_kept`].
    pub fn has_unchecked(&self) -> bool {
        self.checked < Self::COMMON * ENTRIES
    }

    /// Removes the entries of a common root that are not to be kept, from `first` to the end of its group, or to one that goes from all
    /// roots which have a copy: that is answered, and is work enough for one call.
    fn check_group(
        &mut self,
        root: usize,
        first: usize,
        space: &GuestSpace,
        read: impl Fn(Ipa) -> Option<[u32; GROUP]>,
    ) -> Option<usize> {
        let group = first & !(GROUP - 1);
        let common = Owner::new(space, Privilege::Kernel).common();
        // Both views, confined or not, read the guest's tables by the same registers.
        let here = self.roots[root]
            .owner
            .zip(common)
            .is_some_and(|(owner, common)| {
                let confined = owner.space.confined;
                let space = GuestSpace {
                    confined,
                    ..common.space
                };
                owner.space.is_but_for_domains(&space)
            });
        let found = here.then(|| space.regime.first_level_around((group as u32) << 20, read));
        let found = found.flatten().unwrap_or([0; GROUP]);
        let filled = self.roots[root].filled.group(group);
        for number in first - group..GROUP {
            let index = group + number;
            if filled >> number & 1 == 0 {
                continue;
            }
            let source = self.memory.word(self.roots[root].sources, index);
            if source == 0 || found.get(number) != Some(&source) {
                self.remove_unkept(root, index);
                if !self.roots[root].filled.contains(index) {
                    return Some(index);
                }
            }
        }
        None
    }

    /// Removes an entry of a common root. A table that has only pages of the guest's tables stays where it is, and is
    /// emptied: it will be filled again soon.
    #[inline(never)]
    fn remove_unkept(&mut self, root: usize, index: usize) {
        match self.entry(root, index) {
            Entry::Table(table, origin) if origin.size < MappingSize::Section => {
                if self.tables.get(table).live == 0 {
                    return;
                }
                self.empty(root, index, table);
            }
            _ => self.remove_first(root, index),
        }
        self.lose(root);
    }

    /// Empties a table of a common root, and leaves it where it is: roots have copies of its entry.
    #[inline(never)]
    pub(super) fn empty(&mut self, root: usize, index: usize, table: usize) {
        let state = self.tables.get_mut(table);
        (state.live, state.frames) = (0, 0);
        self.memory
            .clear_words_unseen(self.tables.address(table), PAGES);
        // It is seen with this one.
        self.set_source(root, index, 0);
    }

    /// Notes that all in a megabyte of a root stems from `source`.
    pub(super) fn set_source(&mut self, root: usize, index: usize, source: u32) {
        if root < Self::COMMON {
            self.memory
                .set_word(self.roots[root].sources, index, source);
        }
    }

    /// Notes that something in a megabyte of a root stems from `source`.
    pub(super) fn add_source(&mut self, root: usize, index: usize, source: u32) {
        if root < Self::COMMON && self.memory.word(self.roots[root].sources, index) != source {
            self.set_source(root, index, 0);
        }
    }

    /// Whether the own entries of a root are in force.
    pub(super) fn is_purged(&self, number: usize) -> bool {
        self.purged.contains(number)
    }

    /// Removes some of the own entries of a root; done if none is left, and it has what is common.
    pub(super) fn purge(&mut self, number: usize) -> Progress<()> {
        self.roots[number].tag = None;
        self.unknow(number);
        let mut left = SWEEP;
        while let Some(group) = self.roots[number].first_own() {
            for place in numbers(self.roots[number].filled.group(group)) {
                if left == 0 {
                    return Progress::Again;
                }
                left -= 1;
                if !self.shares(number, group + place) {
                    self.remove_first(number, group + place);
                }
            }
            self.roots[number].no_own(group);
        }
        self.roots[number].emptied();
        self.supersections.remove(number);
        self.share_all(number);
        self.purged.insert(number);
        Progress::Done(())
    }
}
