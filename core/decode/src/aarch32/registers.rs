//! Core registers, and sets of them.

/// A core register, R0 to R15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(u8);

impl Register {
    /// R13, the stack pointer.
    pub const SP: Self = Self(13);
    /// R14, the link register.
    pub const LR: Self = Self(14);
    /// R15, the program counter.
    pub const PC: Self = Self(15);

    /// The register with the number in the low four bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0xf)
    }

    /// Its number, 0 to 15.
    pub const fn into_bits(self) -> u8 {
        self.0
    }

    /// Its number, 0 to 15.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The set that holds it alone.
    pub const fn set(self) -> Registers {
        Registers(1 << self.0)
    }

    /// The register with the next number, which is the second of a pair; R0 after R15.
    pub const fn next(self) -> Self {
        Self::from_bits(self.0 + 1)
    }
}

impl core::fmt::Debug for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{self}")
    }
}

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::SP => f.write_str("sp"),
            Self::LR => f.write_str("lr"),
            Self::PC => f.write_str("pc"),
            Self(number) => write!(f, "r{number}"),
        }
    }
}

/// A set of core registers: bit n is Rn.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Registers(u16);

impl Registers {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// R0 to R15.
    pub const ALL: Self = Self(0xffff);

    /// From a register list.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// As a register list.
    pub const fn into_bits(self) -> u16 {
        self.0
    }

    /// The union of both sets.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the registers of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The intersection of both sets.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `register` is one of them.
    pub const fn contains(self, register: Register) -> bool {
        self.0 >> register.0 & 1 == 1
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of registers.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The register before which `nth` others come, in ascending order.
    pub fn nth(self, nth: u32) -> Option<Register> {
        let left = (0..nth.min(16)).fold(self.0, |left, _| left & left.wrapping_sub(1));
        (left != 0).then(|| Register(left.trailing_zeros() as u8))
    }

    /// All registers in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Register> {
        (0..16)
            .map(Register)
            .filter(move |register| self.contains(*register))
    }
}

impl core::fmt::Debug for Registers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
