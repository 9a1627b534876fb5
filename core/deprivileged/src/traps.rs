//! Traps that name the instruction that they stand for.
//!
//! A guest may copy its own code, traps and all: a decompressor moves itself, and so does kexec. So a
//! trap has to mean the same wherever it stands. Each is a permanently undefined instruction whose number is a place in
//! a table of instructions of the VM's (DDI 0406C, A8.8.247, UDF). A place is never used for
//! another instruction. If a table is full, the trap has no number, and means something only where it
//! was put.
//!
//! The numbers are chosen so that those that Linux uses for purposes of its own are none of them.
//!
//! Some instructions of A32 have fixed numbers, by which a backend knows them without a table: those with which a
//! kernel goes back to its programs, and saves what they had (`hanok_abi::crossing`).

use hanok_abi::crossing::{CROSSING_TRAP, crossing_original, crossing_trap};
use hanok_decode::aarch32::{Encoding, is_wide};
use hanok_proof::trap_for;

/// The number of instructions of four bytes in each instruction set.
const LONG: usize = 4096;
/// The number of instructions of two bytes.
const SHORT: usize = 128;
/// The number of the first trap of two bytes.
const FIRST_SHORT: u16 = 0x40;
/// UDF of A32 with the numbers from 0xa000 on.
const A32: u32 = 0xe7fa_00f0;
/// UDF of T32 in two halfwords with the same numbers.
const WIDE: u32 = 0xf7fa_a000;
/// UDF of T32 in one halfword.
const NARROW: u16 = 0xde00;
/// What means that a place is free: no instruction that becomes a trap (ANDEQ R0, R0, R0 and MOVS R0, R0).
/// So a table without instructions is zeroes, which take no room in the image.
const FREE: u32 = 0;
/// The same in a place for an instruction of two bytes.
const FREE_NARROW: u16 = 0;

/// The instructions of a VM that are traps somewhere.
#[derive(Debug)]
pub struct Traps {
    a32: [u32; LONG],
    wide: [u32; LONG],
    narrow: [u16; SHORT],
}

impl Traps {
    /// None.
    pub const NONE: Self = Self {
        a32: [FREE; LONG],
        wide: [FREE; LONG],
        narrow: [FREE_NARROW; SHORT],
    };

    /// The trap for an instruction.
    pub fn trap(&mut self, instruction: Encoding) -> Encoding {
        let found = match instruction {
            Encoding::A32(word) => crossing_trap(word)
                .map(Encoding::A32)
                .or_else(|| place(&mut self.a32, word).map(a32_trap)),
            Encoding::Wide(both) => {
                place(&mut self.wide, both).map(|index| Encoding::Wide(WIDE | index))
            }
            Encoding::Narrow(half) => {
                let mut all = self.narrow.iter();
                let index = all.position(|known| *known == half || *known == FREE_NARROW);
                index.map(|index| {
                    if let Some(place) = self.narrow.get_mut(index) {
                        *place = half;
                    }
                    narrow_trap(index)
                })
            }
        };
        found.unwrap_or(trap_for(instruction))
    }

    /// The trap for an instruction that has one already.
    pub fn known(&self, instruction: Encoding) -> Encoding {
        let found = match instruction {
            Encoding::A32(word) => crossing_trap(word)
                .map(Encoding::A32)
                .or_else(|| find(&self.a32, word).map(a32_trap)),
            Encoding::Wide(both) => {
                find(&self.wide, both).map(|index| Encoding::Wide(WIDE | index))
            }
            Encoding::Narrow(half) => {
                let index = self.narrow.iter().position(|known| *known == half);
                index.map(narrow_trap)
            }
        };
        found.unwrap_or(trap_for(instruction))
    }

    /// The instruction that a trap stands for; `None` if it is none of these.
    pub fn original(&self, trap: Encoding) -> Option<Encoding> {
        match trap {
            Encoding::A32(word) => self.a32(word).map(Encoding::A32),
            Encoding::Wide(both) => self.wide(both).map(Encoding::Wide),
            Encoding::Narrow(half) => self.narrow(half).map(Encoding::Narrow),
        }
    }

    fn a32(&self, word: u32) -> Option<u32> {
        if word >> 16 == CROSSING_TRAP >> 16 {
            return crossing_original(word);
        }
        let index = word >> 4 & 0xff0 | word & 0xf;
        let known = self.a32.get(index as usize).copied();
        known.filter(|known| word & 0xffff_00f0 == A32 && *known != FREE)
    }

