//! The guest's TLB maintenance.

use super::entries::Entry;
use super::origin::Origin;
use super::owed::Owed;
use super::root_set::RootSet;
use super::roots::{GROUP, GuestSpace};
use super::tables::ENTRIES as PAGES;
use super::{Shadow, first_index, second_index};
use crate::short::{MappingSize, Words};
use hanok_hal::TableMemory;

/// The pages of a large page.
const REPEATED: usize = 16;

/// What a guest invalidates in its TLB (DDI 0406C, B4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// Everything: TLBIALL and its variants.
    All,
    /// What is not global and has this ASID: TLBIASID.
    Asid(u8),
    /// What translates an address and is global or has this ASID: TLBIMVA.
    Page {
        /// The virtual address.
        at: u32,
        /// The guest's ASID.
        asid: u8,
    },
    /// What translates an address: TLBIMVAA.
    PageOfAllAsids {
        /// The virtual address.
        at: u32,
    },
    /// Each of some pages that follow each other: TLBIMVA or TLBIMVAA in a loop.
    Pages {
        /// The virtual address of the first.
        at: u32,
        /// How many they are, at most [`Self::MOST_PAGES`]; those beyond the last address do not count.
        count: u16,
        /// The guest's ASID; `None` for all.
        asid: Option<u8>,
    },
}

impl Invalidation {
    /// So many pages are invalidated together at most.
    pub const MOST_PAGES: u16 = 4096;
}

/// Pages of one megabyte.
#[derive(Clone, Copy)]
struct Pages {
    at: u32,
    count: usize,
}

impl Pages {
    const fn one(at: u32) -> Self {
        Self { at, count: 1 }
    }

    /// Their indices in a second-level table, from the first to the one behind the last.
    fn indices(self) -> core::ops::Range<usize> {
        let first = second_index(self.at);
        first..(first + self.count).min(PAGES)
    }
}

