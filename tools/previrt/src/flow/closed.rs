//! Finds the functions of which every word is explained.
//!
//! A literal that was taken for code is loaded by some instruction of the same function, because
//! compilers and assemblers place literals there. If that instruction is known, the load is known,
//! and so it is known that the literal is no code. So where every word of a function is known to be
//! code, data that code loads, or padding, no word of it is mistaken. Where a word is left
//! unexplained, it may be an instruction, and what that loads is not known.
//!
//! Such a word does no harm where it does not matter what it is ([`is_harmless`]): as data it loads
//! nothing, and as an instruction it would load nothing that was taken for code. Compilers leave
//! code that nothing reaches (behind an endless loop, functions that the linker replaced), and
//! programmers leave words that nothing loads. In a function with a jump whose targets are not all
//! known, being harmless is not enough: the words may be the jump's table.

use super::marks::{Mark, Marks};
use super::memory::Memory;
use super::step::{Jump, Next, step};
use hanok_decode::aarch32::{Isa, ItState, Register};
use std::collections::HashSet;
use std::ops::Range;

/// Padding in front of a function: zeros, and NOPs of each kind.
const PADDING_A32: [u32; 3] = [0, 0xe320_f000, 0xe1a0_0000];
const PADDING_T32: [u16; 4] = [0, 0xbf00, 0x46c0, 0xf3af];
/// The second halfword of T32's NOP.W.
const NOP_WIDE: u16 = 0x8000;
/// The halfword that LLD fills with between two sections of code. In either instruction set it
/// looks like an instruction that nobody would have written there.
const FILL: u16 = 0xd4d4;
/// The largest fill in bytes: it is less than functions are aligned to.
const MAX_FILL: u32 = 64;

/// The pieces of an image, each from one function's start to the next one's, and which of them are
/// explained.
#[derive(Clone, Debug, Default)]
pub struct Closed {
    /// The address at which each piece begins.
    starts: Vec<u32>,
    /// Whether each piece is explained to its last word.
    closed: Vec<bool>,
    /// The ranges that nothing explains.
    pub gaps: Vec<Range<u32>>,
}

/// What is known of functions besides the marks.
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionFacts<'a> {
    /// The addresses at which functions begin.
    pub entries: &'a [u32],
    /// The addresses near which a guess was wrong to the end.
    pub wrong: &'a [u32],
    /// The addresses of jumps whose targets are not all known.
    pub unresolved: &'a [u32],
}

impl Closed {
    /// Examines the pieces of `text`, in an image of `isa`.
    pub fn new(
        memory: Memory<'_>,
        marks: &Marks,
        text: &[(u32, u32)],
        isa: Isa,
        known: FunctionFacts<'_>,
    ) -> Self {
        let mut starts: Vec<u32> = text.iter().map(|(from, _)| *from).collect();
        let within = |at: &&u32| text.iter().any(|(from, to)| (*from..*to).contains(at));
        starts.extend(known.entries.iter().filter(within));
        starts.sort_unstable();
        starts.dedup();
        let mut found = Self {
            closed: vec![true; starts.len()],
            starts,
            gaps: Vec::new(),
        };
        let unresolved = known.unresolved.iter().filter_map(|at| found.part(*at));
        let unresolved: HashSet<usize> = unresolved.collect();
        for (from, to) in text {
            found.look(memory, marks, *from..*to, isa);
        }
        for gap in found.gaps.clone() {
            let words = gap.step_by(2);
            let harmful = words.filter(|at| {
                let jumps = || {
                    found
                        .part(*at)
                        .is_some_and(|part| unresolved.contains(&part))
                };
                !is_harmless(memory, marks, *at, isa) || jumps()
            });
            for at in harmful.collect::<Vec<_>>() {
                found.open(at);
            }
        }
        for at in known.wrong {
            found.open(*at);
        }
        found
    }

