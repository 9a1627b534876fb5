//! What each halfword of a frame is proven to be.

use crate::bits::{self, Bits};
use crate::conflict::{Conflict, Contradiction};
use crate::place::Place;
use hanok_decode::aarch32::{Isa, ItState};

/// Whether an instruction was known before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Known {
    /// It is new.
    New,
    /// It was known, in the same state.
    Before,
}

/// Code and data of a frame. No halfword is both.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// Where A32 instructions begin.
    a32: Bits,
    /// Where T32 instructions begin.
    t32: Bits,
    /// All halfwords of these instructions.
    code: Bits,
    /// The halfwords that are loaded.
    data: Bits,
    /// The instructions in an IT block, and those of them that are last in it.
    inside: Bits,
    last: Bits,
}

impl Map {
    /// Nothing is proven.
    pub const NOTHING: Self = Self {
        a32: Bits::NONE,
        t32: Bits::NONE,
        code: Bits::NONE,
        data: Bits::NONE,
        inside: Bits::NONE,
        last: Bits::NONE,
    };

    fn starts(&self, isa: Isa) -> &Bits {
        match isa {
            Isa::A32 => &self.a32,
            Isa::T32 => &self.t32,
        }
    }

    /// The instruction set of the proven instruction that begins at `offset`.
    pub fn start(&self, offset: u32) -> Option<Isa> {
        [Isa::A32, Isa::T32]
            .into_iter()
            .find(|isa| self.starts(*isa).has(offset))
    }

    /// The offset of the first proven instruction at `offset` or behind that is not in `seen`.
    pub fn next_start(&self, offset: u32, seen: &[u32; bits::LENGTH]) -> Option<u32> {
        let (skipped, bit) = bits::position(offset);
        let all = self.a32.words().iter().zip(self.t32.words()).zip(seen);
        let mut mask = u32::MAX << bit;
        for (number, ((a32, t32), seen)) in all.enumerate().skip(skipped) {
            let found = (a32 | t32) & mask & !seen;
            if found != 0 {
                return Some(bits::offset(number, found.trailing_zeros()));
            }
            mask = u32::MAX;
        }
        None
    }

    /// Whether the halfword at `offset` is a part of a proven instruction.
    pub fn is_code(&self, offset: u32) -> bool {
        self.code.has(offset)
    }

    /// Whether the halfword at `offset` is loaded.
    pub fn is_data(&self, offset: u32) -> bool {
        self.data.has(offset)
    }

    /// The halfwords that are code or data: the set's word with this number; all of them beyond the
    /// frame.
    pub fn known(&self, number: usize) -> u32 {
        let of = |bits: &Bits| bits.words().get(number).copied().unwrap_or(u32::MAX);
        of(&self.code) | of(&self.data)
    }

    /// The place in an IT block of the instruction at `offset`, but for its condition, which is not
    /// kept.
    pub fn it(&self, offset: u32) -> ItState {
        match (self.inside.has(offset), self.last.has(offset)) {
            (false, _) => ItState::NONE,
            (true, false) => ItState::from_bits(0b0100),
            (true, true) => ItState::from_bits(0b1000),
        }
    }

    /// Notes the instruction of `bytes` bytes at `place`.
    pub fn execute(&mut self, place: Place, bytes: u32) -> Result<Known, Conflict> {
        let (offset, it) = (place.offset(), place.it());
        if self.starts(place.isa()).has(offset) {
            let known = self.it(offset);
            let same = (known.is_inside(), known.is_last()) == (it.is_inside(), it.is_last());
            return if same {
                Ok(Known::Before)
            } else {
                Err(Contradiction::Block.at(offset))
            };
        }
        for half in halves(offset, bytes) {
            self.check(place, half)?;
        }
        self.put(place, bytes);
        Ok(Known::New)
    }

    /// Whether the halfword at `half` can be a part of a new instruction at `place`.
    fn check(&self, place: Place, half: u32) -> Result<(), Conflict> {
        let contradiction = if self.is_data(half) {
            Contradiction::CodeAndData
        } else if !self.is_code(half) {
            return Ok(());
        } else if self.isa(half) == place.isa() {
            Contradiction::Overlap
        } else {
            Contradiction::InstructionSets
        };
        Err(contradiction.at(place.offset()))
    }

    /// The instruction set of the code that the halfword at `half` is a part of.
    fn isa(&self, half: u32) -> Isa {
        if self.a32.has(half & !3) {
            Isa::A32
        } else {
            Isa::T32
        }
    }

    fn put(&mut self, place: Place, bytes: u32) {
        let offset = place.offset();
        match place.isa() {
            Isa::A32 => self.a32.put(offset),
            Isa::T32 => self.t32.put(offset),
        }
        if place.it().is_inside() {
            self.inside.put(offset);
        }
        if place.it().is_last() {
            self.last.put(offset);
        }
        halves(offset, bytes).for_each(|half| self.code.put(half));
    }

    /// Notes that `bytes` bytes at `offset` are loaded.
    pub fn load(&mut self, offset: u32, bytes: u32) -> Result<(), Conflict> {
        for half in halves(offset, bytes) {
            if self.is_code(half) {
                return Err(Contradiction::CodeAndData.at(offset));
            }
            self.data.put(half);
        }
        Ok(())
    }
}

/// The offsets of the halfwords that `bytes` bytes at `offset` touch.
fn halves(offset: u32, bytes: u32) -> impl Iterator<Item = u32> {
    (offset & !1..offset + bytes).step_by(2)
}
