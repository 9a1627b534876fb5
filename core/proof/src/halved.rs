//! The one way to read CPSR that is right in User mode, too.
//!
//! MRS of CPSR differs in its lower half alone: the mode, the masks and the endianness. (Of the upper half
//! the flags and GE are the CPU's own, and MRS reads the execution state as zero: DDI 0406C, B9.3.8.) If the
//! next instruction shifts that half out of the register, nothing of it is ever seen. An interrupt between the two
//! shows the guest's handler the register before the shift, in which no program can expect anything.

/// Whether `word` is an A32 MRS of CPSR, without a condition, and `behind`, the word behind it, is the LSR by 16 of the
/// same register.
pub(crate) fn is_halved(word: u32, behind: Option<u32>) -> bool {
    let register = word >> 12 & 0xf;
    reads(word) && behind == Some(0xe1a0_0820 | register << 12 | register)
}

/// Whether `word` is an A32 MRS of CPSR to a register other than SP, without a condition.
pub(crate) const fn reads(word: u32) -> bool {
    word & !0xf000 == 0xe10f_0000 && word >> 12 & 0xf < 13
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::is_halved;

    #[test]
    fn only_the_upper_half_of_the_same_register_is_right() {
        let shift = |to: u32, from: u32| Some(0xe1a0_0820 | to << 12 | from);
        for register in 0..13 {
            assert!(is_halved(
                0xe10f_0000 | register << 12,
                shift(register, register)
            ));
        }
        for (word, behind) in [
            (0xe10f_1000, shift(1, 2)),
            (0xe10f_1000, shift(2, 1)),
            (0xe10f_1000, None),
            // SPSR; another condition; SP; not by 16; with flags; with another condition.
            (0xe14f_1000, shift(1, 1)),
            (0x110f_1000, shift(1, 1)),
            (0xe10f_d000, shift(13, 13)),
            (0xe10f_1000, Some(0xe1a0_1801)),
            (0xe10f_1000, Some(0xe1b0_1821)),
            (0xe10f_1000, Some(0x11a0_1821)),
        ] {
            assert!(!is_halved(word, behind), "{word:x} {behind:x?}");
        }
    }
}
