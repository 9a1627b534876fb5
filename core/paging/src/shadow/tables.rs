//! The pool of second-level tables.

use hanok_types::Hpa;

/// The bytes of a second-level table.
const SIZE: u64 = 1 << 10;
/// The number of descriptors of a second-level table.
pub(super) const ENTRIES: usize = 256;

/// The first-level descriptor that leads to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub root: u16,
    pub index: u16,
}

/// What is known of a second-level table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// What leads to it; `None` if it is free.
    pub parent: Option<Parent>,
    /// The number of its descriptors that are not 0. In a free table they are void.
    pub live: u16,
    /// A bit for each 64 KiB of the host, modulo 64, to which a descriptor may lead.
    pub frames: u64,
    /// The clock when it was taken.
    pub taken: u64,
}

/// All second-level tables, one after the other in memory.
#[derive(Debug)]
pub(super) struct Tables<const N: usize> {
    base: Hpa,
    all: [Table; N],
    /// The table that was freed last, which is mostly wanted again at once.
    freed: usize,
}

impl<const N: usize> Tables<N> {
    /// Free and zeroed tables from `base` on.
    pub fn new(base: Hpa) -> Self {
        let free = Table {
            parent: None,
            live: 0,
            frames: 0,
            taken: 0,
        };
        Self {
            base,
            all: [free; N],
            freed: 0,
        }
    }

    pub fn base(&self) -> Hpa {
        self.base
    }

    pub fn get(&self, number: usize) -> &Table {
        &self.all[number % N]
    }

    pub fn get_mut(&mut self, number: usize) -> &mut Table {
        &mut self.all[number % N]
    }

    /// Where a table is.
    pub fn address(&self, number: usize) -> Hpa {
        Hpa::new(self.base.get() + number as u64 * SIZE)
    }

    /// The table at `address`.
    pub fn number(&self, address: Hpa) -> usize {
        (address.get().wrapping_sub(self.base.get()) / SIZE) as usize % N
    }

    /// Frees a table. What its descriptors say is void.
    pub fn release(&mut self, number: usize) {
        self.get_mut(number).parent = None;
        self.freed = number;
    }

    /// A free table.
    pub fn free(&self) -> Option<usize> {
        if self.get(self.freed).parent.is_none() {
            return Some(self.freed % N);
        }
        self.all.iter().position(|table| table.parent.is_none())
    }

    /// The table to take back: one of the root that was used longest ago by `used`, and of these
    /// the one that was taken first.
    pub fn oldest(&self, used: impl Fn(Parent) -> u64) -> Option<Parent> {
        let parents = self.all.iter().filter_map(|table| {
            let parent = table.parent?;
            Some((used(parent), table.taken, parent))
        });
        let oldest = parents.min_by_key(|(used, taken, _)| (*used, *taken));
        oldest.map(|(_, _, parent)| parent)
    }
}

/// The bit of [`Table::frames`] for a frame.
pub(super) const fn frame_bit(frame: u64) -> u64 {
    1 << (frame >> 4 & 63)
}

/// The same with 32 bits: which half of the set it is in, and its bit there.
pub(super) const fn frame_half(frame: u32) -> (usize, u32) {
    ((frame >> 9 & 1) as usize, 1 << (frame >> 4 & 31))
}
