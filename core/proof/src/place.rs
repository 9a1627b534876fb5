//! A place at which an instruction is executed.

use crate::frame::BYTES;
use hanok_decode::aarch32::{Isa, ItState};

/// A place in a frame, and the state that the CPU executes it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    offset: u16,
    isa: Isa,
    it: ItState,
}

impl Place {
    /// The place `offset` bytes behind the frame's begin. `it` is its place in an IT block, which
    /// A32 ignores. `None` if it is outside of the frame or not aligned for the instruction set.
    pub const fn new(offset: u32, isa: Isa, it: ItState) -> Option<Self> {
        if offset >= BYTES || offset & (isa.alignment() - 1) != 0 {
            return None;
        }
        let it = match isa {
            Isa::A32 => ItState::NONE,
            Isa::T32 => it,
        };
        Some(Self {
            offset: offset as u16,
            isa,
            it,
        })
    }

    /// The offset in bytes from the frame's begin.
    pub const fn offset(self) -> u32 {
        self.offset as u32
    }

    /// The instruction set.
    pub const fn isa(self) -> Isa {
        self.isa
    }

    /// The place in an IT block.
    pub const fn it(self) -> ItState {
        self.it
    }
}