/// How many pages are looked for in how many roots at most: beyond that everything is invalidated.
const MOST: u32 = 1024;

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Does what the guest asks of its TLB. More than that may go. Of a whole space nothing is left that
    /// [`Self::enter`] gives: its root is purged when it is used again, and what is common is looked at by
    /// [`Self::check_kept`].
    pub fn invalidate(&mut self, what: Invalidation) -> Owed {
        match what {
            Invalidation::All => self.invalidate_all(),
            Invalidation::Asid(asid) => self.invalidate_asid(asid),
            Invalidation::Page { at, asid } => self.invalidate_page(at, Some(asid)),
            Invalidation::PageOfAllAsids { at } => self.invalidate_page(at, None),
            Invalidation::Pages { at, count, asid } => {
                let count = count.min(Invalidation::MOST_PAGES);
                self.invalidate_range(at >> 12, count.into(), asid)
            }
        }
    }

    /// Makes all entries void, whatever a guest may keep.
    pub fn clear(&mut self) {
        for root in &mut self.roots {
            root.disown();
        }
        self.known = RootSet::NONE;
    }

    /// Removes what the kernel's view of `space` has for the page at `at`, if anything.
    pub fn remove_kernel_page(&mut self, space: &GuestSpace, at: u32) -> Owed {
        let mut owed = Owed::Nothing;
        for root in self.kernel_roots(space).into_iter().flatten() {
            let entry = self.entry(root, first_index(at));
            owed = owed.and(match entry {
                Entry::Table(table, _) if !self.is_foreign(root, entry) => {
                    self.remove_page(root, table, at)
                }
                Entry::Section(_) => {
                    self.remove_first(root, first_index(at));
                    self.owed(root, at)
                }
                _ => Owed::Nothing,
            });
        }
        owed
    }

    /// Makes the own entries of an ASID's roots void: what is common has no ASID.
    fn invalidate_asid(&mut self, asid: u8) -> Owed {
        for (number, root) in self.roots.iter_mut().enumerate().skip(Self::COMMON) {
            if root.owner.is_some_and(|owner| owner.space.asid == asid) {
                self.purged.remove(number);
                self.known.remove(number);
                // Its tables are the first to be taken.
                root.used = 0;
            }
        }
        Owed::Nothing
    }

    /// The roots that have something in a megabyte. What is void already is purged before it is used.
    fn in_force(&self, index: usize) -> RootSet {
        self.holders.of(index) & (self.purged | const { RootSet::first(Self::COMMON) })
    }

    /// Those of [`Self::in_force`] that have something of their own in this megabyte.
    #[inline(never)]
    fn having(&self, index: usize) -> RootSet {
        // What is no copy: the common roots have none.
        self.in_force(index).filter(|number| {
            self.roots.get(number).is_some_and(|root| {
                root.filled.contains(index) && (number < Self::COMMON || root.has_own(index))
            })
        })
    }

    /// How many of these pages [`Invalidation::Pages`] should be asked for at once; for more of them everything may be
    /// invalidated, which is less work.
    pub fn pages_at_once(&self, at: u32, count: u16) -> u16 {
        let (first, mut left) = (at >> 12, MOST);
        let count = count.min(Invalidation::MOST_PAGES);
        let end = first + u32::from(count);
        // So few fit whatever the roots have.
        if u32::from(count) <= MOST / ROOTS as u32 {
            return count;
        }
        let mut page = first;
        while page < end {
            let count = (end - page).min(PAGES as u32 - page % PAGES as u32);
            let index = first_index(page << 12);
            let work = self.work(index, &self.having(index), count);
            match left.checked_sub(work) {
                None if page != first => break,
                rest => left = rest.unwrap_or(0),
            }
            page += count;
        }
        (page - first) as u16
    }

    /// How many entries are looked at for `count` pages of a megabyte.
    #[inline(never)]
    fn work(&self, index: usize, having: &RootSet, count: u32) -> u32 {
        let supersections = self.in_force(index) & self.supersections;
        having.count() * count + supersections.count() * GROUP as u32
    }

    /// Invalidates so many pages from the one with this number on, megabyte by megabyte.
    #[inline(never)]
    fn invalidate_range(&mut self, first: u32, count: u32, asid: Option<u8>) -> Owed {
        let (mut owed, mut left) = (Owed::Nothing, MOST);
        let (mut page, end) = (first, (first + count).min(1 << 20));
        while page < end {
            let at = page << 12;
            let count = (end - page).min(PAGES as u32 - page % PAGES as u32);
            let having = self.having(first_index(at));
            let Some(rest) = left.checked_sub(self.work(first_index(at), &having, count)) else {
                return owed.and(self.invalidate_all());
            };
            left = rest;
            page += count;
            let count = count as usize;
            owed = owed.and(self.invalidate_pages(Pages { at, count }, asid, having));
        }
        owed
    }

    fn invalidate_page(&mut self, at: u32, asid: Option<u8>) -> Owed {
        let having = self.having(first_index(at));
        self.invalidate_pages(Pages::one(at), asid, having)
    }

    /// `having` is what [`Self::having`] answers: what is a copy is changed with its common one.
    fn invalidate_pages(&mut self, pages: Pages, asid: Option<u8>, having: RootSet) -> Owed {
        let index = first_index(pages.at);
        let mut owed = Owed::Nothing;
        let supersections = self.in_force(index) & self.supersections;
        for root in (having | supersections).numbers() {
            let Some(owner) = &self.roots[root].owner else {
                continue;
            };
            let mine = asid.is_none_or(|asid| asid == owner.space.asid);
            if supersections.contains(root)
                && (root < Self::COMMON || self.roots[root].has_own(index))
            {
                self.remove_supersection(root, pages.at, mine);
            }
            if self.roots[root].filled.contains(index) && having.contains(root) {
                owed = owed.and(self.remove_around(root, pages, mine));
            }
        }
        owed
    }

    /// Removes all that stems from a supersection around `at`.
    #[inline(never)]
    fn remove_supersection(&mut self, root: usize, at: u32, mine: bool) {
        let first = first_index(at) & !(GROUP - 1);
        for index in first..first + GROUP {
            let origin = self.entry(root, index).origin();
            let meant = |one: Origin| one.size == MappingSize::Supersection && (mine || one.global);
            if origin.is_some_and(meant) {
                self.remove_first(root, index);
                self.lose(root);
            }
        }
    }

    /// Removes all in the megabyte of `pages` that may stem from the guest's descriptors for them.
    fn remove_around(&mut self, root: usize, pages: Pages, mine: bool) -> Owed {
        let index = first_index(pages.at);
        let entry = self.entry(root, index);
        match (entry.origin(), entry) {
            (Some(origin), _) if !mine && !origin.global => Owed::Nothing,
            _ if self.is_foreign(root, entry) => Owed::Nothing,
            (_, Entry::Empty) => Owed::Nothing,
            (_, Entry::Section(_)) => {
                self.remove_first(root, index);
                self.owed(root, pages.at)
            }
            (_, Entry::Table(table, origin)) => match origin.size {
                MappingSize::Small if pages.count == 1 => self.remove_page(root, table, pages.at),
                MappingSize::Small => self.remove_pages(root, table, pages),
                MappingSize::Large if pages.count == 1 => self.remove_large(root, table, pages.at),
                _ => {
                    if root < Self::COMMON {
                        self.empty(root, index, table);
                    } else {
                        self.remove_first(root, index);
                    }
                    self.lose(root);
                    Owed::Nothing
                }
            },
        }
    }

    fn remove_page(&mut self, root: usize, table: usize, at: u32) -> Owed {
        if self.remove_second(table, second_index(at)) {
            self.owed(root, at)
        } else {
            Owed::Nothing
        }
    }

    #[inline(never)]
    fn remove_pages(&mut self, root: usize, table: usize, pages: Pages) -> Owed {
        let address = self.tables.address(table);
        let (range, live) = (pages.indices(), self.tables.get(table).live);
        let first = self.memory.next_filled(address, range.start, range.end);
        if first == range.end {
            return Owed::Nothing;
        }
        let (mut last, mut removed) = (first, 0);
        // The last one is removed last, by which walks see them all.
        while removed + 1 != live {
            let next = self.memory.next_filled(address, last + 1, range.end);
            if next == range.end {
                break;
            }
            self.memory.set_word_unseen(address, last, 0);
            (last, removed) = (next, removed + 1);
        }
        self.tables.get_mut(table).live -= removed;
        self.remove_second(table, last);
        let at = pages.at & !0xf_ffff | (first as u32) << 12;
        match (self.owed(root, at), (last - first + 1) as u16) {
            (Owed::Page { at, asid }, count) if count > 1 => Owed::Pages { at, asid, count },
            (Owed::PageEverywhere { at: first }, count) if count > 1 => {
                let step = 1;
                Owed::PagesEverywhere { first, step, count }
            }
            (owed, _) => owed,
        }
    }

    fn remove_large(&mut self, root: usize, table: usize, at: u32) -> Owed {
        let first = second_index(at) & !(REPEATED - 1);
        for index in first..first + REPEATED {
            if self.remove_second(table, index) {
                self.lose(root);
            }
        }
        Owed::Nothing
    }
}
