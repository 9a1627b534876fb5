//! Traps that stand for parts of a crossing: the instructions by which a kernel goes back to its programs, and saves
//! what they had.
//!
//! The hypervisor carries them out in a few instructions if it knows them without a table. So they are no SVC,
//! which programs use, too, but permanently undefined instructions of A32 with numbers of their own (DDI 0406C,
//! A8.8.247, UDF). Bits 9 and 8 of the number tell the part, and bits 3 to 0 its register:
//!
//! - 0: STMDB Rn, {SP, LR}^.
//! - 1: LDMDB R2, {R0-LR}^ if bit 0 is clear, {R1-LR}^ if it is set; and NOP; ADD SP, SP, #72 if bit 1 is clear, #80
//!   if it is set; MOVS PC, LR, which stand behind it. So Linux loads a program's registers, and goes on
//!   (arch/arm/kernel/entry-header.S, restore_user_regs).
//! - 2: MOVS PC, LR.

/// The first of these traps.
pub const CROSSING_TRAP: u32 = 0xe7fb_00f0;
/// The number of parts.
pub const CROSSING_TRAPS: u32 = 3;

/// NOP.
const NOP: u32 = 0xe1a0_0000;
/// ADD SP, SP, #72 or #80.
const ADDS: [u32; 2] = [0xe28d_d048, 0xe28d_d050];
/// MOVS PC, LR.
const GO_BACK: u32 = 0xe1b0_f00e;
/// LDMDB R2, {R0-LR}^.
const LOAD_USER: u32 = 0xe952_7fff;
/// STMDB R0, {SP, LR}^.
const STORE_USER: u32 = 0xe940_6000;

/// The trap of a part of a crossing that is one instruction of A32; `None` for any other instruction.
pub const fn crossing_trap(word: u32) -> Option<u32> {
    if word == GO_BACK {
        return Some(CROSSING_TRAP | 2 << 8);
    }
    let base = word >> 16 & 0xf;
    if word & !(0xf << 16) == STORE_USER && base <= 12 {
        return Some(CROSSING_TRAP | base);
    }
    None
}

/// The trap of the load at the first of these words, if it begins the last part of a crossing: the next words are those that
/// stand behind it in its page.
pub fn crossing_load(words: &[u32]) -> Option<u32> {
    let [load, NOP, add, back, ..] = *words else {
        return None;
    };
    let without_first = load ^ LOAD_USER;
    let add = ADDS.iter().position(|known| *known == add)? as u32;
    // What goes back may be its own trap already.
    let goes_back = back == GO_BACK || crossing_original(back) == Some(GO_BACK);
    let same = goes_back && without_first <= 1;
    same.then_some(CROSSING_TRAP | 1 << 8 | add << 1 | without_first)
}

/// The number of words behind the load that belong to it.
pub const BEHIND_CROSSING_LOAD: u32 = 3;

/// Whether a word is the trap of the load, which stands for what is behind it, too. All other ones mean the same
/// wherever they stand.
pub const fn is_crossing_load(trap: u32) -> bool {
    crossing_original(trap).is_some() && trap & 0xff00 == 0x100
}

/// The instruction that a trap of a part of a crossing stands for; `None` if it is none.
pub const fn crossing_original(trap: u32) -> Option<u32> {
    let register = trap & 0xf;
    match (trap & !0xf ^ CROSSING_TRAP, register) {
        (0, 0..=12) => Some(STORE_USER | register << 16),
        (0x100, 0..=3) => Some(LOAD_USER & !(register & 1)),
        (0x200, _) => Some(GO_BACK),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_stands_for_its_part() {
        let parts = [
            (0xe94c_6000, 0xe7fb_00fc),
            (0xe940_6000, 0xe7fb_00f0),
            (0xe1b0_f00e, 0xe7fb_02f0),
        ];
        for (word, trap) in parts {
            assert_eq!(crossing_trap(word), Some(trap));
            assert_eq!(crossing_original(trap), Some(word));
            assert_eq!(crossing_original(word), None);
        }
        for other in [0xe94d_6000, 0xe960_6000, 0x11b0_f00e, 0xe952_7fff] {
            assert_eq!(crossing_trap(other), None);
        }
        for none in [0xe7fb_00fd, 0xe7fb_01f4, 0xe7fb_03f0, 0xe7fb_00e0] {
            assert_eq!(crossing_original(none), None);
        }
    }

    #[test]
    fn a_load_stands_for_all_that_is_behind_it() {
        let load = [0xe952_7ffe, 0xe1a0_0000, 0xe28d_d050, 0xe1b0_f00e, 0];
        assert_eq!(crossing_load(&load), Some(0xe7fb_01f3));
        assert_eq!(crossing_original(0xe7fb_01f3), Some(load[0]));
        let trapped = [load[0] | 1, load[1], 0xe28d_d048, 0xe7fb_02f0];
        assert_eq!(crossing_load(&trapped), Some(0xe7fb_01f0));
        assert!(is_crossing_load(0xe7fb_01f0) && !is_crossing_load(0xe7fb_02f0));
        assert_eq!(crossing_load(&load[..3]), None);
        assert_eq!(crossing_load(&load[1..]), None);
        let other = [load[0], load[1], load[2], 0xe1a0_f00e];
        assert_eq!(crossing_load(&other), None);
    }
}
