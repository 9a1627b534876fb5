//! Room for trampolines in a kernel's image.
//!
//! A kernel whose text is protected begins it at a megabyte of its own
//! (CONFIG_STRICT_KERNEL_RWX), so that nearly a megabyte of nothing lies in the image between
//! its head and its text: 247 pages of Debian's. Linux gives that memory away once it runs, so
//! the guest's device tree has to reserve it (`reserved` in the side file), and the hypervisor
//! maps the virtual CPU's page over every page of it that is an alias.

use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use crate::refusal::Result;
use hanok_abi::trampoline::{CODE, HEADER, PAGE, TO_CODE, TRIPLE, Template, enter, room};
use hanok_decode::aarch32::Encoding;
use std::ops::Range;

use super::write;

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

/// A room that is being filled.
pub(super) struct Room {
    /// Where it begins, and where it could end.
    range: Range<u32>,
    /// Where in the file it begins.
    offset: usize,
    /// Where the next trampoline can begin.
    next: u32,
    /// Where the last one ends, but for those in gaps.
    used: u32,
    /// What was left free before it, where a trampoline could not begin.
    gaps: Vec<Range<u32>>,
}

/// So many gaps are looked at: the last ones, since earlier ones are full.
const GAPS: usize = 8;

/// What of a room is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// Where in the file.
    pub offset: usize,
    /// Where in memory.
    pub address: u32,
    /// How many bytes: triples of pages, the virtual CPU's, code, the virtual CPU's.
    pub len: u32,
}

impl Room {
    pub(super) fn new(range: Range<u32>, base: u32) -> Self {
        Self {
            offset: range.start.wrapping_sub(base) as usize,
            next: range.start.wrapping_add(TO_CODE + CODE.start),
            used: range.start,
            gaps: Vec::new(),
            range,
        }
    }

    /// The place of a trampoline of `template`, which is taken: in a gap, or behind the last one.
    fn take(&mut self, template: &Template) -> Option<u32> {
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
        if plain >= self.range.end {
            return None;
        }
        self.gap(self.next..at);
        self.next = at + len;
        self.used = self.next;
        Some(at)
    }

    fn gap(&mut self, gap: Range<u32>) {
        if gap.end.saturating_sub(gap.start) >= 8 {
            self.gaps.push(gap);
            let most = self.gaps.len().saturating_sub(GAPS);
            self.gaps.drain(..most);
        }
    }

    /// Writes a trampoline for `word` at `site`, and gives the branch that leads there; `None`
    /// where there is no room, or it is too far.
    pub(super) fn place(
        &mut self,
        bytes: &mut [u8],
        template: &Template,
        word: u32,
        site: u32,
    ) -> Result<Option<u32>> {
        let Some(at) = self.take(template) else {
            return Ok(None);
        };
        let words = (0..template.len()).map(|number| template.word(number, at, site));
        let (Some(words), Some(entry)) = (words.collect::<Option<Vec<_>>>(), enter(word, site, at))
        else {
            return Ok(None);
        };
        for (n, word) in words.iter().enumerate() {
            self.put(bytes, at.wrapping_add(4 * n as u32), *word)?;
        }
        Ok(Some(entry))
    }

    fn put(&self, bytes: &mut [u8], at: u32, word: u32) -> Result<()> {
        let offset = self.offset + at.wrapping_sub(self.range.start) as usize;
        write(bytes, offset, Encoding::A32(word))
    }

    /// Writes the header; what was used, if anything was.
    pub(super) fn close(self, bytes: &mut [u8]) -> Result<Option<Reserved>> {
        let first = self.range.start.wrapping_add(TO_CODE);
        if self.used == self.range.start {
            return Ok(None);
        }
        let used = (self.used - self.range.start).next_multiple_of(TRIPLE);
        let header = HEADER.into_iter().chain([used / TRIPLE]);
        for (n, word) in header.enumerate() {
            self.put(bytes, first.wrapping_add(4 * n as u32), word)?;
        }
        Ok(Some(Reserved {
            offset: self.offset,
            address: self.range.start,
            len: used,
        }))
    }
}
