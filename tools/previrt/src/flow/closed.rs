//! Which functions are explained to the last word.
//!
//! A literal that was taken for code is loaded by something: by an instruction of the same
//! function, as compilers and assemblers place literals. If that instruction is known, the load
//! is known, and the literal is no code. So where all of a function is known to be code, data
//! that code loads, or padding, nothing in it is mistaken. Where a word is left that nothing
//! explains, an instruction may be there, and what it loads is not known.

use super::marks::{Mark, Marks};
use super::memory::Memory;
use std::ops::Range;

/// What fills up to where a function is to begin: zeros, and NOP of each kind.
const PADDING_A32: [u32; 3] = [0, 0xe320_f000, 0xe1a0_0000];
const PADDING_T32: [u16; 4] = [0, 0xbf00, 0x46c0, 0xf3af];
/// The second halfword of T32's NOP.W.
const NOP_WIDE: u16 = 0x8000;

/// The parts of an image between one function's start and the next one's.
#[derive(Clone, Debug, Default)]
pub struct Closed {
    /// Where each begins.
    starts: Vec<u32>,
    /// Whether each is explained.
    closed: Vec<bool>,
    /// What nothing explains.
    pub gaps: Vec<Range<u32>>,
}

impl Closed {
    /// Of the pieces of `text`, where functions begin at `entries`, and something is wrong at
    /// `wrong`.
    pub fn new(
        memory: Memory<'_>,
        marks: &Marks,
        text: &[(u32, u32)],
        entries: &[u32],
        wrong: &[u32],
    ) -> Self {
        let mut starts: Vec<u32> = text.iter().map(|(from, _)| *from).collect();
        let within = |at: &&u32| text.iter().any(|(from, to)| (*from..*to).contains(at));
        starts.extend(entries.iter().filter(within));
        starts.sort_unstable();
        starts.dedup();
        let mut found = Self {
            closed: vec![true; starts.len()],
            starts,
            gaps: Vec::new(),
        };
        for (from, to) in text {
            found.look(memory, marks, *from..*to);
        }
        for at in wrong {
            found.open(*at);
        }
        found
    }

    fn look(&mut self, memory: Memory<'_>, marks: &Marks, range: Range<u32>) {
        let offset = |at: u32| (at.wrapping_sub(memory.base)) as usize;
        let offsets = offset(range.start)..offset(range.end).min(memory.bytes.len());
        for (offset, mark) in marks.iter(offsets) {
            let at = memory.address(offset);
            if mark != Mark::Unknown || is_padding(memory, at) {
                continue;
            }
            self.open(at);
            match self.gaps.last_mut() {
                Some(gap) if gap.end == at => gap.end = at.wrapping_add(2),
                _ => self.gaps.push(at..at.wrapping_add(2)),
            }
        }
    }

    fn part(&self, at: u32) -> Option<usize> {
        self.starts
            .partition_point(|start| *start <= at)
            .checked_sub(1)
    }

    fn open(&mut self, at: u32) {
        if let Some(closed) = self.part(at).and_then(|part| self.closed.get_mut(part)) {
            *closed = false;
        }
    }

    /// Whether all is explained of the function in which `at` is.
    pub fn contains(&self, at: u32) -> bool {
        let found = self.part(at).and_then(|part| self.closed.get(part));
        found.copied().unwrap_or(false)
    }

    /// Whether nothing explains what is at `at`.
    pub fn is_gap(&self, at: u32) -> bool {
        let after = self.gaps.partition_point(|gap| gap.start <= at);
        let gap = after.checked_sub(1).and_then(|n| self.gaps.get(n));
        gap.is_some_and(|gap| gap.contains(&at))
    }
}

/// Whether the halfword at `at` may be padding, of either instruction set.
fn is_padding(memory: Memory<'_>, at: u32) -> bool {
    let word = memory.word(at & !3).unwrap_or(0);
    let half = memory.half(at).unwrap_or(0);
    let wide = half == NOP_WIDE && memory.half(at.wrapping_sub(2)) == Some(PADDING_T32[3]);
    PADDING_A32.contains(&word) || PADDING_T32.contains(&half) || wide
}
