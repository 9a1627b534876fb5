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
    /// Descriptors `2 * number` and the next of the table at `table`.
    fn pair(&self, table: Hpa, number: usize) -> [u32; 2];
    /// Sets both of a pair. Walkers may not see that at once.
    fn set_pair_unseen(&mut self, table: Hpa, number: usize, descriptors: [u32; 2]);
    /// As [`Self::set_word`], but walkers may not see it at once.
    fn set_word_unseen(&mut self, table: Hpa, index: usize, descriptor: u32);
    /// The first descriptor from `index` on that is not 0; `end` if there is none before.
    fn next_filled(&self, table: Hpa, index: usize, end: usize) -> usize;
    /// Clears all descriptors of a table that no walker can reach.
    fn clear_unseen(&mut self, table: Hpa, entries: usize);
}

/// Which descriptor of a pair it is: the lower half is the first one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Lower,
    Upper,
}

/// The page of a descriptor, the index of its pair in there, and its half of the pair. A
/// first-level table has four pages and is one table of the memory, so its indices go on.
fn place(table: Hpa, index: usize) -> (Hpa, usize, Half) {
    let page = table.align_down(PAGE_SIZE);
    let number = (table.get() - page.get()) as usize / DESCRIPTOR + index;
    let half = if number.is_multiple_of(2) {
        Half::Lower
    } else {
        Half::Upper
    };
    (page, number / 2, half)
}

/// The page of a descriptor, its pair, and what that is with the descriptor.
fn with<M: TableMemory>(memory: &M, table: Hpa, index: usize, to: u32) -> (Hpa, usize, u64) {
    let (page, pair, half) = place(table, index);
    let both = memory.read(page, pair);
    // Not by a shift of a mask by 0 or 32: for T32 the compiler has made code of that which loses the
    // other half.
    let [lower, upper] = match half {
        Half::Lower => [to, (both >> u32::BITS) as u32],
        Half::Upper => [both as u32, to],
    };
    (page, pair, u64::from(upper) << u32::BITS | u64::from(lower))
}

impl<M: TableMemory> Words for M {
    fn word(&self, table: Hpa, index: usize) -> u32 {
        let (page, pair, half) = place(table, index);
        let both = self.read(page, pair);
        match half {
            Half::Lower => both as u32,
            Half::Upper => (both >> u32::BITS) as u32,
        }
    }

    fn set_word(&mut self, table: Hpa, index: usize, descriptor: u32) {
        let (page, pair, both) = with(self, table, index, descriptor);
        self.write(page, pair, both);
    }

    fn set_word_unseen(&mut self, table: Hpa, index: usize, descriptor: u32) {
        let (page, pair, both) = with(self, table, index, descriptor);
        self.write_unseen(page, pair, both);
    }

    fn pair(&self, table: Hpa, number: usize) -> [u32; 2] {
        let (page, first, _) = place(table, 0);
        let both = self.read(page, first + number);
        [both as u32, (both >> u32::BITS) as u32]
    }

    fn set_pair_unseen(&mut self, table: Hpa, number: usize, [lower, upper]: [u32; 2]) {
        let (page, first, _) = place(table, 0);
        let both = u64::from(upper) << u32::BITS | u64::from(lower);
        self.write_unseen(page, first + number, both);
    }

    fn next_filled(&self, table: Hpa, mut index: usize, end: usize) -> usize {
        let (page, first, _) = place(table, 0);
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

    fn clear_unseen(&mut self, table: Hpa, entries: usize) {
        let (page, first, _) = place(table, 0);
        for pair in first..first + entries / 2 {
            self.write_unseen(page, pair, 0);
        }
    }
}
