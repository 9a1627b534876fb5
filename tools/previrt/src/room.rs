//! Room for trampolines: found in a kernel's image, or made behind what a program has.
//!
//! A kernel whose text is protected begins it at a megabyte of its own
//! (CONFIG_STRICT_KERNEL_RWX), so that nearly a megabyte of nothing lies in the image between
//! its head and its text: 247 pages of Debian's. Where nothing is found, or it is full, or too
//! far, there is memory behind the program's end ([`crate::patch`]), which becomes part of the
//! file.
//!
//! Either way it is memory that the guest takes for free, so the guest's device tree has to
//! reserve it (`reserved` in the side file), and the hypervisor maps the virtual CPU's page over
//! every page of it that is an alias.

use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use crate::refusal::{Refusal, Result};
use hanok_abi::trampoline::{CODE, HEADER, PAGE, TO_CODE, TRIPLE, Template, room};
use hanok_decode::aarch32::Encoding;
use std::ops::Range;

/// Where nothing is: the zeros before `_stext`, as whole pages.
pub(crate) fn empty(memory: Memory<'_>, symbols: &[Symbol], marks: &Marks) -> Option<Range<u32>> {
    let text = symbols.iter().find(|symbol| symbol.name == "_stext")?;
    let end = memory.offset(text.address & !(PAGE - 1))?;
    let before = memory.bytes.get(..end)?;
    let used = before.iter().rposition(|byte| *byte != 0)? + 1;
    let known = marks.iter(used..end).rev();
    let used = known
        .filter(|(_, mark)| *mark != Mark::Unknown)
        .map(|(offset, _)| offset + 2)
        .next()
        .unwrap_or(used);
    let start = memory.address(used).checked_next_multiple_of(PAGE)?;
    let end = memory.address(end);
    (start < end).then_some(start..end)
}

/// Rooms that were written, by their headers.
pub(crate) fn written(memory: Memory<'_>) -> Vec<Range<u32>> {
    let first = memory.base.next_multiple_of(PAGE);
    let pages = (first..memory.address(memory.bytes.len())).step_by(PAGE as usize);
    let found = pages.filter_map(|page| {
        let word = |n: u32| memory.word(page.wrapping_add(4 * n));
        let triples = room([word(0)?, word(1)?, word(2)?, word(3)?])?;
        let start = page.checked_sub(TO_CODE)?;
        Some(start..start.checked_add(triples.checked_mul(TRIPLE)?)?)
    });
    found.collect()
}

/// The room that is all of a section, if it is one.
pub(crate) fn whole(address: u32, content: &[u8]) -> Option<Range<u32>> {
    let memory = Memory {
        bytes: content,
        base: address,
    };
    let word = |n: u32| memory.word(address.wrapping_add(TO_CODE + 4 * n));
    let triples = room([word(0)?, word(1)?, word(2)?, word(3)?])?;
    let end = address.checked_add(triples.checked_mul(TRIPLE)?)?;
    (content.len() == (end - address) as usize).then_some(address..end)
}

/// Where trampolines can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    /// As addresses, of whole pages.
    pub(crate) range: Range<u32>,
    /// Where in the file it begins.
    pub(crate) offset: usize,
    /// Whether it is behind the file's end.
    pub(crate) made: bool,
}

/// A room that is being filled.
pub(super) struct Room {
    free: Free,
    space: Space,
    /// What it holds.
    code: Vec<u8>,
}

/// What of a room is taken.
#[derive(Clone)]
struct Space {
    /// Where the next trampoline can begin.
    next: u32,
    /// What was left free before it, where a trampoline could not begin.
    gaps: Vec<Range<u32>>,
}

/// So many gaps are looked at: the last ones, since earlier ones are full.
const GAPS: usize = 8;

/// A room that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// Where in the file.
    pub offset: usize,
    /// Where in memory.
    pub address: u32,
    /// How many bytes: triples of pages, the virtual CPU's, code, the virtual CPU's.
    pub len: u32,
    /// Whether it was put behind the file's end.
    pub made: bool,
}

/// A trampoline to be placed.
pub(super) struct Wanted<'a> {
    /// What it consists of.
    pub(super) template: &'a Template,
    /// Whose it is.
    pub(super) site: u32,
    /// The branch from the site to an address, where that reaches.
    pub(super) enter: &'a dyn Fn(u32) -> Option<Encoding>,
}

