//! Pages of an image's unused range for code that needs nothing but itself.
//!
//! Trampolines that use the virtual CPU's page lie in triples of pages, which are filled first, from
//! the range's start. The pages here follow them. Each begins with [`HEADER`], by which a scan
//! recognizes it.
//!
//! Nothing in these pages looks like an instruction that User mode would execute otherwise: the
//! hypervisor looks at all code before it is executed, and they would be slow if it had doubts.

use super::Reserved;
use crate::bytes::word;
use crate::flow::memory::Memory;
use crate::refusal::{Refusal, Result};
use hanok_abi::trampoline::PAGE;
use hanok_proof::is_part_of_doubt;
use std::ops::Range;

/// The first words of each page.
const HEADER: [u32; 3] = [0x4f4e_4148, 0x4f43_204b, 0x3031_4544]; // "HANOK CODE10"
/// The number of words in a page.
const WORDS: usize = PAGE as usize / 4;
/// The number of words that are left free at most to find a place for code.
const MOST_SKIPPED: usize = 64;

/// The pages that are being filled.
#[derive(Debug)]
pub(crate) struct PlainPages {
    /// The addresses that may be used, of whole pages.
    range: Range<u32>,
    /// The offset in the file of the range's start.
    offset: usize,
    /// The pages, one behind the other from the range's start.
    pages: Vec<[u32; WORDS]>,
    /// The number of words of the last one of `pages` that are taken.
    taken: usize,
}

/// How much of the pages was taken at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pages: usize,
    taken: usize,
}

impl PlainPages {
    /// No pages yet. They will be from `range`, which begins at `offset` of the file.
    pub(crate) const fn new(range: Range<u32>, offset: usize) -> Self {
        Self {
            range,
            offset,
            pages: Vec::new(),
            taken: WORDS,
        }
    }

    /// How much is taken now.
    pub(crate) fn filled(&self) -> Filled {
        Filled {
            pages: self.pages.len(),
            taken: self.taken,
        }
    }

    /// Gives back what was taken since `filled`.
    pub(crate) fn give_back(&mut self, filled: Filled) {
        self.pages.truncate(filled.pages);
        self.taken = filled.taken;
        if let Some(page) = self.pages.last_mut() {
            page.iter_mut()
                .skip(filled.taken)
                .for_each(|word| *word = 0);
        }
    }

    /// Puts code where `make` can make it, without a doubtful word. `make` gets the address, and a
    /// number below `variants`, with which it may make other code that does the same. `None` if
    /// there is no such place.
    pub(crate) fn place<T>(
        &mut self,
        variants: u32,
        make: impl Fn(u32, u32) -> Option<(T, Vec<u32>)>,
    ) -> Option<T> {
        let before = self.filled();
        for skipped in 0..MOST_SKIPPED {
            for variant in 0..variants {
                if let Some(made) = self.place_after(skipped, |at| make(at, variant)) {
                    return Some(made);
                }
                self.give_back(before);
            }
        }
        None
    }

    fn place_after<T>(
        &mut self,
        skipped: usize,
        make: impl Fn(u32) -> Option<(T, Vec<u32>)>,
    ) -> Option<T> {
        let room = WORDS - self.taken;
        if room <= skipped {
            self.add_page()?;
            self.taken += skipped - room;
        } else {
            self.taken += skipped;
        }
        let (made, words) = make(self.next()?)?;
        if self.taken + words.len() > WORDS {
            return None;
        }
        let first = self.taken;
        let page = self.pages.last_mut()?;
        page.get_mut(first..first + words.len())?
            .copy_from_slice(&words);
        self.taken += words.len();
        let sound = (first..self.taken).all(|number| !is_doubt(page, number));
        sound.then_some(made)
    }

    /// The address behind what is taken.
    fn next(&self) -> Option<u32> {
        let before = u32::try_from(self.pages.len().checked_sub(1)?).ok()?;
        let page = self.range.start.checked_add(before.checked_mul(PAGE)?)?;
        page.checked_add(4 * self.taken as u32)
    }

    fn add_page(&mut self) -> Option<()> {
        let pages = self.pages.len() as u32 + 1;
        if pages.checked_mul(PAGE)? as usize > self.range.len() {
            return None;
        }
        let mut page = [0; WORDS];
        page.get_mut(..HEADER.len())?.copy_from_slice(&HEADER);
        self.pages.push(page);
        self.taken = HEADER.len();
        Some(())
    }

