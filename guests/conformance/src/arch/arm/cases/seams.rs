//! T32 instructions that lie across two pages, beside words that look like instructions of the kernel's alone.

use crate::arch::code::synchronize;
use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub const CASES: &[Case] = &[
    case("t32-across-pages", 1, across_pages),
    case("t32-exclusive-pages", 1, exclusive_pages),
];

/// The words of a page.
const PAGE: usize = 1024;
/// A32 CPSID i, which nobody reaches, and a word that is the same in every mode.
const WORDS: [u32; 2] = [0xf10c_0080, 0x4040_4040];
/// What is loaded relative to the PC.
const LITERAL: u32 = 0xe121_f000;

#[repr(C, align(4096))]
struct Pages([AtomicU32; 2 * PAGE]);

static PAGES: Pages = Pages([const { AtomicU32::new(0) }; 2 * PAGE]);

/// What stands in front of the instruction, the instruction, and R0 behind it, which was 5 before; R1 was 3.
const FORMS: [([u16; 2], [u16; 2], u32); 9] = [
    ([0xbf00, 0xbf00], [0xf241, 0x2034], 0x1234), // movw r0, #0x1234
    ([0xbf00, 0xbf00], [0xeb00, 0x0001], 8),      // add r0, r0, r1
    ([0xbf00, 0xbf00], [0xf8df, 0x0008], LITERAL), // ldr r0, [pc, #8]
    ([0xbf00, 0xbf00], [0xf83f, 0x000a], 0x2103), // ldrh r0, [pc, #-10]
    ([0xbf00, 0xbf00], [0xf000, 0xb801], 5),      // b behind the next one
    ([0xbf00, 0x4281], [0xf040, 0x8001], 5),      // cmp r1, r0; bne
    ([0xbf00, 0x4281], [0xf000, 0x8001], 9),      // beq
    ([0x4281, 0xbf08], [0xf241, 0x2034], 5),      // it eq; movweq
    ([0x4281, 0xbf18], [0xf241, 0x2034], 0x1234), // it ne; movwne
];

fn put(index: usize, word: u32) {
    PAGES.0[index].store(word, Relaxed);
    synchronize(PAGES.0[index].as_ptr().addr() as u32);
}

/// Which words the two pages have.
fn doubts() -> [[u32; 2]; 4] {
    [[0, 0], [0, 1], [1, 0], [1, 1]].map(|which: [usize; 2]| which.map(|one| WORDS[one]))
}

fn fill(words: [u32; 2]) {
    for (index, cell) in PAGES.0.iter().enumerate() {
        cell.store(words[index / PAGE], Relaxed);
    }
    (0..2 * PAGE)
        .step_by(8)
        .for_each(|index| put(index, words[index / PAGE]));
}

/// Adds one to the word at R2: ldrex r0, [r2]; adds r0, #1; strex r3, r0, [r2]; cmp r3, #0; bne; bx lr.
const ADD: [u16; 8] = [
    0xe852, 0x0f00, 0x3001, 0xe842, 0x0300, 0x2b00, 0xd1f8, 0x4770,
];

/// A load-exclusive and its store-exclusive stand in different pages: the store succeeds in the end.
fn exclusive_pages(_: &Machine) -> Outcome {
    let counter = AtomicU32::new(0);
    for words in doubts() {
        for before in 1..=5 {
            fill(words);
            for (half, at) in ADD.into_iter().zip(2 * PAGE - before..) {
                let shift = at % 2 * 16;
                let word = PAGES.0[at / 2].load(Relaxed);
                put(at / 2, word & !(0xffff << shift) | u32::from(half) << shift);
            }
            let entry = PAGES.0.as_ptr().addr() as u32 + 4 * PAGE as u32 - 2 * before as u32;
            let count = counter.load(Relaxed);
            // SAFETY: it changes these registers and the counter alone, and returns.
            let end = unsafe {
                probe!("blx {code}"; code = in(reg) entry | 1, inout("r2") counter.as_ptr() => _, out("r0") _,
                    out("r1") _, out("r3") _, out("r12") _, out("lr") _)
            };
            check!(end.is_ok(), "{before} before, {words:x?}: {end:x?}");
            check_eq!(
                counter.load(Relaxed),
                count + 1,
                "{before} before, {words:x?}"
            );
        }
    }
    Ok(())
}

fn across_pages(_: &Machine) -> Outcome {
    for words in doubts() {
        fill(words);
        for (before, form, expected) in FORMS {
            let pair = |halves: [u16; 2]| u32::from(halves[0]) | u32::from(halves[1]) << 16;
            // Behind it, in all cases but that of a branch: mov r0, #9 for one, and back.
            let next = match form[0] {
                0xf000 | 0xf040 => 0x2009,
                _ => 0xbf00,
            };
            put(PAGE - 3, pair([0x2005, 0x2103]));
            put(PAGE - 2, pair([0xbf00, before[0]]));
            put(PAGE - 1, pair([before[1], form[0]]));
            put(PAGE, pair([form[1], next]));
            put(PAGE + 1, pair([0x4770, 0xbf00]));
            put(PAGE + 2, LITERAL);
            let entry = PAGES.0[PAGE - 3].as_ptr().addr() as u32 | 1;
            let found: u32;
            // SAFETY: the instructions above change these registers alone, and return.
            let end = unsafe {
                probe!("blx {code}"; code = in(reg) entry, out("r0") found, out("r1") _, out("r2") _,
                    out("r3") _, out("r12") _, out("lr") _)
            };
            check!(end.is_ok(), "{form:x?} with {words:x?}: {end:x?}");
            check_eq!(found, expected, "{form:x?} with {words:x?}");
        }
    }
    Ok(())
}