    fn wide(&self, both: u32) -> Option<u32> {
        let known = self.wide.get((both & 0xfff) as usize).copied();
        known.filter(|known| both & !0xfff == WIDE && *known != FREE)
    }

    fn narrow(&self, half: u16) -> Option<u16> {
        let index = (half & 0xff).checked_sub(FIRST_SHORT)?;
        let known = self.narrow.get(usize::from(index)).copied();
        known.filter(|known| half & 0xff00 == NARROW && *known != FREE_NARROW)
    }

    /// A word of memory with the instructions that its traps stand for. `next` is the halfword behind it,
    /// and `before` the one before it, as they are in memory.
    pub fn translate(&self, word: u32, before: u16, next: u16) -> u32 {
        if crossing_original(word).is_some() {
            // It means the same everywhere, and raises no doubt.
            return word;
        }
        if let Some(original) = self.a32(word) {
            return original;
        }
        let (first, second) = (word as u16, (word >> 16) as u16);
        if let Some(original) = self.wide(join(first, second)) {
            return original.rotate_right(16);
        }
        let low = match self.wide(join(before, first)) {
            Some(original) => original as u16,
            None => self.narrow(first).unwrap_or(first),
        };
        let high = match self.wide(join(second, next)) {
            Some(original) => (original >> 16) as u16,
            None => self.narrow(second).unwrap_or(second),
        };
        u32::from(low) | u32::from(high) << 16
    }
}

/// Whether there may be a trap in these words, or the beginning of one. If not, [`Traps::translate`] changes none of them, unless one
/// begins in the word before them.
pub(crate) fn may_have_traps(words: &[u32; 16]) -> bool {
    words.iter().any(|word| {
        let narrow = |half: u32| half >> 8 == u32::from(NARROW) >> 8;
        // Those of crossings have the next lowest number.
        word & 0xfffe_00f0 == A32
            || narrow(word & 0xffff)
            || narrow(word >> 16)
            || word & 0xffff == WIDE >> 16
            || begins_trap(*word)
    })
}

/// Whether a trap of two halfwords may begin in the second half of a word.
pub(crate) const fn begins_trap(word: u32) -> bool {
    word >> 16 == WIDE >> 16
}

const _: () = assert!(CROSSING_TRAP & 0xfffe_00f0 == A32);

/// Two halfwords of T32 as one instruction.
fn join(first: u16, second: u16) -> u32 {
    debug_assert!(is_wide((WIDE >> 16) as u16));
    u32::from(first) << 16 | u32::from(second)
}

const fn a32_trap(index: u32) -> Encoding {
    Encoding::A32(A32 | (index & !0xf) << 4 | index & 0xf)
}

const fn narrow_trap(index: usize) -> Encoding {
    Encoding::Narrow(NARROW | (FIRST_SHORT + index as u16))
}

/// The places in which an instruction may be, in the order in which they are tried.
fn places(instruction: u32) -> impl Iterator<Item = u32> {
    let start = instruction.wrapping_mul(0x9e37_79b1) >> 20;
    (0..LONG as u32).map(move |step| (start + step) % LONG as u32)
}

/// The place of an instruction that has one.
fn find(table: &[u32; LONG], instruction: u32) -> Option<u32> {
    let known = |index: &u32| table.get(*index as usize).copied().unwrap_or(FREE);
    let mut all = places(instruction).take_while(|index| known(index) != FREE);
    all.find(|index| known(index) == instruction)
}

