//! The guest's changes of its tables: a hypercall before an invalidation makes one.

use super::Rng;
use super::image::{ALIAS, LEAVES, leaf, own};
use crate::board::{RAM, word_of};
use crate::guest::Guest;
use crate::native::Native;
use hanok_decode::aarch32::Encoding;

const NOT_GLOBAL: u32 = 1 << 11;

/// A page of the guest's tables is to become another one.
pub struct Change {
    at: u32,
    word: usize,
    new: u32,
}

impl Change {
    /// A change, if the next instruction invalidates its page then, on all CPUs; `others` are the PCs of others.
    pub fn of<const ROOTS: usize, const TABLES: usize>(
        native: &Native,
        guest: &Guest<ROOTS, TABLES>,
        others: &[u32],
        rng: &mut Rng,
    ) -> Option<Self> {
        let Ok(Encoding::A32(next) | Encoding::Wide(next)) = native.fetch() else {
            return None;
        };
        let number = rng.below(3) as usize;
        let page = rng.one(&[1, 2, 3, 4, 5, 8, 9, 10, 11]);
        let at = (if number == 2 { ALIAS } else { RAM }) + page * 4096;
        let word = word_of(u64::from(LEAVES[number] + page * 4)).expect("a table");
        let is_there = |pc: u32| pc >> 12 == at >> 12;
        let pc = native.registers.pc;
        if is_there(pc) || others.iter().any(|pc| is_there(*pc)) || guest.has_executed(word) {
            return None;
        }
        let old = native.memory.words[word];
        let to = RAM + rng.one(&[1, 2, 3, 4, 5, 8, 9, 10, 11, page, page]) * 4096;
        let new = if rng.once_in(8) {
            0
        } else {
            leaf(rng, to, false) | own(number)
        };
        let global = old & new & NOT_GLOBAL == 0;
        let local = others.is_empty();
        let fine = match next {
            0xee08_0f17 | 0xee08_0f77 => local,
            0xee08_0f13 | 0xee08_0f73 => true,
            // Of one ASID.
            0xee08_0f37 => local && old & NOT_GLOBAL == 0 && (new == 0 || global),
            0xee08_0f33 => old & NOT_GLOBAL == 0 && (new == 0 || global),
            _ => false,
        };
        fine.then_some(Self { at, word, new })
    }

    pub fn make<const ROOTS: usize, const TABLES: usize>(
        self,
        native: &mut Native,
        guest: &mut Guest<ROOTS, TABLES>,
    ) {
        guest.leave();
        native.memory.words[self.word] = self.new;
        guest.board.put(self.word, self.new);
        let asid = native.cpu.system(hanok_cpu32::SystemRegister::Contextidr) & 0xff;
        native.registers.general[0] = self.at | asid;
        guest.monitor.registers.general[0] = self.at | asid;
    }
}
