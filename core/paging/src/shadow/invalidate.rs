//! The guest's TLB maintenance.

use super::entries::Entry;
use super::origin::Origin;
use super::owed::Owed;
use super::roots::{GROUP, GuestSpace, numbers};
use super::{Shadow, first_index, second_index};
use crate::short::MappingSize;
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
}

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
        }
    }

    /// Makes all entries void, whatever a guest may keep.
    pub fn clear(&mut self) {
        for root in &mut self.roots {
            root.disown();
        }
        self.known = 0;
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
                self.purged &= !(1 << number);
                self.known &= !(1 << number);
                // Its tables are the first to be taken.
                root.used = 0;
            }
        }
        Owed::Nothing
    }

    fn invalidate_page(&mut self, at: u32, asid: Option<u8>) -> Owed {
        let mut owed = Owed::Nothing;
        // What is void already is purged before it is used.
        let common = (1 << Self::COMMON) - 1;
        for root in numbers(self.holders.of(first_index(at)) & (self.purged | common)) {
            let Some(owner) = &self.roots[root].owner else {
                continue;
            };
            // What is a copy is changed with its common one.
            if root >= Self::COMMON && !self.roots[root].has_own(first_index(at)) {
                continue;
            }
            let mine = asid.is_none_or(|asid| asid == owner.space.asid);
            if self.supersections >> root & 1 != 0 {
                self.remove_supersection(root, at, mine);
            }
            if self.roots[root].filled.contains(first_index(at)) {
                owed = owed.and(self.remove_around(root, at, mine));
            }
        }
        owed
    }

    /// Removes all that stems from a supersection around `at`.
    #[inline(never)]
    fn remove_supersection(&mut self, root: usize, at: u32, mine: bool) {
        let first = first_index(at) & !(GROUP - 1);
        for index in first..first + GROUP {
            let origin = self.origin(root, index);
            let meant = |one: Origin| one.size == MappingSize::Supersection && (mine || one.global);
            if origin.is_some_and(meant) {
                self.remove_first(root, index);
                self.lose(root);
            }
        }
    }

    fn origin(&self, root: usize, index: usize) -> Option<Origin> {
        match self.entry(root, index) {
            Entry::Empty => None,
            Entry::Section(section) => Some(Origin::of_domain(section.domain())),
            Entry::Table(_, origin) => Some(origin),
        }
    }

    /// Removes all in the megabyte of `at` that may stem from the guest's descriptor for `at`.
    fn remove_around(&mut self, root: usize, at: u32, mine: bool) -> Owed {
        let index = first_index(at);
        let entry = self.entry(root, index);
        match (self.origin(root, index), entry) {
            (Some(origin), _) if !mine && !origin.global => Owed::Nothing,
            _ if self.is_foreign(root, entry) => Owed::Nothing,
            (_, Entry::Empty) => Owed::Nothing,
            (_, Entry::Section(_)) => {
                self.remove_first(root, index);
                self.owed(root, at)
            }
            (_, Entry::Table(table, origin)) => match origin.size {
                MappingSize::Small => self.remove_page(root, table, at),
                MappingSize::Large => self.remove_large(root, table, at),
                _ => {
                    self.remove_first(root, index);
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
