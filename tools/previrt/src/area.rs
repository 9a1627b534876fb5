//! Memory areas for trampolines: found in a kernel's image, or appended behind a program's end.
//!
//! A kernel whose text is protected begins its text at a megabyte boundary
//! (CONFIG_STRICT_KERNEL_RWX), so that nearly a megabyte of the image between its head and its text
//! is unused: 247 pages of Debian's kernel. Where no such range is found, or it is full or too far
//! away, memory behind the program's end is used ([`crate::patch`]), which becomes part of the
//! file.
//!
//! In both cases the guest takes this memory for free memory. So the guest's device tree has to
//! reserve it (`reserved` in the side file), and the hypervisor maps the virtual CPU's page over
//! every page of it that is an alias.

mod plain;

pub(crate) use plain::PlainPages;

use crate::bytes::word;
use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use crate::refusal::{Refusal, Result};
use hanok_abi::trampoline::{CODE, HEADER, PAGE, Room, TO_CODE, TRIPLE, Template, room};
use hanok_decode::aarch32::Encoding;
use hanok_proof::is_part_of_doubt;
use std::ops::Range;

/// Finds the unused range in an image: the zeros before `_stext`, as whole pages.
pub(crate) fn unused(memory: Memory<'_>, symbols: &[Symbol], marks: &Marks) -> Option<Range<u32>> {
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

/// The number of triples of an area whose first code page has these words.
fn triples(word: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let found = room([word(0)?, word(1)?, word(2)?, word(3)?, word(4)?]);
    found.map(|room| room.triples)
}

/// Finds the areas of a rewritten image by their headers.
pub(crate) fn written(memory: Memory<'_>) -> Vec<Range<u32>> {
    let first = memory.base.next_multiple_of(PAGE);
    let pages = (first..memory.address(memory.bytes.len())).step_by(PAGE as usize);
    let found = pages.filter_map(|page| {
        let word = |n: u32| memory.word(page.wrapping_add(4 * n));
        let triples = triples(word)?;
        let start = page.checked_sub(TO_CODE)?;
        Some(start..start.checked_add(triples.checked_mul(TRIPLE)?)?)
    });
    found.chain(plain::written(memory)).collect()
}

/// The area that fills a section; `None` if the section holds no area.
pub(crate) fn whole(address: u32, content: &[u8]) -> Option<Range<u32>> {
    let memory = Memory {
        bytes: content,
        base: address,
    };
    let word = |n: u32| memory.word(address.wrapping_add(TO_CODE + 4 * n));
    let triples = triples(word)?;
    let end = address.checked_add(triples.checked_mul(TRIPLE)?)?;
    (content.len() == (end - address) as usize).then_some(address..end)
}

/// Memory in which trampolines can be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeArea {
    /// The addresses, of whole pages.
    pub(crate) range: Range<u32>,
    /// The offset in the file at which it begins.
    pub(crate) offset: usize,
    /// Whether it is appended behind the file's end.
    pub(crate) appended: bool,
}

/// An area that is being filled.
pub(super) struct Area {
    free: FreeArea,
    space: Space,
    /// The area's content so far.
    code: Vec<u8>,
    /// How many triples, the first ones, have doorbells that are written.
    doorbells: u32,
    /// [`Room::foresees`].
    foresees: bool,
}

/// Which part of an area is taken.
#[derive(Clone)]
struct Space {
    /// The address from which on nothing is taken.
    next: u32,
    /// The free ranges in front of that address, in which some trampoline could not begin.
    gaps: Vec<Range<u32>>,
}

/// The number of gaps that are kept: the latest ones, since earlier ones are nearly full.
const GAPS: usize = 8;

/// An area that holds trampolines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// The area's offset in the file.
    pub offset: usize,
    /// The area's address in memory.
    pub address: u32,
    /// The area's size in bytes. Unless it is `plain`, it consists of triples of pages: an alias of
    /// the virtual CPU's page, code, another alias.
    pub len: u32,
    /// Whether it was appended behind the file's end.
    pub appended: bool,
    /// Whether all of its pages are code that uses no alias of the virtual CPU's page.
    pub plain: bool,
}

