//! Which words of an image are literals that only certain instructions load.
//!
//! A literal may be replaced by something else if it is known who reads it. Nothing in an image
//! says so, but what may read a word is limited: an instruction that names it by the PC is within
//! 4 KiB; one that makes an address of it by the PC (ADR) is near its table; all else needs its
//! address, which has to be somewhere in the image, as a word, as a distance or in a pair of MOVW
//! and MOVT. A word for which any of these is doubtful is no such literal.

use super::instead::literal_load;
use crate::flow::Before;
use crate::flow::marks::Mark;
use crate::flow::memory::Memory;
use crate::image::Code;
use crate::scan::SitePlace;
use hanok_decode::aarch32::{Isa, Register};
use hanok_instructions::{Flow, Instruction, Reference, TableKind, Use, decode_a32};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// The distance that an instruction reaches from the PC, the PC's own distance included, and the
/// largest distance at which something that has an address of the text is expected to read.
const NEAR: u32 = 0x1008;

/// Who reads which word of an image's code.
pub(super) struct Literals<'a> {
    code: &'a Code,
    /// The image's functions.
    functions: Option<&'a SitePlace>,
    /// The instructions that load a word by LDR, all of which are known code.
    loads: BTreeMap<u32, Vec<u32>>,
    /// The jump tables of addresses, by the first entry's address: the jump's address, and the
    /// number of entries.
    tables: BTreeMap<u32, (u32, u32)>,
    /// The ranges in which something else may read, in order and apart from each other.
    others: Vec<Range<u32>>,
    /// The addresses that the image has somewhere.
    named: HashSet<u32>,
}

impl<'a> Literals<'a> {
    /// Examines the whole image, which has these `functions`.
    pub(super) fn of(memory: Memory<'_>, code: &'a Code, functions: Option<&'a SitePlace>) -> Self {
        let mut found = Self {
            code,
            functions,
            loads: BTreeMap::new(),
            tables: BTreeMap::new(),
            others: Vec::new(),
            named: HashSet::new(),
        };
        let mut made = MadeAddresses::default();
        for offset in (0..memory.bytes.len()).step_by(4) {
            let at = memory.address(offset);
            let (Some(word), mark) = (memory.word(at), code.marks.get(offset)) else {
                continue;
            };
            match mark {
                Mark::Start(Isa::A32, _) => {
                    made.see(word);
                    if word & RN_IS_PC == RN_IS_PC || word & RM_IS_PC == RM_IS_PC {
                        found.instruction(memory, at, word);
                    }
                }
                Mark::Start(Isa::T32, _) => found.other(near(at)),
                _ if word & RN_IS_PC == RN_IS_PC => {
                    found.perhaps_code(at, word, mark);
                }
                _ => {}
            }
        }
        let entries = found.tables.iter().flat_map(|(start, (_, entries))| {
            let end = start.saturating_add(4 * entries);
            (*start..end).step_by(4)
        });
        let wanted: HashSet<u32> = found.loads.keys().copied().chain(entries).collect();
        found.named = named(memory, &wanted);
        let names = functions.into_iter().flat_map(SitePlace::starts);
        let names = names.chain(made.addresses);
        found.named.extend(names.filter(|at| wanted.contains(at)));
        found.others = merged(std::mem::take(&mut found.others));
        found
    }

    /// The instructions that load the word at `at`, if nothing else can read it, and there are any.
    pub(super) fn loads(&self, at: u32) -> Option<&[u32]> {
        if self.is_read_otherwise(at) || self.table_of(at).is_some() {
            return None;
        }
        self.loads.get(&at).map(Vec::as_slice)
    }

    /// The address of the jump, and the addresses of all entries, of the jump table that the word at
    /// `at` is in, if nothing but the jump can read them.
    pub(super) fn table(&self, at: u32) -> Option<(u32, Vec<u32>)> {
        let (start, jump, number) = self.table_of(at)?;
        let entries: Vec<_> = (0..number).map(|n| start.wrapping_add(4 * n)).collect();
        let alone = entries.iter().all(|entry| {
            let one = self.table_of(*entry).is_some_and(|found| found.0 == start);
            one && !self.is_read_otherwise(*entry) && !self.loads.contains_key(entry)
        });
        // A word behind it that nothing explains may be one more entry.
        let end = start.saturating_add(4 * number);
        let offset = end.wrapping_sub(self.code.base) as usize;
        let known = matches!(self.code.marks.get(offset), Mark::Start(..))
            || self.loads.contains_key(&end)
            || self.tables.contains_key(&end);
        (alone && known).then_some((jump, entries))
    }

    /// The start, the jump and the number of entries of the table that `at` is in.
    fn table_of(&self, at: u32) -> Option<(u32, u32, u32)> {
        let (start, (jump, entries)) = self.tables.range(..=at).next_back()?;
        (at - start < 4 * entries).then_some((*start, *jump, *entries))
    }

    fn is_read_otherwise(&self, at: u32) -> bool {
        let after = self.others.partition_point(|other| other.start <= at);
        let other = after.checked_sub(1).and_then(|n| self.others.get(n));
        other.is_some_and(|other| other.contains(&at)) || self.named.contains(&at)
    }

    fn other(&mut self, range: Range<u32>) {
        self.others.push(range);
    }

