//! What the sensitive ones among loads and stores are made of, by the fields of their words.

use super::operation::{Direction, Index, Operation, Pair, Shift, Store, Unprivileged};
use crate::aarch32::registers::Register;
use crate::aarch32::words::{BlockWord, TransferWord};
use hanok_types::Width;

/// The operation of an encoding, and whether its fixed fields and operands are as they should be.
pub(super) type Found = Option<(Operation, bool)>;

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

impl BlockWord {
    pub(super) fn direction(self) -> Direction {
        Direction {
            up: self.up(),
            before: self.before(),
        }
    }
}

/// RFE or SRS, whose fields stand in different places in A32 and T32.
pub(super) struct Exception {
    /// Whether it is RFE.
    pub(super) load: bool,
    pub(super) rn: Register,
    /// Bits 15 to 0: in SRS, the mode below fixed bits.
    pub(super) list: u16,
    pub(super) direction: Direction,
    pub(super) write_back: bool,
}

impl Exception {
    /// The operation, of which the fixed bits 15 to 0 should be these (B9.3.13, B9.3.16).
    pub(super) fn with_fixed(self, rfe: u16, srs: u16) -> (Operation, bool) {
        const MODE: u16 = 0x1f;
        let (direction, write_back) = (self.direction, self.write_back);
        if self.load {
            let base = self.rn;
            let operation = Operation::Rfe(Pair {
                base,
                direction,
                write_back,
            });
            return (operation, self.list == rfe && base != Register::PC);
        }
        let operation = Operation::Srs(Store {
            mode: (self.list & MODE) as u8,
            direction,
            write_back,
        });
        let right = self.list & !MODE == srs && self.rn == Register::SP;
        (operation, right)
    }
}