    /// Puts the pages into the file, if there are any.
    pub(crate) fn close(self, bytes: &mut [u8]) -> Result<Option<Reserved>> {
        if self.pages.is_empty() {
            return Ok(None);
        }
        let len = self.pages.len() as u32 * PAGE;
        let (address, offset) = (self.range.start, self.offset);
        let there = bytes.get_mut(offset..offset.saturating_add(len as usize));
        let there = there.filter(|there| there.iter().all(|byte| *byte == 0));
        let there = there.ok_or_else(|| {
            Refusal::damaged("there is something where its moved instructions would be")
        })?;
        let words = self.pages.iter().flatten();
        for (to, word) in there.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Ok(Some(Reserved {
            offset,
            address,
            len,
            appended: false,
            plain: true,
        }))
    }
}

/// Whether the word with this number is a part of what looks like another instruction.
fn is_doubt(page: &[u32], number: usize) -> bool {
    let word = |number: usize| page.get(number).copied();
    let before = number.checked_sub(1).and_then(word);
    word(number).is_some_and(|is| is_part_of_doubt(before, is, word(number + 1)))
}

/// Finds the pages of a rewritten image, as ranges of neighbours.
pub(super) fn written(memory: Memory<'_>) -> Vec<Range<u32>> {
    let mut found: Vec<Range<u32>> = Vec::new();
    let first = memory.base.next_multiple_of(PAGE);
    for page in (first..memory.address(memory.bytes.len())).step_by(PAGE as usize) {
        let begins = |offset: usize| {
            let mut header = HEADER.iter().enumerate();
            header.all(|(n, is)| word(memory.bytes, offset + 4 * n) == Some(*is))
        };
        if !memory.offset(page).is_some_and(begins) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.end == page => last.end = page.saturating_add(PAGE),
            _ => found.push(page..page.saturating_add(PAGE)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u32 = 0x8000_2000;
    const MOV: u32 = 0xe1a0_0001;

    fn pages(number: u32) -> PlainPages {
        PlainPages::new(START..START + number * PAGE, 0x1000)
    }

    /// Places `len` words, and returns their address.
    fn place(pages: &mut PlainPages, len: usize) -> Option<u32> {
        pages.place(1, |at, _| Some((at, vec![MOV; len])))
    }

    #[test]
    fn pages_are_filled_one_after_the_other() {
        let mut pages = pages(2);
        let first = START + 4 * HEADER.len() as u32;
        assert_eq!(place(&mut pages, 1000), Some(first));
        assert_eq!(place(&mut pages, 21), Some(first + 4000), "the last words");
        assert_eq!(place(&mut pages, 1), Some(first + PAGE));
        assert_eq!(place(&mut pages, 1020), Some(first + PAGE + 4));
        assert_eq!(place(&mut pages, 1), None, "all is taken");
        let mut file = vec![0; 0x4000];
        let area = pages.close(&mut file).expect("free").expect("an area");
        assert_eq!(
            (area.offset, area.address, area.len),
            (0x1000, START, 2 * PAGE)
        );
        let memory = Memory {
            bytes: &file,
            base: START - 0x1000,
        };
        let range = START..START + 2 * PAGE;
        assert_eq!(written(memory), std::slice::from_ref(&range));
        let words = file[0x1000..0x3000].chunks_exact(4);
        assert_eq!(
            words.filter(|word| **word == MOV.to_le_bytes()).count(),
            2042
        );
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let mut pages = pages(2);
        place(&mut pages, 1000).expect("room");
        let before = pages.filled();
        let at = place(&mut pages, 20).expect("room");
        place(&mut pages, 100).expect("another page");
        pages.give_back(before);
        assert_eq!(pages.pages.len(), 1);
        assert_eq!(place(&mut pages, 20), Some(at));
    }

    #[test]
    fn no_page_has_a_doubtful_word() {
        let mut pages = pages(1);
        // CPSID of T32 is half of it, unless it is at the fifth place that is tried.
        let made = pages.place(1, |at, _| {
            let fifth = START + 4 * (HEADER.len() as u32 + 4);
            let word = if at == fifth { MOV } else { 0xe1a0_b672 };
            Some((at, vec![word]))
        });
        assert_eq!(made, Some(START + 28));
        // By another variant.
        let made = pages.place(2, |at, variant| {
            Some(((at, variant), vec![[0xe1a0_b672, MOV][variant as usize]]))
        });
        assert_eq!(made, Some((START + 32, 1)));
        assert!(
            pages
                .place(1, |at, _| Some((at, vec![0xe1a0_b672])))
                .is_none()
        );
        for page in &pages.pages {
            assert!((0..WORDS).all(|number| !is_doubt(page, number)));
        }
    }

    #[test]
    fn what_is_not_free_in_the_file_is_refused() {
        let mut pages = pages(1);
        place(&mut pages, 1).expect("room");
        assert!(pages.close(&mut [1; 0x4000]).is_err());
        assert!(
            super::PlainPages::new(START..START, 0)
                .close(&mut [])
                .expect("none")
                .is_none()
        );
    }
}