    fn look(&mut self, memory: Memory<'_>, marks: &Marks, range: Range<u32>, isa: Isa) {
        let offset = |at: u32| (at.wrapping_sub(memory.base)) as usize;
        let offsets = offset(range.start)..offset(range.end).min(memory.bytes.len());
        for (offset, mark) in marks.iter(offsets) {
            let at = memory.address(offset);
            if mark != Mark::Unknown || is_padding(memory, at, isa) || self.is_fill(memory, at) {
                continue;
            }
            match self.gaps.last_mut() {
                Some(gap) if gap.end == at => gap.end = at.wrapping_add(2),
                _ => self.gaps.push(at..at.wrapping_add(2)),
            }
        }
    }

    /// Whether LLD's fill is at `at`, and goes on to the next function. It cannot be the end of a
    /// jump table: such an entry would lead out of the function.
    fn is_fill(&self, memory: Memory<'_>, at: u32) -> bool {
        let next = self.starts.partition_point(|start| *start <= at);
        let next = self.starts.get(next).filter(|next| **next - at < MAX_FILL);
        next.is_some_and(|next| {
            let mut halves = (at..*next).step_by(2);
            halves.all(|at| memory.half(at) == Some(FILL))
        })
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

    /// Whether the function that contains `at` is explained to its last word.
    pub fn contains(&self, at: u32) -> bool {
        let found = self.part(at).and_then(|part| self.closed.get(part));
        found.copied().unwrap_or(false)
    }

    /// Whether nothing explains the word at `at`.
    pub fn is_gap(&self, at: u32) -> bool {
        let after = self.gaps.partition_point(|gap| gap.start <= at);
        let gap = after.checked_sub(1).and_then(|n| self.gaps.get(n));
        gap.is_some_and(|gap| gap.contains(&at))
    }
}

/// Whether it does not matter what the halfword at `at` is: if an instruction of `isa` begins there
/// (in a Thumb kernel: of either instruction set), then it makes code of nothing else. Where the
/// flow goes from it is either known, or unknown and examined by itself.
fn is_harmless(memory: Memory<'_>, marks: &Marks, at: u32, isa: Isa) -> bool {
    let unknown = |at: &u32| {
        let offset = memory.offset(*at);
        offset.is_some_and(|offset| marks.get(offset) == Mark::Unknown)
    };
    let word = Some(at & !3).filter(unknown);
    let a32 = word.is_none_or(|at| harmless_as(memory, marks, at, Isa::A32));
    a32 && (isa == Isa::A32 || harmless_as(memory, marks, at, Isa::T32))
}

fn harmless_as(memory: Memory<'_>, marks: &Marks, at: u32, isa: Isa) -> bool {
    let Some(encoding) = memory.fetch(at, isa) else {
        return true;
    };
    let step = step(encoding, at, ItState::NONE);
    let is_code = |at: u32| {
        let mark = memory.offset(at).map(|offset| marks.get(offset));
        matches!(mark, Some(Mark::Start(..) | Mark::Body))
    };
    let loads_code = step.literal.is_some_and(|(place, len)| {
        let end = place.saturating_add(len);
        (place & !1..end).step_by(2).any(is_code)
    });
    // An instruction that takes an address is not harmless: what is done with the address is not
    // examined.
    if loads_code || step.address.is_some() {
        return false;
    }
    match step.next {
        _ if !step.plausible => true,
        Next::Away { by, .. } => {
            matches!(
                by,
                Jump::Back | Jump::Literal(_) | Jump::Register(Register::LR)
            )
        }
        Next::Call(Some((to, other))) => other == isa || is_code(to),
        Next::Falls | Next::Branch { .. } | Next::Call(None) | Next::Stops => true,
    }
}

/// Whether the halfword at `at` may be padding in an image of `isa`. A Thumb kernel has a few
/// functions of A32; an A32 kernel has none of T32.
fn is_padding(memory: Memory<'_>, at: u32, isa: Isa) -> bool {
    let word = memory.word(at & !3).unwrap_or(0);
    let half = memory.half(at).unwrap_or(0);
    let wide = || half == NOP_WIDE && memory.half(at.wrapping_sub(2)) == Some(PADDING_T32[3]);
    let narrow = || PADDING_T32.contains(&half) || wide();
    PADDING_A32.contains(&word) || isa == Isa::T32 && narrow()
}
