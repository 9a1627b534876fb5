//! Loads and stores by what they do to memory: enough to finish one on behalf of a guest.
//!
//! A hypervisor needs this where stage 2 does not translate an address and the syndrome does not
//! describe the access (HSR.ISV is 0: DDI 0406C, B3.13.6, "ISS encoding for Data Abort exceptions
//! taken to Hyp mode"; DDI 0487, D24.2, ESR_EL2): write-back, two registers or more, the PC,
//! exclusives, VFP and Advanced SIMD. All encodings of ARMv7-A are described, those which the CPU
//! does describe among them, so that both ways can be held against each other.
//!
//! Two things are said of each: where it goes ([`Addressing`]), and what is moved there
//! ([`Contents`]). What moves nothing but whole registers falls into [`Piece`]s of at most a
//! word, in the order in which the architecture has them: "MemA[address,4]" and so on in the
//! pseudocode of A8.8. Exclusives, SWP, Advanced SIMD structures, and what also changes the mode
//! are named, not taken apart.
//!
//! Encodings that the manual calls UNPREDICTABLE (write-back to a register that is also loaded)
//! are described as they are written: the CPU that trapped has already chosen to execute them.
//! Where nothing can be made of one, as of a list of 33 registers, the answer is `None`.

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
    /// Its bits.
    pub encoding: Encoding,
    /// When it is executed.
    pub condition: Condition,
    /// Whether memory is read. SWP, which reads and writes, counts as a store.
    pub load: bool,
    /// Where to.
    pub address: Addressing,
    /// What is moved.
    pub contents: Contents,
}

/// Describes an instruction; `it` says where in an IT block one of T32 stands. `None` where it
/// is no load or store of ARMv7-A, or one of a coprocessor other than 10 and 11.
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

/// Whether a load, where to, and of what.
#[derive(Clone, Copy)]
struct Access(bool, Addressing, Contents);

/// What is added to a base register, or subtracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displacement {
    /// U: whether it is added.
    pub add: bool,
    /// How much.
    pub index: Index,
}

impl Displacement {
    /// Nothing.
    pub const NONE: Self = Self::bytes(true, 0);

    /// A constant.
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

    /// What `base` becomes. `index` is the index register's value (any where there is none), and
    /// `carry` the C flag, which RRX shifts in. Addresses wrap, as the CPU's do.
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
        // By 31 the sign is everywhere already.
        ShiftKind::Asr => match (value as i32).checked_shr(amount) {
            Some(value) => value as u32,
            None => (value as i32 >> 31) as u32,
        },
        ShiftKind::Ror => value.rotate_right(amount & 31),
        ShiftKind::Rrx => (carry as u32) << 31 | value >> 1,
    }
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressing {
    /// Rn.
    pub base: Register,
    /// From the base to the byte with the lowest address.
    pub first: Displacement,
    /// From the base's old value to its new one, where it is written back.
    pub write_back: Option<Displacement>,
}

/// What an [`Addressing`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The address of the first byte.
    pub address: u32,
    /// The base register and its new value.
    pub write_back: Option<(Register, u32)>,
}

impl Addressing {
    /// The base and no more.
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

    /// By P and W: `before` says whether the displacement is part of the address, and what is not
    /// always moves the base.
    const fn indexed(base: Register, by: Displacement, before: bool, moves: bool) -> Self {
        Self {
            base,
            first: if before { by } else { Displacement::NONE },
            write_back: if moves || !before { Some(by) } else { None },
        }
    }

    /// `words` upwards or downwards of the base, by U and P of LDM and its kind: the lowest
    /// register always lies lowest.
    const fn block(base: Register, up: bool, before: bool, words: u16, moves: bool) -> Self {
        let bytes = words * 4;
        // Downwards and after, the block ends with the word at the base.
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

    /// The index register, which is never the PC where this is defined.
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

    /// The address, given the values of base and index (any number where there is none) and the
    /// C flag. Of a base that is the PC, [`LoadStore::pc_base`] is the value.
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
    /// What the PC is as a base, where the instruction stands at `address`: Align(PC, 4), but
    /// for a jump table's, which lies right behind the instruction.
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

    /// What the PC is as a value that is stored: its own, in A32 eight bytes on (A2.3,
    /// PCStoreValue).
    pub const fn pc_stored(&self, address: u32) -> u32 {
        match self.encoding {
            Encoding::A32(_) => address.wrapping_add(8),
            _ => address.wrapping_add(4),
        }
    }
}

#[cfg(test)]
mod tests;
