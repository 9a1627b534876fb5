//! What is known of each halfword of an image.

use hanok_decode::aarch32::{Isa, ItState};

/// What a halfword is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// Nothing is known.
    #[default]
    Unknown,
    /// An instruction begins here, at this place in an IT block.
    Start(Isa, ItState),
    /// The second halfword of an instruction.
    Body,
    /// It is loaded as data.
    Data,
}

/// The marks of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    marks: Vec<Packed>,
}

/// A mark in two bytes: kind, with [`LOADED`] where it is loaded whatever it is; and ITSTATE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Packed(u8, u8);

const UNKNOWN: u8 = 0;
const START_A32: u8 = 1;
const START_T32: u8 = 2;
const BODY: u8 = 3;
const DATA: u8 = 4;
/// Something loads it.
const LOADED: u8 = 0x80;
/// What loads it is itself no more than what stands behind a call.
const GUESSED: u8 = 0x40;
/// An instruction that is code only if what leads to it is.
const SOFT: u8 = 0x20;
/// All that is known beside what it is.
const USED: u8 = LOADED | GUESSED;
/// What a mark is, without what else is known of it.
const KIND: u8 = 0x07;

impl Marks {
    /// Of `len` bytes, of which nothing is known.
    pub fn new(len: usize) -> Self {
        Self {
            marks: vec![Packed::default(); len.div_ceil(2)],
        }
    }

    /// What the halfword at `offset` bytes is.
    pub fn get(&self, offset: usize) -> Mark {
        let Packed(kind, it) = self.marks.get(offset / 2).copied().unwrap_or_default();
        match kind & KIND {
            START_A32 => Mark::Start(Isa::A32, ItState::NONE),
            START_T32 => Mark::Start(Isa::T32, ItState::from_bits(it)),
            BODY => Mark::Body,
            DATA => Mark::Data,
            _ => Mark::Unknown,
        }
    }

    fn set(&mut self, offset: usize, packed: Packed) {
        if let Some(mark) = self.marks.get_mut(offset / 2) {
            *mark = Packed(packed.0 | mark.0 & USED, packed.1);
        }
    }

    /// An instruction of `len` bytes is at `offset`.
    pub fn code(&mut self, offset: usize, len: usize, isa: Isa, it: ItState) {
        self.instruction(offset, len, isa, it, 0);
    }

    /// An instruction of `len` bytes is at `offset`, if what leads to it is code.
    pub fn soft_code(&mut self, offset: usize, len: usize, isa: Isa, it: ItState) {
        self.instruction(offset, len, isa, it, SOFT);
    }

    fn instruction(&mut self, offset: usize, len: usize, isa: Isa, it: ItState, soft: u8) {
        let kind = if isa == Isa::A32 {
            START_A32
        } else {
            START_T32
        };
        self.set(offset, Packed(kind | soft, it.into_bits()));
        if len > 2 {
            self.set(offset + 2, Packed(BODY | soft, 0));
        }
    }

    /// `len` bytes of data are at `offset`, which something loads; `guessed` if that itself may
    /// be no code. What is code stays so.
    pub fn data(&mut self, offset: usize, len: usize, guessed: bool) {
        let first = offset / 2;
        let last = (offset + len.max(1)).div_ceil(2).min(self.marks.len());
        let loaded = if guessed { GUESSED } else { LOADED };
        for mark in self.marks.get_mut(first..last).unwrap_or_default() {
            *mark = match mark.0 & KIND {
                UNKNOWN | DATA => Packed(DATA | mark.0 & USED | loaded, 0),
                _ => Packed(mark.0 | loaded, mark.1),
            };
        }
    }

    /// Whether what is at `offset` is code only if what leads to it is.
    pub fn is_soft(&self, offset: usize) -> bool {
        self.has(offset, SOFT)
    }

    /// Whether code that is no guess loads what is at `offset`.
    pub fn is_loaded(&self, offset: usize) -> bool {
        self.has(offset, LOADED)
    }

    /// Whether anything loads what is at `offset`.
    pub fn is_perhaps_loaded(&self, offset: usize) -> bool {
        self.has(offset, LOADED | GUESSED)
    }

    fn has(&self, offset: usize, flags: u8) -> bool {
        let mark = self.marks.get(offset / 2);
        mark.is_some_and(|mark| mark.0 & flags != 0)
    }

    /// Every halfword's offset and mark within `range` of bytes.
    pub fn iter(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, Mark)> + '_ {
        let (first, last) = (range.start.div_ceil(2), range.end.div_ceil(2));
        (first..last.min(self.marks.len())).map(|n| (2 * n, self.get(2 * n)))
    }
}
