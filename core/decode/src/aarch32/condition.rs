//! Conditions, and the IT block that gives them to T32 instructions.

/// On what an instruction depends (DDI 0406C A8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Condition {
    /// Z.
    Eq = 0,
    /// Not Z.
    Ne,
    /// C; also HS.
    Cs,
    /// Not C; also LO.
    Cc,
    /// N.
    Mi,
    /// Not N.
    Pl,
    /// V.
    Vs,
    /// Not V.
    Vc,
    /// C and not Z.
    Hi,
    /// Not C, or Z.
    Ls,
    /// N as V.
    Ge,
    /// N not as V.
    Lt,
    /// Not Z, and N as V.
    Gt,
    /// Z, or N not as V.
    Le,
    /// On nothing.
    #[default]
    Always,
}

impl Condition {
    /// From the field of an A32 word or of ITSTATE; 0b1111 is always, too.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0xf {
            0 => Self::Eq,
            1 => Self::Ne,
            2 => Self::Cs,
            3 => Self::Cc,
            4 => Self::Mi,
            5 => Self::Pl,
            6 => Self::Vs,
            7 => Self::Vc,
            8 => Self::Hi,
            9 => Self::Ls,
            10 => Self::Ge,
            11 => Self::Lt,
            12 => Self::Gt,
            13 => Self::Le,
            _ => Self::Always,
        }
    }

    /// The field of an A32 word; 0b1110 for always.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }

    /// Whether the instruction is executed whatever the flags are.
    pub const fn is_always(self) -> bool {
        matches!(self, Self::Always)
    }
}

/// ITSTATE: where in an IT block an instruction stands (DDI 0406C A2.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ItState(u8);

impl ItState {
    /// In no block.
    pub const NONE: Self = Self(0);

    /// From the eight bits of ITSTATE, or of an IT instruction. Without a bit in the low four
    /// there is no block.
    pub const fn from_bits(bits: u8) -> Self {
        if bits & 0xf == 0 {
            Self::NONE
        } else {
            Self(bits)
        }
    }

    /// The eight bits of ITSTATE.
    pub const fn into_bits(self) -> u8 {
        self.0
    }

    /// Whether in a block.
    pub const fn is_inside(self) -> bool {
        self.0 & 0xf != 0
    }

    /// Whether at the last of a block, where a branch may stand.
    pub const fn is_last(self) -> bool {
        self.0 & 0xf == 0b1000
    }

    /// The condition of the instruction that stands here.
    pub const fn condition(self) -> Condition {
        if self.is_inside() {
            Condition::from_bits(self.0 >> 4)
        } else {
            Condition::Always
        }
    }

    /// Where the next instruction stands (ITAdvance).
    pub const fn next(self) -> Self {
        if self.0 & 0b111 == 0 {
            Self::NONE
        } else {
            Self(self.0 & 0xe0 | self.0 << 1 & 0x1f)
        }
    }
}
