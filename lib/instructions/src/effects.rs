//! The registers and flags that an instruction reads and writes.

use bitfield_struct::bitfield;
use hanok_decode::aarch32::{Condition, Registers};

/// Parts of the CPSR that an instruction reads or writes.
#[bitfield(u8, debug = false)]
#[derive(PartialEq, Eq, Hash)]
pub struct Flags {
    /// Negative.
    pub n: bool,
    /// Zero.
    pub z: bool,
    /// Carry.
    pub c: bool,
    /// Overflow.
    pub v: bool,
    /// Saturation.
    pub q: bool,
    /// Greater than or equal, all four bits.
    pub ge: bool,
    /// E, the byte order of data.
    pub e: bool,
    /// The mode and the masks (M, A, I and F).
    pub control: bool,
}

impl Flags {
    /// No flags.
    pub const NONE: Self = Self::from_bits(0);
    /// N and Z.
    pub const NZ: Self = Self::new().with_n(true).with_z(true);
    /// N, Z and C.
    pub const NZC: Self = Self::NZ.with_c(true);
    /// N, Z, C and V.
    pub const NZCV: Self = Self::NZC.with_v(true);
    /// The flags that a program sees: N, Z, C, V, Q and GE.
    pub const APPLICATION: Self = Self::NZCV.with_q(true).with_ge(true);
    /// All flags.
    pub const ALL: Self = Self::from_bits(0xff);

    /// The flags that decide whether `condition` holds.
    pub const fn read_by(condition: Condition) -> Self {
        let none = Self::new();
        match condition {
            Condition::Eq | Condition::Ne => none.with_z(true),
            Condition::Cs | Condition::Cc => none.with_c(true),
            Condition::Mi | Condition::Pl => none.with_n(true),
            Condition::Vs | Condition::Vc => none.with_v(true),
            Condition::Hi | Condition::Ls => none.with_c(true).with_z(true),
            Condition::Ge | Condition::Lt => none.with_n(true).with_v(true),
            Condition::Gt | Condition::Le => none.with_n(true).with_v(true).with_z(true),
            Condition::Always => none,
        }
    }

    /// The flags in either.
    pub const fn and(self, other: Self) -> Self {
        Self::from_bits(self.into_bits() | other.into_bits())
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self::from_bits(self.into_bits() & !other.into_bits())
    }

    /// The flags in both.
    pub const fn common(self, other: Self) -> Self {
        Self::from_bits(self.into_bits() & other.into_bits())
    }

    /// Whether there are no flags.
    pub const fn is_empty(self) -> bool {
        self.into_bits() == 0
    }
}

impl core::fmt::Debug for Flags {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names = ["N", "Z", "C", "V", "Q", "GE", "E", "control"];
        let set = (0..8u8).filter(|bit| self.into_bits() >> bit & 1 == 1);
        let named = set.filter_map(|bit| names.get(usize::from(bit)));
        f.debug_set().entries(named).finish()
    }
}

/// What an instruction reads and writes of the core registers and the CPSR, if it is executed in a
/// privileged mode.
///
/// `reads` and `writes` may name too many, never too few. The PC counts as read where its value
/// goes into a result or an address, and as written where the instruction branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// The registers that it may read.
    pub reads: Registers,
    /// The registers that it may write.
    pub writes: Registers,
    /// Those of `writes` that it certainly overwrites completely if its condition holds.
    pub sets: Registers,
    /// The flags that it may read, with those that its condition reads.
    pub flags_read: Flags,
    /// The flags that it may write.
    pub flags_written: Flags,
    /// Those of `flags_written` that it certainly writes if its condition holds.
    pub flags_set: Flags,
}

impl Effects {
    /// No effects.
    pub const NONE: Self = Self {
        reads: Registers::NONE,
        writes: Registers::NONE,
        sets: Registers::NONE,
        flags_read: Flags::NONE,
        flags_written: Flags::NONE,
        flags_set: Flags::NONE,
    };

    /// Unknown effects: it may read and write everything.
    pub const UNKNOWN: Self = Self {
        reads: Registers::ALL,
        writes: Registers::ALL,
        sets: Registers::NONE,
        flags_read: Flags::ALL,
        flags_written: Flags::ALL,
        flags_set: Flags::NONE,
    };

    /// These effects, and reading `registers`.
    pub const fn reading(self, registers: Registers) -> Self {
        let reads = self.reads.with(registers);
        Self { reads, ..self }
    }

    /// These effects, and certainly writing `registers`.
    pub const fn setting(self, registers: Registers) -> Self {
        let sets = self.sets.with(registers);
        Self {
            sets,
            ..self.perhaps_writing(registers)
        }
    }

    /// These effects, and perhaps writing `registers`.
    pub const fn perhaps_writing(self, registers: Registers) -> Self {
        let writes = self.writes.with(registers);
        Self { writes, ..self }
    }

    /// These effects, and reading `flags`.
    pub const fn reading_flags(self, flags: Flags) -> Self {
        let flags_read = self.flags_read.and(flags);
        Self { flags_read, ..self }
    }

    /// These effects, and certainly writing `flags`.
    pub const fn setting_flags(self, flags: Flags) -> Self {
        let flags_set = self.flags_set.and(flags);
        Self {
            flags_set,
            ..self.perhaps_writing_flags(flags)
        }
    }

    /// These effects, and perhaps writing `flags`.
    pub const fn perhaps_writing_flags(self, flags: Flags) -> Self {
        let flags_written = self.flags_written.and(flags);
        Self {
            flags_written,
            ..self
        }
    }
}
