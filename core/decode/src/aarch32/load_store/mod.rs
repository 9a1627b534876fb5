//! Loads and stores by what they do to memory: enough to finish one on behalf of a guest.
//!
//! A hypervisor needs this where stage 2 does not translate an address and the syndrome does not
//! describe the access (HSR.ISV is 0: DDI 0406C, B3.13.6, "ISS encoding for Data Abort exceptions
//! taken to Hyp mode"; DDI 0487, D24.2, ESR_EL2): write-back, two registers or more, the PC,
//! taken to Hyp mode"; DDI 0487, D24.2, ESR_EL2): write-back, two registers or more, the PC,
//! exclusives, VFP and Advanced SIMD. This module describes all encodings of ARMv7-A, also those
//! that the syndrome does describe, so that tests can compare both sources.
//!
//! The description of an instruction has two parts: the address ([`Addressing`]), and what is
//! transferred ([`Contents`]). A transfer of nothing but whole registers is split into [`Piece`]s
//! of at most a word, in the order in which the architecture accesses them: "MemA[address,4]" and
//! so on in the pseudocode of A8.8. Exclusives, SWP, Advanced SIMD structures, and transfers that
//! also change the mode are only named, not split.
//!
//! Encodings that the manual calls UNPREDICTABLE (write-back to a register that is also loaded)
//! are described as they are written: the CPU that trapped has already chosen to execute them.
//! An encoding that cannot be described at all, such as a list of 33 registers, gives `None`.

mod a32;
mod contents;
mod extension;
mod t32;

pub use contents::{
    Contents, Exclusive, Lanes, Piece, Single, Slot, StateTransfer, Structures, Swap,
};

use super::condition::{Condition, ItState};
use super::encoding::Encoding;
use super::registers::Register;
use super::sensitive::{Index, Shift, ShiftKind};

/// A load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadStore {
    /// The instruction's bits.
    pub encoding: Encoding,
    /// The condition under which it executes.
    pub condition: Condition,
    /// Whether memory is read. SWP, which reads and writes, counts as a store.
    pub load: bool,
    /// The address of the access.
    pub address: Addressing,
    /// What it transfers.
    pub contents: Contents,
}

/// Describes the load or store with this encoding. `it` is the place of a T32 instruction in an IT
/// block. `None` for anything but a load or store of ARMv7-A, and for those of a coprocessor other
/// than 10 and 11.
pub fn load_store(encoding: Encoding, it: ItState) -> Option<LoadStore> {
    let (condition, Access(load, address, contents)) = match encoding {
        Encoding::A32(word) => (Condition::from_bits((word >> 28) as u8), a32::decode(word)?),
        Encoding::Narrow(half) => (it.condition(), t32::narrow(half)?),
        Encoding::Wide(both) => (it.condition(), t32::wide(both)?),
    };
    Some(LoadStore {
        encoding,
        condition,
        load,
        address,
        contents,
    })
}

/// Whether the instruction is a load, its address, and what it transfers.
#[derive(Clone, Copy)]
struct Access(bool, Addressing, Contents);

/// A displacement that is added to a base register or subtracted from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displacement {
    /// U: whether the index is added; else it is subtracted.
    pub add: bool,
    /// The amount.
    pub index: Index,
}

impl Displacement {
    /// A displacement of zero.
    pub const NONE: Self = Self::bytes(true, 0);

    /// A constant displacement in bytes.
    pub const fn bytes(add: bool, bytes: u16) -> Self {
        Self {
            add,
            index: Index::Immediate(bytes),
        }
    }

    const fn register(add: bool, register: Register, shift: Shift) -> Self {
        Self {
            add,
            index: Index::Register(register, shift),
        }
    }

    /// The value of `base` after this displacement. `index` is the index register's value (any
    /// number if there is no index register), and `carry` is the C flag, which RRX shifts in.
    /// Addresses wrap around, as in the CPU.
    pub const fn apply(self, base: u32, index: u32, carry: bool) -> u32 {
        let by = match self.index {
            Index::Immediate(bytes) => bytes as u32,
            Index::Register(_, shift) => shifted(index, shift, carry),
        };
        if self.add {
            base.wrapping_add(by)
        } else {
            base.wrapping_sub(by)
        }
    }
}

