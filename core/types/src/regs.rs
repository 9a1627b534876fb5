//! A vCPU's general registers, and the widths of its accesses.

/// The general registers, program counter and status of a vCPU.
///
/// Banked registers of AArch32 are in the places that the architecture maps them to (DDI 0487,
/// D1.20.1 "Mapping of the general-purpose registers between Execution states"), so that the core
/// knows one layout only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Regs {
    /// X0 to X30.
    pub x: [u64; 31],
    /// The address of the next instruction.
    pub pc: u64,
    /// PSTATE, in the format of SPSR_ELx.
    pub pstate: u64,
}

impl Regs {
    /// The value of register `index`; 31 and above are the zero register.
    pub fn get(&self, index: u8) -> u64 {
        self.x.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// Sets register `index`. A write of 31 and above is ignored.
    pub fn set(&mut self, index: u8, value: u64) {
        if let Some(register) = self.x.get_mut(usize::from(index)) {
            *register = value;
        }
    }
}

/// PSTATE.SS: cleared when an instruction was emulated, so that a software step completes.
const SOFTWARE_STEP: u64 = 1 << 21;
/// PSTATE.BTYPE (AArch64): zero after any instruction but a branch.
const BRANCH_TYPE: u64 = 3 << 10;
/// PSTATE.M[4]: AArch32.
const AARCH32: u64 = 1 << 4;

impl Regs {
    /// Whether the vCPU runs AArch32 code.
    #[inline]
    pub fn is_aarch32(&self) -> bool {
        self.pstate & AARCH32 != 0
    }

    /// Moves past an instruction of `bytes` bytes (2 or 4) that was emulated. It makes all changes
    /// that the CPU would have made, except the instruction's own result.
    #[inline]
    pub fn advance(&mut self, bytes: u64) {
        self.pc = self.pc.wrapping_add(bytes);
        self.pstate &= !SOFTWARE_STEP;
        if self.pstate & AARCH32 == 0 {
            self.pstate = Self::advanced_pstate(self.pstate);
        } else {
            self.advance_it();
        }
    }

    /// The PSTATE of an AArch64 guest after an emulated instruction, from the one before it, as in
    /// [`Self::advance`].
    #[inline(always)]
    pub const fn advanced_pstate(pstate: u64) -> u64 {
        pstate & !(SOFTWARE_STEP | BRANCH_TYPE)
    }

    /// Whether data is little-endian and there is no IT block in this PSTATE of an AArch32 vCPU.
    /// Then [`Self::advance`] changes only the program counter.
    #[inline(always)]
    pub const fn is_plain_a32(pstate: u64) -> bool {
        const IT: u64 = 0x3f << 10 | 3 << 25;
        const BIG_ENDIAN: u64 = 1 << 9;
        pstate & (IT | BIG_ENDIAN | SOFTWARE_STEP) == 0
    }

    /// Advances the state of a T32 IT block (DDI 0487, AArch32.ITAdvance). IT[7:2] is at bit 10 of
    /// the saved PSTATE, and IT[1:0] at bit 25. Outside a block both are zero and stay zero.
    #[inline(never)]
    fn advance_it(&mut self) {
        let it = (self.pstate >> 10 & 0x3f) << 2 | self.pstate >> 25 & 3;
        let next = match it & 7 {
            0 => 0,
            _ => it & 0xe0 | it << 1 & 0x1f,
        };
        self.pstate &= !(0x3f << 10 | 3 << 25);
        self.pstate |= (next >> 2) << 10 | (next & 3) << 25;
    }
}

/// The width of one access to memory or to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
    /// 64 bits.
    Double,
}

impl Width {
    /// The width for the architecture's two-bit size field, which is log2 of the number of bytes.
    /// Only the low two bits are used.
    pub const fn from_log2(log2: u8) -> Self {
        match log2 & 3 {
            0 => Self::Byte,
            1 => Self::Half,
            2 => Self::Word,
            _ => Self::Double,
        }
    }

    /// The number of bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> u64 {
        1 << self as u32
    }

    /// The number of bits: 8, 16, 32 or 64.
    pub const fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// A mask of the width's bits.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zero_register_stays_zero() {
        let mut regs = Regs::default();
        regs.set(31, 5);
        regs.set(30, 7);
        assert_eq!((regs.get(31), regs.get(30)), (0, 7));
    }

    /// PSTATE of T32 code at EL0 in an IT block.
    fn t32(it: u64) -> Regs {
        Regs {
            pstate: 0x30 | (it >> 2) << 10 | (it & 3) << 25,
            ..Regs::default()
        }
    }

    #[test]
    fn an_emulated_instruction_ends_its_turn_of_an_it_block() {
        // ITETE EQ is 0b0000_1011; then the states that each instruction leaves.
        let mut regs = t32(0b0000_1011);
        for it in [0b0001_0110, 0b0000_1100, 0b0001_1000, 0] {
            regs.advance(2);
            assert_eq!(regs.pstate, t32(it).pstate, "{it:#010b}");
        }
        assert_eq!(regs.pc, 8);
    }

    #[test]
    fn in_a_plain_state_the_next_instruction_is_all_there_is() {
        for (it, bytes) in (0..256).flat_map(|it| [(it, 2), (it, 4)]) {
            for more in [0, SOFTWARE_STEP, 1 << 9] {
                let mut regs = t32(it);
                (regs.pc, regs.pstate) = (0x8000_0ffe, regs.pstate | more | 0xf << 28);
                let before = regs;
                regs.advance(bytes);
                let plain = Regs::is_plain_a32(before.pstate);
                assert_eq!(plain, it == 0 && more == 0);
                let pc = before.pc + bytes;
                assert!(!plain || regs == Regs { pc, ..before });
            }
        }
    }

    #[test]
    fn in_aarch64_the_branch_type_and_the_step_end() {
        let mut regs = Regs {
            pstate: 0x3c5 | BRANCH_TYPE | SOFTWARE_STEP | 1 << 25,
            ..Regs::default()
        };
        assert_eq!(Regs::advanced_pstate(regs.pstate), 0x3c5 | 1 << 25);
        regs.advance(4);
        assert_eq!(regs.pstate, 0x3c5 | 1 << 25);
    }

    /// DDI 0487, SPSR_EL2: M[4] is bit 4.
    #[test]
    fn bit_4_of_pstate_is_aarch32() {
        for (pstate, expected) in [(0x3c5, false), (0x1d3, true), (0x10, true), (!0x10, false)] {
            let regs = Regs {
                pstate,
                ..Regs::default()
            };
            assert_eq!(regs.is_aarch32(), expected, "{pstate:#x}");
        }
    }

    #[test]
    fn widths_mask_their_bits() {
        assert_eq!(Width::Byte.mask(), 0xff);
        assert_eq!(Width::Double.mask(), u64::MAX);
        let widths = [0, 1, 2, 3, 4].map(|log2| Width::from_log2(log2).bytes());
        assert_eq!(widths, [1, 2, 4, 8, 1]);
    }
}
