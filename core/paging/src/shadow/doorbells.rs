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
    /// Makes the doorbells at these addresses read-only in the kernel's view of `space`, until they are filled
    /// anew, and with them those that are common. Nothing is owed: roots get other ASIDs, if anything has changed.
    pub fn close_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) {
        for root in self.kernel_roots(space).into_iter().flatten() {
            if core::mem::take(&mut self.roots[root].doorbells) {
                self.close(root, doorbells);
            }
        }
    }

    fn close(&mut self, root: usize, doorbells: Doorbells) {
        for at in doorbells.pages() {
            let Entry::Table(table, _) = self.entry(root, first_index(at)) else {
                continue;
            };
            let (address, index) = (self.tables.address(table), second_index(at));
            let SecondLevel::Small(page) = SecondLevel::decode(self.memory.word(address, index))
            else {
                continue;
            };
            let read_only = Attributes {
                ap: READ_ONLY,
                ..page.attributes()
            };
            let frame = u64::from(page.base()) << 12;
            let closed = read_only.small_page(frame).into_bits();
            self.memory.set_word(address, index, closed);
        }
        self.lose(root);
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

/// AP of what User mode may read, and nobody may write.
const READ_ONLY: u8 = 0b111;
