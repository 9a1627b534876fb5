//! Descriptors of 32 bits in memory that is read and written in units of 64.

use hanok_hal::TableMemory;
use hanok_types::{Address, Hpa, PAGE_SIZE};

/// The bytes of a pair of descriptors.
const PAIR: usize = 8;

/// Reads and writes single descriptors of 32 bits. `table` may begin inside a page, as a
/// second-level table does.
///
/// The other descriptor of a pair is written with the value that it has, so only one may write.
pub(crate) trait Words {
    /// The descriptor `index` of the table at `table`.
    fn word(&self, table: Hpa, index: usize) -> u32;
    /// Sets descriptor `index` of the table at `table`, and makes it visible to walkers.
    fn set_word(&mut self, table: Hpa, index: usize, descriptor: u32);
    /// As [`Self::set_word`], but walkers may not see it at once.
    fn set_word_unseen(&mut self, table: Hpa, index: usize, descriptor: u32);
    /// The first descriptor from `index` on that is not 0; `end` if there is none before.
    fn next_filled(&self, table: Hpa, index: usize, end: usize) -> usize;
    /// Clears the `entries` descriptors of a table that no walker can reach.
    fn clear_words_unseen(&mut self, table: Hpa, entries: usize);
}

/// The page of a table, and the index in there of its first pair of descriptors.
fn first_pair(table: Hpa) -> (Hpa, usize) {
    let page = table.align_down(PAGE_SIZE);
    (page, (table.get() - page.get()) as usize / PAIR)
}

impl<M: TableMemory> Words for M {
    fn word(&self, table: Hpa, index: usize) -> u32 {
        self.read_word(table, index)
    }

    fn set_word(&mut self, table: Hpa, index: usize, descriptor: u32) {
        self.write_word(table, index, descriptor);
    }

    fn set_word_unseen(&mut self, table: Hpa, index: usize, descriptor: u32) {
        self.write_word_unseen(table, index, descriptor);
    }

    fn next_filled(&self, table: Hpa, mut index: usize, end: usize) -> usize {
        let (page, first) = first_pair(table);
        while index < end {
            let both = self.read(page, first + index / 2);
            if both == 0 {
                index = (index | 1) + 1;
                continue;
            }
            let is_lower = index.is_multiple_of(2);
            if is_lower && both as u32 != 0 || !is_lower && both >> u32::BITS != 0 {
                return index;
            }
            index += 1;
        }
        end
    }

    fn clear_words_unseen(&mut self, table: Hpa, entries: usize) {
        let (page, first) = first_pair(table);
        self.clear_unseen(page, first, entries / 2);
    }
}
