//! Conditions, and the IT block that gives them to T32 instructions.

/// The condition under which an instruction executes (DDI 0406C A8.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Condition {
    /// Equal: Z is set.
    Eq = 0,
    /// Not equal: Z is clear.
    Ne,
    /// C is set. The manual also writes HS.
    Cs,
    /// C is clear. The manual also writes LO.
    Cc,
    /// N is set.
    Mi,
    /// N is clear.
    Pl,
    /// V is set.
    Vs,
    /// V is clear.
    Vc,
    /// C is set and Z is clear.
    Hi,
    /// C is clear or Z is set.
    Ls,
    /// N equals V.
    Ge,
    /// N differs from V.
    Lt,
    /// Z is clear and N equals V.
    Gt,
    /// Z is set or N differs from V.
    Le,
    /// The instruction always executes.
    #[default]
    Always,
}

impl Condition {
    /// The condition with this code, the field of an A32 word or of ITSTATE. The code 0b1111 means
    /// always, too.
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

    /// The condition's code in an A32 word; always is 0b1110.
    pub const fn into_bits(self) -> u8 {
        self as u8
    }

    /// Whether the instruction is executed whatever the flags are.
    pub const fn is_always(self) -> bool {
        matches!(self, Self::Always)
    }
}

/// ITSTATE: the place of an instruction in an IT block (DDI 0406C A2.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ItState(u8);

impl ItState {
    /// The instruction is in no IT block.
    pub const NONE: Self = Self(0);

    /// The place that the eight bits of ITSTATE, or of an IT instruction, name. If the low four
    /// bits are zero, there is no block.
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

    /// Whether the instruction is in an IT block.
    pub const fn is_inside(self) -> bool {
        self.0 & 0xf != 0
    }

    /// Whether the instruction is the last of an IT block: only there may a branch stand.
    pub const fn is_last(self) -> bool {
        self.0 & 0xf == 0b1000
    }

    /// The condition of the instruction at this place.
    pub const fn condition(self) -> Condition {
        if self.is_inside() {
            Condition::from_bits(self.0 >> 4)
        } else {
            Condition::Always
        }
    }

    /// The place of the next instruction (ITAdvance).
    pub const fn next(self) -> Self {
        if self.0 & 0b111 == 0 {
            Self::NONE
        } else {
            Self(self.0 & 0xe0 | self.0 << 1 & 0x1f)
        }
    }
}