/// A trampoline to be placed.
pub(super) struct Placement<'a> {
    /// The instructions that it consists of.
    pub(super) template: &'a Template,
    /// The address of the site that it belongs to.
    pub(super) site: u32,
    /// Makes the branch from the site to an address; `None` where a branch does not reach.
    pub(super) enter: &'a dyn Fn(u32) -> Option<Encoding>,
}

impl Placement<'_> {
    /// The trampoline's words at an address; `None` if something is out of reach from there.
    fn words(&self, at: u32) -> Option<Vec<u32>> {
        let numbers = 0..self.template.len();
        let words = numbers.map(|number| self.template.word(number, at, self.site));
        words.collect()
    }
}

impl Space {
    /// Takes space for a trampoline of `template`, in a gap or behind the last one, and returns its
    /// address, which `suits`.
    fn take(
        &mut self,
        template: &Template,
        limit: u32,
        suits: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let len = 4 * template.len() as u32;
        let find = |range: &Range<u32>| {
            let fits = |at: &u32| at.checked_add(len).is_some_and(|end| end <= range.end);
            let places = range.clone().step_by(4);
            let mut starts = places.map(|place| template.start(place)).take_while(fits);
            starts.find(|at| suits(*at))
        };
        let mut gaps = self.gaps.iter().enumerate().rev();
        if let Some((number, at)) = gaps.find_map(|(number, gap)| Some((number, find(gap)?))) {
            let gap = self.gaps.remove(number);
            self.gap(gap.start..at);
            self.gap(at + len..gap.end);
            return Some(at);
        }
        let page = self.next & !(PAGE - 1);
        let end = page.checked_add(CODE.end)?;
        let at = match find(&(self.next..end)) {
            Some(at) => at,
            None => {
                self.gap(self.next..end);
                self.next = page.checked_add(TRIPLE + CODE.start)?;
                find(&(self.next..self.next.checked_add(CODE.len() as u32)?))?
            }
        };
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

impl Area {
    pub(super) fn new(free: FreeArea, foresees: bool) -> Self {
        let space = Space {
            next: free.range.start.wrapping_add(TO_CODE + CODE.start),
            gaps: Vec::new(),
        };
        Self {
            free,
            space,
            code: Vec::new(),
            doorbells: 0,
            foresees,
        }
    }

    /// Takes the first triple, so that the area exists even without any trampoline. Answers whether there is room.
    pub(super) fn begin(&mut self) -> bool {
        let fits = self.free.range.len() >= TRIPLE as usize;
        if fits {
            self.code.resize(TRIPLE as usize, 0);
        }
        fits
    }

    /// The address at which the area's last page ends that holds a trampoline or an alias for it.
    pub(super) fn end(&self) -> u32 {
        self.free.range.start.wrapping_add(self.code.len() as u32)
    }

    /// Writes a trampoline, and returns the branch that leads there. `None` where no space is left,
    /// or the space is too far away.
    pub(super) fn place(&mut self, wanted: &Placement<'_>) -> Option<Encoding> {
        let limit = self.free.range.end;
        let mut space = self.space.clone();
        let sound = space.take(wanted.template, limit, |at| self.is_sound(wanted, at));
        let at = sound.or_else(|| {
            space = self.space.clone();
            space.take(wanted.template, limit, |_| true)
        })?;
        let (words, entry) = (wanted.words(at)?, (wanted.enter)(at)?);
        for (n, word) in words.iter().enumerate() {
            self.put(at.wrapping_add(4 * n as u32), *word)?;
        }
        self.space = space;
        if wanted.template.rings() {
            let triple = at.wrapping_sub(self.free.range.start) / TRIPLE;
            self.doorbells = self.doorbells.max(triple + 1);
        }
        Some(entry)
    }

    /// Whether no word of a trampoline at `at` looks like an instruction that User mode executes wrongly: the
    /// hypervisor lets such a page run alone, so that each use of a trampoline in it costs more than a trap.
    fn is_sound(&self, wanted: &Placement<'_>, at: u32) -> bool {
        let Some(words) = wanted.words(at) else {
            return true;
        };
        let behind = at.wrapping_add(4 * words.len() as u32);
        let mut all = vec![self.word(at.wrapping_sub(4))];
        all.extend(words.into_iter().map(Some));
        all.push(self.word(behind));
        all.windows(3).all(|three| match *three {
            [before, Some(word), behind] => !is_part_of_doubt(before, word, behind),
            _ => true,
        })
    }

    /// The word at an address of the content so far.
    fn word(&self, at: u32) -> Option<u32> {
        word(&self.code, at.checked_sub(self.free.range.start)? as usize)
    }

    /// Writes a word, and extends the content by whole triples of pages if it is beyond.
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

    /// Puts the area with its header into the file, if it holds any trampoline. An appended area is
    /// put behind the file's end.
    pub(super) fn close(mut self, bytes: &mut Vec<u8>) -> Result<Option<Reserved>> {
        if self.code.is_empty() {
            return Ok(None);
        }
        let len = self.code.len() as u32;
        let first = self.free.range.start.wrapping_add(TO_CODE);
        let room = Room {
            triples: len / TRIPLE,
            doorbells: self.doorbells,
            foresees: self.foresees,
        };
        let header = HEADER.into_iter().chain(room.words());
        for (n, word) in header.enumerate() {
            self.put(first.wrapping_add(4 * n as u32), word);
        }
        let FreeArea {
            range,
            offset,
            appended,
        } = self.free;
        if appended && offset >= bytes.len() {
            bytes.resize(offset, 0);
            bytes.extend(&self.code);
        } else {
            let end = offset.checked_add(self.code.len());
            let there = end.and_then(|end| bytes.get_mut(offset..end));
            let there = there.filter(|there| !appended && there.iter().all(|byte| *byte == 0));
            let beyond = || Refusal::damaged("there is something where its trampolines would be");
            there.ok_or_else(beyond)?.copy_from_slice(&self.code);
        }
        Ok(Some(Reserved {
            offset,
            address: range.start,
            len,
            appended,
            plain: false,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_abi::trampoline::{Free, branch, enter};

    const START: u32 = 0x8000_0000;
    /// Where the first trampoline is.
    const FIRST: u32 = START + TO_CODE + CODE.start;
    /// MRS of SPSR to R0, whose trampoline is LDR and B.
    const MRS: u32 = 0xe14f_0000;

    /// An area in which these sites got trampolines, one after the other, and where the last one's is.
    fn placed(sites: &[u32]) -> (Area, u32) {
        let mut area = Area::new(
            FreeArea {
                range: START..START + 2 * TRIPLE,
                offset: 0,
                appended: false,
            },
            false,
        );
        let template = Template::of(MRS, Free::default()).expect("it has one");
        let mut last = 0;
        for site in sites {
            let enter = |at| enter(MRS, *site, at).map(Encoding::A32);
            let wanted = Placement {
                template: &template,
                site: *site,
                enter: &enter,
            };
            let entry = area.place(&wanted).expect("there is room").bits();
            last = hanok_abi::trampoline::branch_target(entry, *site).expect("a branch");
        }
        (area, last)
    }

    #[test]
    fn no_branch_back_looks_like_an_instruction_of_t32() {
        let site = |low: u32| FIRST + 8 + 4 * low;
        let back = |low: u32| branch(0xe000_0000, FIRST + 4, site(low) + 4);
        // CPSID I; a word further CPSID F, and two words further nothing.
        assert_eq!(back(0xb672), Some(0xea00_b672));
        assert_eq!(placed(&[site(0xb672)]).1, FIRST + 8);
        assert_eq!(placed(&[site(0xb65f)]).1, FIRST);
        // What was passed over is used by the next one.
        let (area, next) = placed(&[site(0xb672), site(0)]);
        assert_eq!(next, FIRST);
        let words = (FIRST..FIRST + 0x80).step_by(4);
        let words: Vec<_> = words.map(|at| area.word(at)).collect();
        for three in words.windows(3) {
            assert!(!is_part_of_doubt(
                three[0],
                three[1].expect("a word"),
                three[2]
            ));
        }
    }
}