/// The place of an instruction, which is a new one if it has none; `None` if none is free.
fn place(table: &mut [u32; LONG], instruction: u32) -> Option<u32> {
    places(instruction).find_map(|index| {
        let place = table.get_mut(index as usize)?;
        if *place == FREE {
            *place = instruction;
        }
        (*place == instruction).then_some(index)
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn words_that_can_have_no_traps_are_not_translated() {
        let mut traps = Traps::NONE;
        for number in 1..=LONG as u32 {
            traps.trap(Encoding::A32(number));
            traps.trap(Encoding::Wide(0xf000_8000 | number));
            traps.trap(Encoding::Narrow(number as u16 | 1));
        }
        let mut state = 1u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let halves = [0xde00, 0xf7fa, 0xa000, 0xe7fa, 0xe7fb, 0x00f0, 0x01f0, 0];
        let (mut plain, mut changed) = (0, 0);
        for _ in 0..40_000 {
            let mut half = || match random() % 3 {
                0 => halves[random() as usize % halves.len()] | random() & 0xf,
                1 => halves[random() as usize % halves.len()] | random() & 0xff,
                _ => random() & 0xffff,
            };
            let mut words = [0x1234; 18];
            // Few of them, so that groups without traps are among them.
            words[1 + half() as usize % 16] = half() | half() << 16;
            words[0] = half() | half() << 16;
            let all: [u32; 16] = words[1..17].try_into().expect("sixteen");
            let differ = (1..17).any(|at| {
                let [before, behind] = [words[at - 1] >> 16, words[at + 1]].map(|half| half as u16);
                traps.translate(words[at], before, behind) != words[at]
            });
            if may_have_traps(&all) || begins_trap(words[0]) {
                changed += u32::from(differ);
            } else {
                plain += 1;
                assert!(!differ, "{words:x?}");
            }
        }
        assert!(plain > 5_000 && changed > 1_000, "{plain} {changed}");
    }

    #[test]
    fn a_trap_tells_its_instruction_wherever_it_stands() {
        let mut traps = Traps::NONE;
        let all = [
            Encoding::A32(0xe12f_ff1e),
            Encoding::A32(0xe10f_0000),
            Encoding::Wide(0xf3ef_8000),
            Encoding::Wide(0xe8bd_8000),
            Encoding::Narrow(0x4770),
            Encoding::Narrow(0xb662),
        ];
        for instruction in all {
            let trap = traps.trap(instruction);
            assert_eq!(traps.trap(instruction), trap);
            assert_eq!(traps.original(trap), Some(instruction));
            assert_eq!(traps.original(instruction), None);
        }
        // Linux' own: BUG, kprobes, uprobes, kgdb.
        for word in [
            0xe7f0_01f2,
            0xe7f0_01f8,
            0xe7f0_01f9,
            0xe7ff_defe,
            0xe7f0_00f0,
        ] {
            assert_eq!(traps.original(Encoding::A32(word)), None);
        }
        for half in [0xde02, 0xde18, 0xde19, 0xdeff, 0xde00] {
            assert_eq!(traps.original(Encoding::Narrow(half)), None);
        }
    }

    #[test]
    fn parts_of_a_crossing_have_their_own_traps() {
        let mut traps = Traps::NONE;
        let (word, trap) = (Encoding::A32(0xe1b0_f00e), Encoding::A32(0xe7fb_01f0));
        assert_eq!(traps.trap(word), trap);
        assert_eq!(traps.known(word), trap);
        assert_eq!(traps.original(trap), Some(word));
        assert_eq!(traps.translate(0xe7fb_01f0, 0, 0), 0xe7fb_01f0);
    }

    #[test]
    fn words_are_translated_whatever_they_hold() {
        let mut traps = Traps::NONE;
        let (Encoding::A32(word), Encoding::Wide(wide), Encoding::Narrow(half)) = (
            traps.trap(Encoding::A32(0xe12f_ff1e)),
            traps.trap(Encoding::Wide(0xf3ef_8000)),
            traps.trap(Encoding::Narrow(0x4770)),
        ) else {
            panic!("a trap has the length of its instruction")
        };
        assert_eq!(traps.translate(word, 0, 0), 0xe12f_ff1e);
        assert_eq!(traps.translate(wide.rotate_right(16), 0, 0), 0x8000_f3ef);
        let half = u32::from(half);
        assert_eq!(traps.translate(half << 16 | half, 0, 0), 0x4770_4770);
        // One that passes the end of the word.
        let (first, second) = ((wide >> 16) as u16, wide as u16);
        let before = traps.translate(u32::from(first) << 16 | half, 0, second);
        assert_eq!(before, 0xf3ef_4770);
        assert_eq!(
            traps.translate(u32::from(second) | 0xbf00_0000, first, 0),
            0xbf00_8000
        );
    }

    #[test]
    fn a_full_table_gives_traps_without_a_number() {
        let mut traps = Traps::NONE;
        for number in 1..=LONG as u32 {
            let trap = traps.trap(Encoding::A32(number));
            assert_eq!(traps.original(trap), Some(Encoding::A32(number)));
        }
        let one_more = traps.trap(Encoding::A32(0xe12f_ff1e));
        assert_eq!(one_more, trap_for(Encoding::A32(0)));
        assert_eq!(traps.trap(Encoding::A32(7)), traps.trap(Encoding::A32(7)));
        assert_eq!(traps.original(one_more), None);
    }
}
