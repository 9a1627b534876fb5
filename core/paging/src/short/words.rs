//! Descriptors of 32 bits in memory that is read and written in units of 64.

use hanok_hal::TableMemory;
use hanok_types::{Address, Hpa, PAGE_SIZE};

/// The bytes of a descriptor.
const DESCRIPTOR: usize = 4;

/// Reads and writes single descriptors of 32 bits. `table` may begin inside a page, as a
/// second-level table does.
///
/// The other descriptor of a pair is written with the value that it has, so only one may write.
pub(crate) trait Words {
    /// The descriptor `index` of the table at `table`.
    fn word(&self, table: Hpa, index: usize) -> u32;
    /// Sets descriptor `index` of the table at `table`, and makes it visible to walkers.
    fn set_word(&mut self, table: Hpa, index: usize, descriptor: u32);
    /// Clears all descriptors of a table that no walker can reach.
    fn clear_unseen(&mut self, table: Hpa, entries: usize);
}

/// The page of a descriptor, the index of its pair in there, and the shift in its pair. A
/// first-level table has four pages and is one table of the memory, so its indices go on.
fn place(table: Hpa, index: usize) -> (Hpa, usize, u32) {
    let page = table.align_down(PAGE_SIZE);
    let number = (table.get() - page.get()) as usize / DESCRIPTOR + index;
    (page, number / 2, (number % 2) as u32 * u32::BITS)
}

impl<M: TableMemory> Words for M {
    fn word(&self, table: Hpa, index: usize) -> u32 {
        let (page, pair, shift) = place(table, index);
        (self.read(page, pair) >> shift) as u32
    }

    fn set_word(&mut self, table: Hpa, index: usize, descriptor: u32) {
        let (page, pair, shift) = place(table, index);
        let other = self.read(page, pair) & !(u64::from(u32::MAX) << shift);
        self.write(page, pair, other | u64::from(descriptor) << shift);
    }

    fn clear_unseen(&mut self, table: Hpa, entries: usize) {
        let (page, first, _) = place(table, 0);
        for pair in first..first + entries / 2 {
            self.write_unseen(page, pair, 0);
        }
    }
}
