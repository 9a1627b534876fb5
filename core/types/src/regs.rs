//! A vCPU's general registers, and the widths of its accesses.

/// The general registers, program counter and status of a vCPU.
///
/// On AArch32 the banked registers take the places that the architecture gives them
/// (DDI 0487, D1.20.1 "Mapping of the general-purpose registers between Execution states"),
/// so that the core sees one layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Regs {
    /// X0 to X30.
    pub x: [u64; 31],
    /// Where the vCPU goes on.
    pub pc: u64,
    /// Its PSTATE, in the format of SPSR_ELx.
    pub pstate: u64,
}

impl Regs {
    /// Register `index`; 31 and above is the zero register.
    pub fn get(&self, index: u8) -> u64 {
        self.x.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// Sets register `index`; 31 and above ignores it.
    pub fn set(&mut self, index: u8, value: u64) {
        if let Some(register) = self.x.get_mut(usize::from(index)) {
            *register = value;
        }
    }
}

/// The width of one access to memory or to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// From the architecture's two-bit size field: log2 of the bytes, of which only the
    /// low two bits count.
    pub const fn from_log2(log2: u8) -> Self {
        match log2 & 3 {
            0 => Self::Byte,
            1 => Self::Half,
            2 => Self::Word,
            _ => Self::Double,
        }
    }

    /// Bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Double => 8,
        }
    }

    /// Bits: 8, 16, 32 or 64.
    pub const fn bits(self) -> u32 {
        self.bytes() as u32 * 8
    }

    /// A mask of as many low bits.
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

    #[test]
    fn widths_mask_their_bits() {
        assert_eq!(Width::Byte.mask(), 0xff);
        assert_eq!(Width::Double.mask(), u64::MAX);
        assert_eq!(Width::from_log2(2).bytes(), 4);
    }
}
