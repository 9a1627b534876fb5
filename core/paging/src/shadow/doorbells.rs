//! Pages that the guest's kernel may write only while nothing waits for it.
//!
//! A kernel that was rewritten unmasks interrupts by a store to such a page ([`FrameKind::Doorbell`]). While
//! one is pending the pages are closed: the store aborts, and the interrupt is taken.
//!
//! [`FrameKind::Doorbell`]: super::FrameKind::Doorbell

use super::entries::Entry;
use super::owed::Owed;
use super::roots::{GuestSpace, Owner};
use super::tables::ENTRIES as PAGES;
use super::{Shadow, first_index, second_index};
use crate::short::{Privilege, Words};
use hanok_hal::TableMemory;
use hanok_types::Hpa;

/// The addresses of doorbells: pages at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbells {
    /// The address of the first one.
    pub first: u32,
    /// The distance from one to the next, in pages.
    pub step: u8,
    /// How many they are, which bounds the work of [`Shadow::close_doorbells`].
    pub count: u16,
}

impl Doorbells {
    /// Does something with the address of each, by a loop of few instructions.
    pub fn each(self, mut act: impl FnMut(u32)) {
        let (mut at, mut left) = (self.first, self.count);
        while left != 0 {
            act(at);
            at = at.wrapping_add(u32::from(self.step) << 12);
            left -= 1;
        }
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Makes the doorbells at these addresses read-only in the kernel's view of `space`, until they are opened or filled
    /// anew, and with them those that are common.
    pub fn close_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) -> Owed {
        let mut owed = Owed::Nothing;
        for root in self.kernel_roots(space).into_iter().flatten() {
            if core::mem::take(&mut self.roots[root].doorbells) {
                owed = owed.and(self.change(root, doorbells, [WRITABLE, CLOSED]));
            }
        }
        owed
    }

    /// Opens again the doorbells at these addresses, in the kernel's view of `space`, that were closed and have not been
    /// removed since.
    pub fn open_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) -> Owed {
        let mut owed = Owed::Nothing;
        for root in self.kernel_roots(space).into_iter().flatten() {
            self.roots[root].doorbells = true;
            owed = owed.and(self.change(root, doorbells, [CLOSED, WRITABLE]));
        }
        owed
    }

    /// Changes the permissions of doorbells from the first to the second value. For common ones, which other roots have,
    /// too, the pages are owed; a root of its own gets another ASID.
    fn change(&mut self, root: usize, doorbells: Doorbells, [from, to]: [u32; 2]) -> Owed {
        let (mut any, mut at, mut left) = (false, doorbells.first, doorbells.count);
        let step = usize::from(doorbells.step);
        while left != 0 {
            let table = self.own_table(root, first_index(at));
            let mut second = second_index(at);
            // Those that the table has: a loop of few instructions.
            while second < PAGES && left != 0 {
                if let Some(table) = table {
                    let page = self.memory.word(table, second);
                    if page & (SMALL_PAGE | AP) == SMALL_PAGE | from {
                        self.memory.set_word(table, second, page & !AP | to);
                        any = true;
                    }
                }
                second += step;
                at = at.wrapping_add(u32::from(doorbells.step) << 12);
                left -= 1;
            }
        }
        match any {
            true if root < Self::COMMON => {
                let Doorbells { first, step, count } = doorbells;
                return Owed::PagesEverywhere { first, step, count };
            }
            true => self.lose(root),
            false => {}
        }
        Owed::Nothing
    }

    /// The second-level table of a root at `index`, if it has one of its own: what is common is changed there, for all.
    fn own_table(&self, root: usize, index: usize) -> Option<Hpa> {
        match self.entry(root, index) {
            entry @ Entry::Table(table, _) if !self.is_foreign(root, entry) => {
                Some(self.tables.address(table))
            }
            _ => None,
        }
    }

    /// The root of the kernel's view of `space`, and the common one, if there are any.
    pub(super) fn kernel_roots(&self, space: &GuestSpace) -> [Option<usize>; 2] {
        let view = Privilege::Kernel;
        let latest = self.latest_root(space, view);
        let found = latest.or_else(|| self.find_root(&Owner::new(space, view)));
        let common = match found {
            Some(root) => self.roots[root].common,
            None => self.common_of(space, view),
        };
        [found, common]
    }
}

/// What tells a small page from what is none (DDI 0406C, B3.5.1), and the two fields that are AP.
pub(super) const SMALL_PAGE: u32 = 1 << 1;
const AP: u32 = 0x230;
/// AP 0b011: what User mode may write.
const WRITABLE: u32 = 0x030;
/// AP 0b110, of a closed doorbell: User mode may read it, and nobody may write, as with 0b111, which all other entries have of
/// which that is true (DDI 0406C, B3.7.1).
const CLOSED: u32 = 0x220;
/// The same as [`Attributes::ap`](crate::short::Attributes::ap).
pub(super) const CLOSED_AP: u8 = 0b110;
