//! The longest run of entries of a table.

use super::tables::{MIN_RUN, Text};
use crate::flow::memory::Memory;

/// A run of entries: the first one's address, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where the first is.
    pub address: u32,
    /// How many.
    pub entries: usize,
}

/// The longest run of entries of `size` bytes, each at a word's boundary and not in `.text` or kallsyms, that
/// `holds` says to be right, given its address and the one before it, if that was right.
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
                // It may be the first of another run.
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
    /// The run and what stands on both sides of it that `holds`, too: for entries that are
    /// right but do not look so by themselves.
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

    /// Where it ends, with entries of `size` bytes each.
    pub const fn end(self, size: u32) -> u32 {
        let len = size.wrapping_mul(self.entries as u32);
        self.address.wrapping_add(len)
    }

    /// Each entry's address, of `size` bytes each.
    pub fn each(self, size: u32) -> impl Iterator<Item = u32> {
        (0..self.entries as u32).map(move |n| self.address.wrapping_add(n.wrapping_mul(size)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_kallsyms_is_no_table() {
        // Ten words that say it, four that do not, and twenty more that do: these are kallsyms' own.
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
