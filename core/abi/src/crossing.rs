//! Traps that stand for parts of a crossing: the instructions by which a kernel goes back to its programs, and saves
//! what they had.
//!
//! The hypervisor carries them out in a few instructions if it knows them without a table. So they are no SVC,
//! which programs use, too, but permanently undefined instructions of A32 with numbers of their own (DDI 0406C,
//! A8.8.247, UDF). Bit 8 of the number tells the part, and bits 3 to 0 its register:
//!
//! - 0: STMDB Rn, {SP, LR}^, where it has no trampoline.
//! - 1: MOVS PC, LR.

/// The first of these traps.
pub const CROSSING_TRAP: u32 = 0xe7fb_00f0;
/// The number of parts.
pub const CROSSING_TRAPS: u32 = 2;

/// MOVS PC, LR.
const GO_BACK: u32 = 0xe1b0_f00e;
/// STMDB R0, {SP, LR}^.
const STORE_USER: u32 = 0xe940_6000;

/// The trap of a part of a crossing that is one instruction of A32; `None` for any other instruction.
pub const fn crossing_trap(word: u32) -> Option<u32> {
    if word == GO_BACK {
        return Some(CROSSING_TRAP | 1 << 8);
    }
    let base = word >> 16 & 0xf;
    if word & !(0xf << 16) == STORE_USER && base <= 12 {
        return Some(CROSSING_TRAP | base);
    }
    None
}

/// The instruction that a trap of a part of a crossing stands for; `None` if it is none.
pub const fn crossing_original(trap: u32) -> Option<u32> {
    let register = trap & 0xf;
    match (trap & !0xf ^ CROSSING_TRAP, register) {
        (0, 0..=12) => Some(STORE_USER | register << 16),
        (0x100, _) => Some(GO_BACK),
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
            (0xe1b0_f00e, 0xe7fb_01f0),
        ];
        for (word, trap) in parts {
            assert_eq!(crossing_trap(word), Some(trap));
            assert_eq!(crossing_original(trap), Some(word));
            assert_eq!(crossing_original(word), None);
        }
        for other in [0xe94d_6000, 0xe960_6000, 0x11b0_f00e, 0xe952_7fff] {
            assert_eq!(crossing_trap(other), None);
        }
        for none in [0xe7fb_00fd, 0xe7fb_02f0, 0xe7fb_00e0] {
            assert_eq!(crossing_original(none), None);
        }
    }
}
