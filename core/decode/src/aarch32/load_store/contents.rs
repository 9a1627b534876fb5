//! What a load or store transfers.

use super::LoadStore;
use crate::aarch32::registers::{Register, Registers};
use crate::loadstore::General;
use hanok_types::Width;

/// A transfer of one core register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Rt.
    pub register: Register,
    /// How the access fills the register, or what it stores of it.
    pub general: General,
    /// Whether the access has the rights of User mode (LDRT, STRT and the other unprivileged
    /// forms).
    pub unprivileged: bool,
}

/// An exclusive access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusive {
    /// The width of the access; a [`Width::Double`] has two registers.
    pub width: Width,
    /// Rt.
    pub register: Register,
    /// Rt2 of LDREXD and STREXD.
    pub second: Option<Register>,
    /// Rd of a store: the register that receives whether the store took place.
    pub status: Option<Register>,
}

/// A SWP or SWPB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// The width of the exchanged value.
    pub width: Width,
    /// The register that receives the old value.
    pub loaded: Register,
    /// The register that holds the new value.
    pub stored: Register,
}

/// Which lanes of its registers a [`Structures`] transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All lanes of all registers.
    All,
    /// The lane with this number, of each register.
    One(u8),
    /// One element is loaded into all lanes.
    Repeated,
}

/// VLD1 to VLD4, VST1 to VST4 (A7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// The number of elements in a structure: 1 to 4.
    pub elements: u8,
    /// The width of an element.
    pub width: Width,
    /// The number of the first D register.
    pub first: u8,
    /// The number of registers: 1 to 4.
    pub registers: u8,
    /// The distance between the numbers of two registers: 1 or 2.
    pub stride: u8,
    /// The lanes that are transferred.
    pub lanes: Lanes,
}

impl Structures {
    /// The number of bytes of memory that are accessed.
    pub const fn bytes(&self) -> u32 {
        match self.lanes {
            Lanes::All => self.registers as u32 * 8,
            Lanes::One(_) | Lanes::Repeated => self.elements as u32 * self.width.bytes() as u32,
        }
    }
}

/// A transfer that also changes a part of the processor's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTransfer {
    /// RFE: loads PC and CPSR.
    Rfe,
    /// SRS: stores LR and SPSR to the stack of this mode.
    Srs(u8),
    /// LDM with a caret and the PC: loads these registers, and copies SPSR to CPSR.
    Return(Registers),
}

/// What a load or store transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// LDR, STR and the other forms of one register.
    Single(Single),
    /// LDRD, STRD: two registers, one word each.
    Pair(Register, Register),
    /// LDM, STM, PUSH, POP: one word for each register, the lowest register at the lowest address.
    Block {
        /// The register list.
        registers: Registers,
        /// Whether the registers are those of User mode (a caret).
        user: bool,
    },
    /// VLDR, VSTR, VLDM, VSTM, VPUSH, VPOP.
    Extension {
        /// Whether the registers are D registers; else they are S registers.
        double: bool,
        /// The number of the first register.
        first: u8,
        /// The number of registers: 1 to 32.
        count: u8,
    },
    /// VLD1 to VLD4, VST1 to VST4.
    Structures(Structures),
    /// LDREX, STREX and the other exclusive forms.
    Exclusive(Exclusive),
    /// SWP, SWPB.
    Swap(Swap),
    /// RFE, SRS, LDM as an exception return.
    State(StateTransfer),
    /// TBB, TBH: load the distance of a branch from a table.
    Table {
        /// Whether the table has halfwords; else it has bytes.
        halfwords: bool,
    },
    /// PLD, PLDW, PLI: transfer nothing and never abort.
    Preload,
}

/// A register that a [`Piece`] fills or empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A core register.
    Core(Register),
    /// A word of the extension registers, 0 to 63. The words 0 to 31 are S0 to S31; D n consists of
    /// the words 2n and 2n + 1, the less significant word first.
    Extension(u8),
}

/// A part of a transfer that is one access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The distance from the transfer's first byte, in bytes.
    pub offset: u32,
    /// How the access fills the register, or what it stores of it.
    pub general: General,
    /// The register.
    pub slot: Slot,
}

const WORD: General = General {
    width: Width::Word,
    sign_extend: false,
    wide: false,
};

impl LoadStore {
    /// The number of bytes of memory that are accessed.
    pub const fn bytes(&self) -> u32 {
        match self.contents {
            Contents::Single(single) => single.general.width.bytes() as u32,
            Contents::Pair(..) => 8,
            Contents::Block { registers, .. } => registers.count() * 4,
            Contents::Extension { double, count, .. } => (count as u32) << (2 + double as u32),
            Contents::Structures(structures) => structures.bytes(),
            Contents::Exclusive(exclusive) => exclusive.width.bytes() as u32,
            Contents::Swap(swap) => swap.width.bytes() as u32,
            Contents::State(StateTransfer::Return(registers)) => registers.count() * 4,
            Contents::State(_) => 8,
            Contents::Table { halfwords } => 1 << halfwords as u32,
            Contents::Preload => 0,
        }
    }

    /// The accesses that the transfer consists of, lowest address first. `big_endian` is CPSR.E: it
    /// decides which half of a D register has the lower address. Empty for what is not taken apart.
    pub fn pieces(&self, big_endian: bool) -> impl Iterator<Item = Piece> + use<> {
        let this = *self;
        (0..).map_while(move |nth| this.piece(nth, big_endian))
    }

    /// The `nth` of [`Self::pieces`], counted from 0.
    pub fn piece(&self, nth: u32, big_endian: bool) -> Option<Piece> {
        let (general, slot) = match self.contents {
            Contents::Single(single) if nth == 0 => (single.general, Slot::Core(single.register)),
            Contents::Pair(first, _) if nth == 0 => (WORD, Slot::Core(first)),
            Contents::Pair(_, second) if nth == 1 => (WORD, Slot::Core(second)),
            Contents::Block { registers, .. } => (WORD, Slot::Core(registers.nth(nth)?)),
            Contents::Extension {
                double,
                first,
                count,
            } if nth < u32::from(count) << u32::from(double) => {
                let swapped = nth ^ u32::from(double && big_endian);
                let word = (u32::from(first) << u32::from(double)) + swapped;
                (WORD, Slot::Extension(word as u8))
            }
            _ => return None,
        };
        Some(Piece {
            offset: nth * 4,
            general,
            slot,
        })
    }
}
