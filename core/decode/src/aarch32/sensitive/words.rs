//! Fields of A32 words that several groups have in the same places.

use super::operation::{Direction, Index, Operation, Shift, Unprivileged};
use crate::aarch32::registers::Register;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// The operation of an encoding, and whether its fixed fields and operands are as they should be.
pub(super) type Found = Option<(Operation, bool)>;

/// Loads and stores of one register (A5.3), and the extra loads and stores (A5.2.8), whose fields
/// stand in the same places.
#[bitfield(u32)]
pub(super) struct TransferWord {
    #[bits(4)]
    pub(super) rm: Register,
    pub(super) bit4: bool,
    #[bits(2)]
    pub(super) kind: u8,
    #[bits(5)]
    pub(super) amount: u8,
    #[bits(4)]
    pub(super) rt: Register,
    #[bits(4)]
    pub(super) rn: Register,
    pub(super) load: bool,
    pub(super) write_back: bool,
    /// In an extra load or store: whether the offset is a constant.
    pub(super) byte: bool,
    pub(super) add: bool,
    pub(super) before: bool,
    pub(super) by_register: bool,
    #[bits(6)]
    __: u8,
}

impl TransferWord {
    pub(super) fn access(self, width: Width, sign_extend: bool, index: Index) -> Unprivileged {
        Unprivileged {
            load: self.load(),
            width,
            sign_extend,
            register: self.rt(),
            base: self.rn(),
            add: self.add(),
            index,
            post_index: true,
        }
    }

    /// The amount by which a load or store of one register changes the base.
    pub(super) fn single_index(self) -> Index {
        if self.by_register() {
            Index::Register(self.rm(), Shift::from_bits(self.kind(), self.amount()))
        } else {
            Index::Immediate(self.into_bits() as u16 & 0xfff)
        }
    }
}

/// The fields of LDM, STM, RFE and SRS.
#[bitfield(u32)]
pub(super) struct BlockWord {
    #[bits(16)]
    pub(super) list: u16,
    #[bits(4)]
    pub(super) rn: Register,
    pub(super) load: bool,
    pub(super) write_back: bool,
    pub(super) caret: bool,
    pub(super) up: bool,
    pub(super) before: bool,
    #[bits(7)]
    __: u8,
}

impl BlockWord {
    pub(super) fn direction(self) -> Direction {
        Direction {
            up: self.up(),
            before: self.before(),
        }
    }
}