impl Space {
    /// The place of a trampoline of `template`, which is taken: in a gap, or behind the last one.
    fn take(&mut self, template: &Template, limit: u32) -> Option<u32> {
        let len = 4 * template.len() as u32;
        let fits = |gap: &Range<u32>| {
            let end = template.start(gap.start).checked_add(len);
            end.is_some_and(|end| end <= gap.end)
        };
        if let Some(number) = self.gaps.iter().rposition(fits) {
            let gap = self.gaps.remove(number);
            let at = template.start(gap.start);
            self.gap(gap.start..at);
            self.gap(at + len..gap.end);
            return Some(at);
        }
        let mut at = template.start(self.next);
        let page = self.next & !(PAGE - 1);
        let end = page.checked_add(CODE.end)?;
        if at.checked_add(len)? > end {
            self.gap(self.next..end);
            self.next = page.checked_add(TRIPLE + CODE.start)?;
            at = template.start(self.next);
        }
        let plain = (at & !(PAGE - 1)).checked_add(PAGE)?;
        if plain >= limit {
            return None;
        }
        self.gap(self.next..at);
        self.next = at + len;
        Some(at)
    }

    fn gap(&mut self, gap: Range<u32>) {
        if gap.end.saturating_sub(gap.start) >= 8 {
            self.gaps.push(gap);
            let most = self.gaps.len().saturating_sub(GAPS);
            self.gaps.drain(..most);
        }
    }
}

impl Room {
    pub(super) fn new(free: Free) -> Self {
        let space = Space {
            next: free.range.start.wrapping_add(TO_CODE + CODE.start),
            gaps: Vec::new(),
        };
        Self {
            free,
            space,
            code: Vec::new(),
        }
    }

    /// Writes a trampoline, and gives the branch that leads there; `None` where there is no
    /// room, or it is too far.
    pub(super) fn place(&mut self, wanted: &Wanted<'_>) -> Option<Encoding> {
        let Wanted {
            template,
            site,
            enter,
        } = wanted;
        let mut space = self.space.clone();
        let at = space.take(template, self.free.range.end)?;
        let words = (0..template.len()).map(|number| template.word(number, at, *site));
        let (words, entry) = (words.collect::<Option<Vec<_>>>()?, enter(at)?);
        for (n, word) in words.iter().enumerate() {
            self.put(at.wrapping_add(4 * n as u32), *word)?;
        }
        self.space = space;
        Some(entry)
    }

    /// Writes a word, in a triple that is whole.
    fn put(&mut self, at: u32, word: u32) -> Option<()> {
        let place = at.checked_sub(self.free.range.start)? as usize;
        let end = place.checked_add(4)?;
        if end > self.code.len() {
            self.code.resize(end.next_multiple_of(TRIPLE as usize), 0);
        }
        self.code
            .get_mut(place..end)?
            .copy_from_slice(&word.to_le_bytes());
        Some(())
    }

    /// Puts it into the file with its header, if anything is in it. Of a room that was made all is
    /// behind what the file had.
    pub(super) fn close(mut self, bytes: &mut Vec<u8>) -> Result<Option<Reserved>> {
        if self.code.is_empty() {
            return Ok(None);
        }
        let len = self.code.len() as u32;
        let first = self.free.range.start.wrapping_add(TO_CODE);
        let header = HEADER.into_iter().chain([len / TRIPLE]);
        for (n, word) in header.enumerate() {
            self.put(first.wrapping_add(4 * n as u32), word);
        }
        let Free {
            range,
            offset,
            made,
        } = self.free;
        if made && offset >= bytes.len() {
            bytes.resize(offset, 0);
            bytes.extend(&self.code);
        } else {
            let end = offset.checked_add(self.code.len());
            let there = end.and_then(|end| bytes.get_mut(offset..end));
            let there = there.filter(|there| !made && there.iter().all(|byte| *byte == 0));
            let beyond = || Refusal::damaged("there is something where its trampolines would be");
            there.ok_or_else(beyond)?.copy_from_slice(&self.code);
        }
        Ok(Some(Reserved {
            offset,
            address: range.start,
            len,
            made,
        }))
    }
}
