//! The guest's changes of its tables: a hypercall before an invalidation makes one.

use super::Rng;
use super::image::{ALIAS, LEAVES, leaf, own};
use crate::board::{RAM, word_of};
use crate::lockstep::Both;
use hanok_decode::aarch32::Encoding;

const NOT_GLOBAL: u32 = 1 << 11;

/// Changes a page of the guest's tables, if the next instruction invalidates it then.
pub fn edit<const ROOTS: usize, const TABLES: usize>(
    both: &mut Both<ROOTS, TABLES>,
    rng: &mut Rng,
) {
    let Ok(Encoding::A32(next) | Encoding::Wide(next)) = both.native.fetch() else {
        return;
    };
    let number = rng.below(3) as usize;
    let page = rng.one(&[1, 2, 3, 4, 5, 8, 9, 10, 11]);
    let at = (if number == 2 { ALIAS } else { RAM }) + page * 4096;
    let word = word_of(u64::from(LEAVES[number] + page * 4)).expect("a table");
    let pc = both.native.registers.pc;
    if pc >> 12 == at >> 12 || both.guest.has_executed(word) {
        return;
    }
    let old = both.native.memory.words[word];
    let to = RAM + rng.one(&[1, 2, 3, 4, 5, 8, 9, 10, 11, page, page]) * 4096;
    let new = if rng.once_in(8) {
        0
    } else {
        leaf(rng, to, false) | own(number)
    };
    let global = old & new & NOT_GLOBAL == 0;
    let fine = match next {
        0xee08_0f17 | 0xee08_0f77 => true,
        // Of one ASID.
        0xee08_0f37 => old & NOT_GLOBAL == 0 && (new == 0 || global),
        _ => false,
    };
    if !fine {
        return;
    }
    both.guest.leave();
    both.native.memory.words[word] = new;
    both.guest.board.put(word, new);
    let asid = both
        .native
        .cpu
        .system(hanok_cpu32::SystemRegister::Contextidr)
        & 0xff;
    both.native.registers.general[0] = at | asid;
    both.guest.monitor.registers.general[0] = at | asid;
}
