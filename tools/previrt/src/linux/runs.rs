//! Finds the longest run of a table's entries.

use super::tables::{MIN_RUN, Text};
use crate::flow::memory::Memory;

/// A run of entries that lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The address of the first entry.
    pub address: u32,
    /// The number of entries.
    pub entries: usize,
}

/// Finds the longest run of entries of `size` bytes for which `holds` is true. The entries are
/// aligned to a word, and lie neither in `.text` nor in kallsyms. `holds` gets an entry's address,
/// and that of the entry before it if `holds` was true of that one.
pub fn longest(
    memory: Memory<'_>,
    text: &Text,
    size: usize,
    holds: impl Fn(u32, Option<u32>) -> bool,
) -> Option<Run> {
    let mut best: Option<Run> = None;
    let holds = |at: u32, before| !text.kallsyms.contains(&at) && holds(at, before);
    let first = memory.offset(text.end).unwrap_or(0).next_multiple_of(4);
    for phase in (0..size).step_by(4) {
        let mut run: Option<Run> = None;
        for offset in (first + phase..memory.bytes.len()).step_by(size) {
            let address = memory.address(offset);
            let before = run.map(|_| address.wrapping_sub(size as u32));
            run = match (run, holds(address, before)) {
                (Some(run), true) => Some(Run {
                    entries: run.entries + 1,
                    ..run
                }),
                (None, true) => Some(Run {
                    address,
                    entries: 1,
                }),
                // The entry may be the first of another run.
                (Some(_), false) if holds(address, None) => Some(Run {
                    address,
                    entries: 1,
                }),
                (_, false) => None,
            };
            if run.map(|run| run.entries) > best.map(|best| best.entries) {
                best = run;
            }
        }
    }
    best.filter(|run| run.entries >= MIN_RUN)
}

impl Run {
    /// Extends the run on both sides by entries for which `holds` is true: entries that are right,
    /// but by themselves do not look so.
    pub fn extended(self, size: u32, holds: impl Fn(u32) -> bool) -> Self {
        let after = |n: u32| self.address.wrapping_add(size.wrapping_mul(n));
        let before = (1..).map(|n| self.address.wrapping_sub(size.wrapping_mul(n)));
        let ahead = before.take_while(|at| holds(*at)).count();
        let behind = (self.entries as u32..)
            .map(after)
            .take_while(|at| holds(*at))
            .count();
        Self {
            address: self.address.wrapping_sub(size.wrapping_mul(ahead as u32)),
            entries: self.entries + ahead + behind,
        }
    }

    /// The address behind the last entry, with entries of `size` bytes.
    pub const fn end(self, size: u32) -> u32 {
        let len = size.wrapping_mul(self.entries as u32);
        self.address.wrapping_add(len)
    }

    /// The address of each entry, with entries of `size` bytes.
    pub fn each(self, size: u32) -> impl Iterator<Item = u32> {
        (0..self.entries as u32).map(move |n| self.address.wrapping_add(n.wrapping_mul(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_kallsyms_is_no_table() {
        // Ten words that hold, four that do not, and twenty more that do: the last are kallsyms'
        // own.
        let words = (0..34_u32).map(|n| u32::from(!(10..14).contains(&n)));
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        let memory = Memory {
            bytes: &bytes,
            base: 0x1000,
        };
        let found = |kallsyms| {
            let text = Text {
                end: 0x1000,
                kallsyms,
                ..Text::default()
            };
            longest(memory, &text, 4, |at, _| memory.word(at) == Some(1))
        };
        let run = |address, entries| Some(Run { address, entries });
        assert_eq!(found(0..0), run(0x1038, 20));
        assert_eq!(found(0x1030..0x1088), run(0x1000, 10));
    }
}
