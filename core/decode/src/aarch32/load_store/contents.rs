//! What a load or store moves.

use super::LoadStore;
use crate::aarch32::registers::{Register, Registers};
use crate::loadstore::General;
use hanok_types::Width;

/// One core register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Rt.
    pub register: Register,
    /// How it is filled or emptied.
    pub general: General,
    /// Whether the access has the rights of User mode (LDRT, STRT and their kind).
    pub unprivileged: bool,
}

/// An exclusive access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exclusive {
    /// How much is moved: two registers where it is [`Width::Double`].
    pub width: Width,
    /// Rt.
    pub register: Register,
    /// Rt2, of LDREXD and STREXD.
    pub second: Option<Register>,
    /// Rd, which says whether a store took place.
    pub status: Option<Register>,
}

/// SWP or SWPB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swap {
    /// How much is exchanged.
    pub width: Width,
    /// Where the old value goes.
    pub loaded: Register,
    /// The new value.
    pub stored: Register,
}

/// How elements lie in the registers of a [`Structures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All lanes of all registers.
    All,
    /// This one of each register.
    One(u8),
    /// One element goes to all lanes.
    Repeated,
}

/// VLD1 to VLD4, VST1 to VST4 (A7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// How many elements are a structure: 1 to 4.
    pub elements: u8,
    /// How much an element is.
    pub width: Width,
    /// The first D register.
    pub first: u8,
    /// Number of registers, 1 to 4.
    pub registers: u8,
    /// Distance from one to the next, 1 or 2.
    pub stride: u8,
    /// Which of their lanes.
    pub lanes: Lanes,
}

impl Structures {
    /// All bytes of memory.
    pub const fn bytes(&self) -> u32 {
        match self.lanes {
            Lanes::All => self.registers as u32 * 8,
            Lanes::One(_) | Lanes::Repeated => self.elements as u32 * self.width.bytes() as u32,
        }
    }
}

/// What moves a part of the processor's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTransfer {
    /// RFE: PC and CPSR.
    Rfe,
    /// SRS: LR and SPSR, to the stack of this mode.
    Srs(u8),
    /// LDM with a caret and the PC: CPSR from SPSR, and these.
    Return(Registers),
}

/// What is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// LDR, STR and their kind.
    Single(Single),
    /// LDRD, STRD: two words.
    Pair(Register, Register),
    /// LDM, STM, PUSH, POP: a word each, the lowest register at the lowest address.
    Block {
        /// The list.
        registers: Registers,
        /// Whether they are those of User mode (a caret).
        user: bool,
    },
    /// VLDR, VSTR, VLDM, VSTM, VPUSH, VPOP.
    Extension {
        /// Whether they are D registers; else S.
        double: bool,
        /// The first.
        first: u8,
        /// How many, 1 to 32.
        count: u8,
    },
    /// VLD1 to VLD4, VST1 to VST4.
    Structures(Structures),
    /// LDREX, STREX and their kind.
    Exclusive(Exclusive),
    /// SWP, SWPB.
    Swap(Swap),
    /// RFE, SRS, LDM as an exception return.
    State(StateTransfer),
    /// TBB, TBH: the distance of a jump.
    Table {
        /// Of halfwords; else bytes.
        halfwords: bool,
    },
    /// PLD, PLDW, PLI: nothing; never aborts.
    Preload,
}

/// A register that a [`Piece`] fills or empties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A core register.
    Core(Register),
    /// A word of the extension registers, 0 to 63: S0 to S31 are the first 32, and D n is words
    /// 2n and 2n + 1, the less significant one first.
    Extension(u8),
}

/// A part of a transfer that is one access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes from the transfer's address.
    pub offset: u32,
    /// How the register is filled or emptied.
    pub general: General,
    /// Which.
    pub slot: Slot,
}

const WORD: General = General {
    width: Width::Word,
    sign_extend: false,
    wide: false,
};

impl LoadStore {
    /// All bytes of memory that are accessed.
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

    /// The accesses it consists of, lowest address first, where data is `big_endian` (CPSR.E) or
    /// not: that decides which half of a D register lies lower. None of what is not taken apart.
    pub fn pieces(&self, big_endian: bool) -> impl Iterator<Item = Piece> + use<> {
        let this = *self;
        (0..).map_while(move |nth| this.piece(nth, big_endian))
    }

    /// One of [`Self::pieces`], counted from 0.
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
