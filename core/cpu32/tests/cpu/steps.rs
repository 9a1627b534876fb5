//! What the virtual CPU and the model do at random: instructions, by their operands and by their
//! words (DDI 0406C, A8.8 and B9.3), and exceptions.

/// How addresses follow from the base.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    pub up: bool,
    pub before: bool,
    pub write_back: bool,
    pub base: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Second {
    Constant(u32),
    Register { m: u32, kind: u32, amount: u32 },
}

/// An access with the rights of User mode.
#[derive(Clone, Copy, Debug)]
pub struct Unprivileged {
    pub load: bool,
    /// 1, 2 or 4 bytes.
    pub bytes: u32,
    pub signed: bool,
    pub t: u32,
    pub n: u32,
    pub add: bool,
    /// Below 256.
    pub offset: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A program's or kernel's own instruction: a register gets a value.
    Set(u32, u32),
    /// The same for the flags: NZCVQ and GE.
    Flags(u32),
    Cps {
        enable: u32,
        aif: u32,
        mode: Option<u32>,
    },
    Mrs {
        saved: bool,
        d: u32,
    },
    Msr {
        saved: bool,
        mask: u32,
        n: u32,
    },
    /// The opcode, the first operand, the second.
    Data(u32, u32, Second),
    LdmReturn(Area, u32),
    LdmUser(Area, u32),
    StmUser(Area, u32),
    Rfe(Area),
    Srs(Area, u32),
    Unprivileged(Unprivileged),
    SetEnd(bool),
    /// An exception, by its vector's offset.
    Exception(u32),
    /// SCTLR's TE, EE, V and A, and VBAR.
    Control(u32, u32),
}

impl Area {
    fn a32(self) -> u32 {
        let bits = [(self.before, 24), (self.up, 23), (self.write_back, 21)];
        bits.iter().fold(self.base << 16, |word, (bit, at)| {
            word | u32::from(*bit) << at
        })
    }

    /// T32 has two of the four directions; `None` for the others.
    fn t32(self) -> Option<u32> {
        let direction = match (self.up, self.before) {
            (true, false) => 0x0180_0000,
            (false, true) => 0,
            _ => return None,
        };
        Some(direction | u32::from(self.write_back) << 21 | self.base << 16)
    }
}

impl Step {
    /// The A32 word, with a condition where it has one; `None` if it is no instruction.
    pub fn a32(self, condition: u32) -> Option<u32> {
        let condition = condition << 28;
        Some(match self {
            Self::Set(..) | Self::Flags(_) | Self::Exception(_) | Self::Control(..) => return None,
            Self::Cps { enable, aif, mode } => {
                let change = mode.map_or(0, |mode| 1 << 17 | mode);
                0xf100_0000 | enable << 18 | aif << 6 | change
            }
            Self::Mrs { saved, d } => condition | 0x010f_0000 | u32::from(saved) << 22 | d << 12,
            Self::Msr { saved, mask, n } => {
                condition | 0x0120_f000 | u32::from(saved) << 22 | mask << 16 | n
            }
            Self::Data(opcode, n, second) => {
                let second = match second {
                    Second::Constant(value) => 1 << 25 | value,
                    Second::Register { m, kind, amount } => amount << 7 | kind << 5 | m,
                };
                let n = if opcode == 13 || opcode == 15 { 0 } else { n };
                condition | 0x0010_f000 | opcode << 21 | n << 16 | second
            }
            Self::LdmReturn(area, list) => condition | 0x0850_8000 | area.a32() | list,
            Self::LdmUser(area, list) => condition | 0x0850_0000 | area.a32() | list,
            Self::StmUser(area, list) => condition | 0x0840_0000 | area.a32() | list,
            Self::Rfe(area) => 0xf810_0a00 | area.a32(),
            Self::Srs(area, mode) => 0xf840_0500 | area.a32() & !(0xf << 16) | 13 << 16 | mode,
            Self::Unprivileged(access) => condition | access.a32(),
            Self::SetEnd(big) => 0xf101_0000 | u32::from(big) << 9,
        })
    }

    /// The T32 instruction of two halfwords, if there is one.
    pub fn t32(self) -> Option<u32> {
        Some(match self {
            Self::Cps { enable, aif, mode } => {
                let change = mode.map_or(0, |mode| 1 << 8 | mode);
                0xf3af_8000 | enable << 9 | aif << 5 | change
            }
            Self::Mrs { saved, d } => 0xf3ef_8000 | u32::from(saved) << 20 | d << 8,
            Self::Msr { saved, mask, n } => {
                0xf380_8000 | u32::from(saved) << 20 | n << 16 | mask << 8
            }
            Self::Data(2, 14, Second::Constant(value)) => 0xf3de_8f00 | value,
            Self::Rfe(area) => 0xe810_c000 | area.t32()?,
            Self::Srs(area, mode) => 0xe800_c000 | area.t32()? & !(0xf << 16) | 13 << 16 | mode,
            Self::Unprivileged(access) => access.t32(),
            _ => return None,
        })
    }
}

impl Unprivileged {
    fn a32(self) -> u32 {
        let word =
            u32::from(self.add) << 23 | u32::from(self.load) << 20 | self.n << 16 | self.t << 12;
        let kind = match (self.bytes, self.signed) {
            (4, _) => return word | 0x0420_0000 | self.offset,
            (1, false) => return word | 0x0460_0000 | self.offset,
            (1, true) => 0xd0,
            (_, false) => 0xb0,
            (_, true) => 0xf0,
        };
        word | 0x0060_0000 | kind | (self.offset & 0xf0) << 4 | self.offset & 0xf
    }

    /// T32 adds always.
    fn t32(self) -> u32 {
        0xf800_0e00
            | u32::from(self.signed) << 24
            | self.bytes.trailing_zeros() << 21
            | u32::from(self.load) << 20
            | self.n << 16
            | self.t << 12
            | self.offset
    }
}