    /// Notes what the instruction `word` at `at` reads by the PC.
    fn instruction(&mut self, memory: Memory<'_>, at: u32, word: u32) {
        if let Some((_, place)) = literal_load(word, at) {
            if place.is_multiple_of(4) {
                self.loads.entry(place).or_default().push(at);
            } else {
                self.other(place & !3..place.saturating_add(4));
            }
            return;
        }
        let found = decode_a32(word);
        if found.reference.is_some() {
            self.reference(&found, at);
            return;
        }
        match found.flow {
            Flow::Jump { .. } | Flow::Call { .. } => {}
            Flow::Table(table) if table.base == Register::PC => match table.kind {
                TableKind::Code => {}
                _ => self.note_table(memory, at, table.index),
            },
            // MOV of the PC is a return address that is made by hand.
            _ if word & 0x0fff_0fff == 0x01a0_000f => {}
            _ if found.effects.reads.contains(Register::PC) => self.other(near(at)),
            _ => {}
        }
    }

    /// Notes the jump table of the jump at `at`.
    fn note_table(&mut self, memory: Memory<'_>, at: u32, index: Register) {
        let before = Before {
            memory,
            marks: &self.code.marks,
            isa: Isa::A32,
        };
        let start = at.wrapping_add(8);
        match before.bound(index, at) {
            Some(entries) => _ = self.tables.insert(start, (at, entries)),
            None => self.other(table_of_addresses(memory, start)),
        }
    }

    /// Notes what a word reads by the PC if it is an instruction, though no code is known there.
    fn perhaps_code(&mut self, at: u32, word: u32, mark: Mark) {
        let found = decode_a32(word);
        let address = |reference: &Reference| reference.used == Use::Address;
        // What some code loads is hardly an instruction that takes an address.
        if mark == Mark::Unknown || !found.reference.as_ref().is_some_and(address) {
            self.reference(&found, at);
        }
    }

    /// Notes the range that the instruction at `at` reads or writes by the PC. Of one that makes an
    /// address it is the function that the address is in, since compilers put what they address so
    /// behind the function's own code; and if that is another function, all that is near.
    fn reference(&mut self, found: &Instruction, at: u32) {
        let Some(reference) = found.reference else {
            return;
        };
        let place = reference.at.from(at);
        match reference.used {
            Use::Load(len) | Use::Store(len) => {
                self.other(place & !3..place.saturating_add(u32::from(len)));
            }
            Use::Preload => {}
            Use::Address => {
                let function = self.functions.and_then(|all| all.extent(place));
                let own = function
                    .as_ref()
                    .is_some_and(|function| function.contains(&at));
                self.others.extend(function);
                if !own {
                    self.other(near(place));
                }
            }
        }
    }
}

/// The fields Rn and Rm, if they are the PC. An instruction that computes with the PC has one of
/// them so.
const RN_IS_PC: u32 = 0x000f_0000;
const RM_IS_PC: u32 = 0x0000_000f;

/// The range around `at` in which an instruction there may read.
fn near(at: u32) -> Range<u32> {
    at.saturating_sub(NEAR)..at.saturating_add(NEAR)
}

/// The range of words from `at` on that are addresses of the image: the entries of a jump table,
/// and perhaps literals behind it.
fn table_of_addresses(memory: Memory<'_>, at: u32) -> Range<u32> {
    let entries = (at..).step_by(4).take_while(|at| {
        let entry = memory.word(*at);
        entry.is_some_and(|to| to.is_multiple_of(4) && memory.offset(to).is_some())
    });
    at..entries.last().unwrap_or(at).saturating_add(4)
}

/// The members of `wanted` that the image has as a word at any address, aligned or not, or as the
/// distance from an aligned word (of 31 or 32 bits).
fn named(memory: Memory<'_>, wanted: &HashSet<u32>) -> HashSet<u32> {
    let (Some(least), Some(most)) = (wanted.iter().min(), wanted.iter().max()) else {
        return HashSet::new();
    };
    let (least, most) = (*least, *most);
    let mut named = HashSet::new();
    let mut see = |address: u32| {
        if (least..=most).contains(&address) && wanted.contains(&address) {
            named.insert(address);
        }
    };
    for (offset, bytes) in memory.bytes.windows(4).enumerate() {
        let Some(word) = bytes.first_chunk().copied().map(u32::from_le_bytes) else {
            continue;
        };
        see(word);
        if offset.is_multiple_of(4) {
            let at = memory.address(offset);
            see(at.wrapping_add(word));
            let short = (word << 1) as i32 >> 1;
            see(at.wrapping_add_signed(short));
        }
    }
    named
}

/// Addresses that MOVW and MOVT make.
#[derive(Default)]
struct MadeAddresses {
    /// What each register got by the last MOVW.
    lower: [u32; 16],
    addresses: Vec<u32>,
}

impl MadeAddresses {
    fn see(&mut self, word: u32) {
        let constant = word >> 4 & 0xf000 | word & 0xfff;
        let register = (word >> 12 & 0xf) as usize;
        match (word >> 20 & 0xff, self.lower.get_mut(register)) {
            (0x30, Some(lower)) => *lower = constant,
            (0x34, Some(lower)) => self.addresses.push(constant << 16 | *lower),
            _ => {}
        }
    }
}

/// The same ranges in order, of which no two overlap.
fn merged(mut ranges: Vec<Range<u32>>) -> Vec<Range<u32>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u32>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

#[cfg(test)]
mod tests;
