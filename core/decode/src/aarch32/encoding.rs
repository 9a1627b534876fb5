//! The bits of an instruction.

/// The two instruction sets of AArch32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// A32, which the manual of ARMv7 calls ARM.
    A32,
    /// T32, which the manual of ARMv7 calls Thumb.
    T32,
}

impl Isa {
    /// The alignment of an instruction's address, in bytes.
    pub const fn alignment(self) -> u32 {
        match self {
            Self::A32 => 4,
            Self::T32 => 2,
        }
    }
}

/// The bits of an instruction, with their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// An A32 word.
    A32(u32),
    /// A T32 instruction of one halfword.
    Narrow(u16),
    /// A T32 instruction of two halfwords, the first in the upper half of the number, though
    /// it comes first in memory.
    Wide(u32),
}

/// Whether `first` is the first of two halfwords of a T32 instruction (DDI 0406C A6.1).
pub const fn is_wide(first: u16) -> bool {
    first >= 0xe800
}

impl Encoding {
    /// The T32 instruction that begins with the halfword `first`. `second` is the halfword after it
    /// in memory, and is used only if the instruction has two halfwords.
    pub const fn t32(first: u16, second: u16) -> Self {
        if is_wide(first) {
            Self::Wide((first as u32) << 16 | second as u32)
        } else {
            Self::Narrow(first)
        }
    }

    /// The instruction's length in bytes: 2 or 4.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Narrow(_) => 2,
            Self::A32(_) | Self::Wide(_) => 4,
        }
    }

    /// The instruction set that the instruction belongs to.
    pub const fn isa(self) -> Isa {
        match self {
            Self::A32(_) => Isa::A32,
            Self::Narrow(_) | Self::Wide(_) => Isa::T32,
        }
    }

    /// The bits as a number, as the variants hold them.
    pub const fn bits(self) -> u32 {
        match self {
            Self::A32(word) | Self::Wide(word) => word,
            Self::Narrow(half) => half as u32,
        }
    }
}
