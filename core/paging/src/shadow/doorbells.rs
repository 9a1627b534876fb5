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
    /// anew. Nothing is owed: the root gets another ASID, if anything has changed.
    pub fn close_doorbells(&mut self, space: &GuestSpace, doorbells: Doorbells) {
        let Some(root) = self.kernel_root(space) else {
            return;
        };
        if !core::mem::take(&mut self.roots[root].doorbells) {
            return;
        }
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
        self.roots[root].tag = None;
    }

    /// The root of the kernel's view of `space`, if there is one.
    pub(super) fn kernel_root(&self, space: &GuestSpace) -> Option<usize> {
        let latest = self.latest_root(space, Privilege::Kernel);
        let owner = || Owner::new(space, Privilege::Kernel);
        latest.or_else(|| {
            let owner = owner();
            self.roots.iter().position(|root| root.owner == Some(owner))
        })
    }
}

/// AP of what User mode may read, and nobody may write.
const READ_ONLY: u8 = 0b111;
