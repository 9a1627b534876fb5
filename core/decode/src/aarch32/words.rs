//! Where the fields of AArch32's loads and stores stand, for all who take such words apart: several
//! groups of instructions have the same fields in the same places.

use super::registers::Register;
use bitfield_struct::bitfield;

/// A32: loads and stores of one register (DDI 0406C, A5.3), and the extra loads and stores (A5.2.8).
#[bitfield(u32)]
pub struct TransferWord {
    /// Rm: the index register.
    #[bits(4)]
    pub rm: Register,
    /// Set in an extra load or store, and in a media instruction.
    pub bit4: bool,
    /// The kind of the index register's shift; in an extra load or store, what is transferred.
    #[bits(2)]
    pub kind: u8,
    /// The amount of the index register's shift.
    #[bits(5)]
    pub amount: u8,
    /// Rt: the register that is loaded or stored.
    #[bits(4)]
    pub rt: Register,
    /// Rn: the base.
    #[bits(4)]
    pub rn: Register,
    /// L.
    pub load: bool,
    /// W: whether the base is written back, if P is set.
    pub write_back: bool,
    /// B; in an extra load or store: whether the offset is a constant.
    pub byte: bool,
    /// U: whether the offset is added; else it is subtracted.
    pub add: bool,
    /// P: whether the offset is a part of the address.
    pub before: bool,
    /// Whether the offset is a register, if this is no extra load or store.
    pub by_register: bool,
    #[bits(6)]
    __: u8,
}

/// A32: LDM, STM, RFE and SRS (A5.5, A5.7).
#[bitfield(u32)]
pub struct BlockWord {
    /// The register list; for SRS, the mode in the low five bits.
    #[bits(16)]
    pub list: u16,
    /// Rn: the base.
    #[bits(4)]
    pub rn: Register,
    /// L.
    pub load: bool,
    /// W: whether the base is written back.
    pub write_back: bool,
    /// S, which is written as a caret.
    pub caret: bool,
    /// U: whether the addresses ascend from the base.
    pub up: bool,
    /// P: whether the address changes before each access.
    pub before: bool,
    #[bits(7)]
    __: u8,
}

/// A32: "Synchronization primitives" (A5.2.10).
#[bitfield(u32)]
pub struct ExclusiveWord {
    /// Rt of a store.
    #[bits(4)]
    pub value: Register,
    #[bits(4)]
    __: u8,
    /// All ones in ARMv7; other values are the acquire and release forms of ARMv8.
    #[bits(4)]
    pub one: u8,
    /// Rt of a load; of a store, the register that gets its status.
    #[bits(4)]
    pub rd: Register,
    /// Rn: the base.
    #[bits(4)]
    pub rn: Register,
    /// Whether it is a load.
    pub load: bool,
    /// The size: 0 a word, 1 two words, 2 a byte, 3 a halfword.
    #[bits(2)]
    pub size: u8,
    /// Whether it is exclusive; else it is a swap.
    pub exclusive: bool,
    #[bits(8)]
    __: u8,
}

/// T32: loads and stores with two halfwords (A6.3.5 to A6.3.10).
#[bitfield(u32)]
pub struct WideTransferWord {
    /// The lowest bits of an offset, or Rm in the low four bits.
    pub low: u8,
    /// Rt2 or Rd in some instructions; in others a set bit above P, U and W.
    #[bits(4)]
    pub middle: u8,
    /// Rt: the register that is loaded or stored.
    #[bits(4)]
    pub rt: Register,
    /// Rn: the base.
    #[bits(4)]
    pub rn: Register,
    /// L.
    pub load: bool,
    /// W; in a load or store of one register, the lower bit of the size.
    pub write_back: bool,
    /// In a load or store of one register, the upper bit of the size.
    pub bit22: bool,
    /// U: whether the offset is added; else it is subtracted.
    pub up: bool,
    /// P; in a load of one register, whether the sign is extended.
    pub before: bool,
    /// The group of instructions.
    #[bits(4)]
    pub kind: u8,
    #[bits(3)]
    __: u8,
}

impl WideTransferWord {
    /// Rm: the index register.
    pub fn rm(self) -> Register {
        Register::from_bits(self.low())
    }

    /// Rt2 or Rd.
    pub fn second(self) -> Register {
        Register::from_bits(self.middle())
    }
}