/// A8.4.3, Shift().
const fn shifted(value: u32, shift: Shift, carry: bool) -> u32 {
    let amount = shift.amount as u32;
    match shift.kind {
        ShiftKind::Lsl => match value.checked_shl(amount) {
            Some(value) => value,
            None => 0,
        },
        ShiftKind::Lsr => match value.checked_shr(amount) {
            Some(value) => value,
            None => 0,
        },
        // A shift by 31 already fills the word with the sign.
        ShiftKind::Asr => match (value as i32).checked_shr(amount) {
            Some(value) => value as u32,
            None => (value as i32 >> 31) as u32,
        },
        ShiftKind::Ror => value.rotate_right(amount & 31),
        ShiftKind::Rrx => (carry as u32) << 31 | value >> 1,
    }
}

/// The address of an access, in terms of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Rn, the base register.
    pub base: Register,
    /// The displacement from the base to the lowest byte that is accessed.
    pub first: Displacement,
    /// The displacement from the base's old value to its new one, if the base is written back.
    pub write_back: Option<Displacement>,
}

/// The outcome of an [`Addressing`] for given values of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The address of the lowest byte.
    pub address: u32,
    /// The base register and its new value.
    pub write_back: Option<(Register, u32)>,
}

impl Addressing {
    /// The base without a displacement, without write-back.
    const fn at(base: Register) -> Self {
        Self::offset(base, Displacement::NONE)
    }

    const fn offset(base: Register, first: Displacement) -> Self {
        Self {
            base,
            first,
            write_back: None,
        }
    }

    /// The addressing that P and W encode: `before` (P) says whether the displacement is a part of
    /// the address. If it is not, the base is always written back.
    const fn indexed(base: Register, by: Displacement, before: bool, moves: bool) -> Self {
        Self {
            base,
            first: if before { by } else { Displacement::NONE },
            write_back: if moves || !before { Some(by) } else { None },
        }
    }

    /// A block of `words` words above or below the base, as U and P of LDM, STM, RFE and SRS say.
    /// The lowest register always has the lowest address.
    const fn block(base: Register, up: bool, before: bool, words: u16, moves: bool) -> Self {
        let bytes = words * 4;
        // A block that decrements after each word ends with the word at the base.
        let first = match (up, before) {
            (true, false) => Displacement::NONE,
            (true, true) => Displacement::bytes(true, 4),
            (false, true) => Displacement::bytes(false, bytes),
            (false, false) => match bytes.checked_sub(4) {
                Some(bytes) => Displacement::bytes(false, bytes),
                None => Displacement::bytes(true, 4),
            },
        };
        Self {
            base,
            first,
            write_back: if moves {
                Some(Displacement::bytes(up, bytes))
            } else {
                None
            },
        }
    }

    /// The index register. In defined encodings it is never the PC.
    pub const fn index(&self) -> Option<Register> {
        let by = match self.write_back {
            Some(by) => by,
            None => self.first,
        };
        match by.index {
            Index::Register(register, _) => Some(register),
            Index::Immediate(_) => None,
        }
    }

    /// The address for these values of base and index (any number for a register that the
    /// instruction does not have) and of the C flag. If the base is the PC, its value is
    /// [`LoadStore::pc_base`].
    pub const fn resolve(&self, base: u32, index: u32, carry: bool) -> Resolved {
        let write_back = match self.write_back {
            Some(by) => Some((self.base, by.apply(base, index, carry))),
            None => None,
        };
        Resolved {
            address: self.first.apply(base, index, carry),
            write_back,
        }
    }
}

impl LoadStore {
    /// The value of the PC as a base, if the instruction is at `address`: Align(PC, 4). A jump
    /// table (TBB, TBH) is the exception: it begins right after the instruction.
    pub const fn pc_base(&self, address: u32) -> u32 {
        let pc = match self.encoding {
            Encoding::A32(_) => address.wrapping_add(8),
            _ => address.wrapping_add(4),
        };
        match self.contents {
            Contents::Table { .. } => pc,
            _ => pc & !3,
        }
    }

    /// The value of the PC when it is stored: in A32 the instruction's own address plus eight
    /// (A2.3, PCStoreValue).
    pub const fn pc_stored(&self, address: u32) -> u32 {
        match self.encoding {
            Encoding::A32(_) => address.wrapping_add(8),
            _ => address.wrapping_add(4),
        }
    }
}

#[cfg(test)]
mod tests;
