//! Pages that the guest's kernel may write only while nothing waits for it.
//!
//! A kernel that was rewritten unmasks interrupts by a store to such a page ([`FrameKind::Doorbell`]). While
//! one is pending the pages are closed: the store aborts, and the interrupt is taken.
//!
//! [`FrameKind::Doorbell`]: super::FrameKind::Doorbell

use super::entries::Entry;
use super::roots::{GuestSpace, Owner};
use super::{Shadow, first_index, second_index};
use crate::short::{Attributes, Privilege, SecondLevel, Words};
use hanok_hal::TableMemory;

/// The addresses of doorbells: pages at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbells {
    /// The address of the first one.
    pub first: u32,
    /// The distance from one to the next, in bytes.
    pub step: u32,
    /// How many they are, which bounds the work of [`Shadow::close_doorbells`].
    pub count: u32,
}

impl Doorbells {
    fn pages(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |number| self.first.wrapping_add(number.wrapping_mul(self.step)))
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Makes the doorbells at these addresses read-only in the kernel's view of `space`, until they are opened or filled
    /// anew, and with them those that are common. Nothing is owed: roots get other ASIDs, if anything has changed.
    pub fn close_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) {
        for root in self.kernel_roots(space).into_iter().flatten() {
            if core::mem::take(&mut self.roots[root].doorbells) {
                self.change(root, doorbells, [WRITABLE, CLOSED]);
            }
        }
    }

    /// Opens again the doorbells at these addresses, in the kernel's view of `space`, that were closed and have not been
    /// removed since. Nothing is owed, as for [`Self::close_doorbells`].
    pub fn open_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) {
        for root in self.kernel_roots(space).into_iter().flatten() {
            if self.change(root, doorbells, [CLOSED, WRITABLE]) {
                self.roots[root].doorbells = true;
            }
        }
    }

    /// Changes the permissions of doorbells from the first to the second value. Answers whether there were any.
    fn change(&mut self, root: usize, doorbells: Doorbells, [from, to]: [u8; 2]) -> bool {
        let mut any = false;
        for at in doorbells.pages() {
            let entry = self.entry(root, first_index(at));
            let Entry::Table(table, _) = entry else {
                continue;
            };
            // What is common is changed there, for all.
            if self.is_foreign(root, entry) {
                continue;
            }
            let (address, index) = (self.tables.address(table), second_index(at));
            let SecondLevel::Small(page) = SecondLevel::decode(self.memory.word(address, index))
            else {
                continue;
            };
            let attributes = page.attributes();
            if attributes.ap != from {
                continue;
            }
            any = true;
            let changed = Attributes {
                ap: to,
                ..attributes
            };
            let frame = u64::from(page.base()) << 12;
            let page = changed.small_page(frame).into_bits();
            self.memory.set_word(address, index, page);
        }
        if any {
            self.lose(root);
        }
        any
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

/// AP of what User mode may write.
const WRITABLE: u8 = 0b011;
/// AP of a closed doorbell: User mode may read it, and nobody may write, as with 0b111, which all other entries have of which
/// that is true (DDI 0406C, B3.7.1).
pub(super) const CLOSED: u8 = 0b110;
