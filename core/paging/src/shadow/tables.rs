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
    /// The clock when it was taken; of a free table, the one that was freed before it.
    pub taken: u64,
}

/// All second-level tables, one after the other in memory.
#[derive(Debug)]
pub(super) struct Tables<const N: usize> {
    base: Hpa,
    all: [Table; N],
    /// The table that was freed last, and is taken first; `N` if there is none.
    freed: usize,
    /// So many have been taken at least once.
    begun: usize,
    /// Where the search for an old one goes on.
    hand: usize,
}

/// Of how many tables the oldest is taken back, if none is free.
const LOOKED_AT: usize = 64;

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
            freed: N,
            begun: 0,
            hand: 0,
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

    /// All that have ever been taken are before this one.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// Frees a table. What its descriptors say is void.
    pub fn release(&mut self, number: usize) {
        let next = core::mem::replace(&mut self.freed, number % N);
        let table = self.get_mut(number);
        (table.parent, table.taken) = (None, next as u64);
    }

    /// A free table, which is none any more.
    pub fn take(&mut self) -> Option<usize> {
        if self.freed < N {
            let number = self.freed;
            self.freed = self.get(number).taken as usize;
            return Some(number);
        }
        let number = self.begun;
        self.begun += usize::from(number < N);
        (number < N).then_some(number)
    }

    /// The table to take back, of some or all: one that is empty, or else one of the root that was used longest ago by `used`,
    /// and of these the one that was taken first.
    pub fn oldest(&mut self, used: impl Fn(Parent) -> u64) -> Option<Parent> {
        let mut oldest = None;
        for _ in 0..LOOKED_AT.min(N) {
            self.hand = (self.hand + 1) % N;
            let table = self.get(self.hand);
            let Some(parent) = table.parent else {
                continue;
            };
            let used = if table.live == 0 { 0 } else { used(parent) };
            let age = (used, table.taken);
            if oldest.is_none_or(|(least, _)| age < least) {
                oldest = Some((age, parent));
            }
        }
        oldest.map(|(_, parent)| parent)
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
