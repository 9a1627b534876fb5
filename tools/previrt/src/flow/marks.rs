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
    /// The second halfword of an instruction of four bytes.
    Body,
    /// Data: some instruction loads it.
    Data,
}

/// What was marked already where data is noted.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOverlap {
    /// No code.
    None,
    /// Code, at least in part.
    Code,
}

/// The marks of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// A byte for each halfword: its kind, and the flags [`LOADED`], [`GUESSED`] and [`SOFT`]. One
    /// byte each, because all of them are searched and copied.
    marks: Vec<u8>,
    /// ITSTATE of each instruction that begins in an IT block; empty as long as there is none.
    blocks: Vec<u8>,
}

const UNKNOWN: u8 = 0;
const START_A32: u8 = 1;
const START_T32: u8 = 2;
const BODY: u8 = 3;
const DATA: u8 = 4;
/// Some instruction loads this halfword.
const LOADED: u8 = 0x80;
/// The instruction that loads this halfword stands behind a call, so that it may be no code.
const GUESSED: u8 = 0x40;
/// This instruction is code only if the code that leads to it is.
const SOFT: u8 = 0x20;
/// The flags about loads.
const USED: u8 = LOADED | GUESSED;
/// The bits of a mark that are its kind.
const KIND: u8 = 0x07;

impl Marks {
    /// Marks for `len` bytes of which nothing is known.
    pub fn new(len: usize) -> Self {
        Self {
            marks: vec![UNKNOWN; len.div_ceil(2)],
            blocks: Vec::new(),
        }
    }

    /// What the halfword at `offset` bytes is.
    pub fn get(&self, offset: usize) -> Mark {
        let place = offset / 2;
        match self.marks.get(place).map_or(UNKNOWN, |mark| mark & KIND) {
            START_A32 => Mark::Start(Isa::A32, ItState::NONE),
            START_T32 => {
                let it = self.blocks.get(place).copied().unwrap_or_default();
                Mark::Start(Isa::T32, ItState::from_bits(it))
            }
            BODY => Mark::Body,
            DATA => Mark::Data,
            _ => Mark::Unknown,
        }
    }

    /// Takes over all marks of `other`.
    pub fn set_to(&mut self, other: &Self) {
        self.marks.clone_from(&other.marks);
        self.blocks.clone_from(&other.blocks);
    }

    fn set(&mut self, offset: usize, kind: u8) {
        if let Some(mark) = self.marks.get_mut(offset / 2) {
            *mark = kind | *mark & USED;
        }
    }

    fn set_block(&mut self, offset: usize, it: ItState) {
        let it = it.into_bits();
        if it != 0 && self.blocks.is_empty() {
            self.blocks = vec![0; self.marks.len()];
        }
        if let Some(block) = self.blocks.get_mut(offset / 2) {
            *block = it;
        }
    }

    /// Marks an instruction of `len` bytes at `offset`.
    pub fn code(&mut self, offset: usize, len: usize, isa: Isa, it: ItState) {
        self.instruction(offset, len, isa, it, 0);
    }

    /// Marks an instruction of `len` bytes at `offset` that is code only if the code that leads to
    /// it is.
    pub fn soft_code(&mut self, offset: usize, len: usize, isa: Isa, it: ItState) {
        self.instruction(offset, len, isa, it, SOFT);
    }

    fn instruction(&mut self, offset: usize, len: usize, isa: Isa, it: ItState, soft: u8) {
        let kind = if isa == Isa::A32 {
            START_A32
        } else {
            START_T32
        };
        self.set(offset, kind | soft);
        self.set_block(offset, it);
        if len > 2 {
            self.set(offset + 2, BODY | soft);
        }
    }

    /// Marks `len` bytes of data at `offset`, which an instruction loads; `guessed` if that
    /// instruction may be no code. Code stays marked as code.
    pub fn data(&mut self, offset: usize, len: usize, guessed: bool) -> DataOverlap {
        let first = offset / 2;
        let last = (offset + len.max(1)).div_ceil(2).min(self.marks.len());
        let loaded = if guessed { GUESSED } else { LOADED };
        let mut overlap = DataOverlap::None;
        for mark in self.marks.get_mut(first..last).unwrap_or_default() {
            *mark = match *mark & KIND {
                UNKNOWN | DATA => DATA | *mark & USED | loaded,
                _ => {
                    overlap = DataOverlap::Code;
                    *mark | loaded
                }
            };
        }
        overlap
    }

    /// Whether the instruction at `offset` is code only if the code that leads to it is.
    pub fn is_soft(&self, offset: usize) -> bool {
        self.has(offset, SOFT)
    }

    /// Whether code that is no guess loads the halfword at `offset`.
    pub fn is_loaded(&self, offset: usize) -> bool {
        self.has(offset, LOADED)
    }

    /// Whether any code loads the halfword at `offset`.
    pub fn is_perhaps_loaded(&self, offset: usize) -> bool {
        self.has(offset, LOADED | GUESSED)
    }

    fn has(&self, offset: usize, flags: u8) -> bool {
        let mark = self.marks.get(offset / 2);
        mark.is_some_and(|mark| mark & flags != 0)
    }

    /// The offset and the mark of each halfword within `range` of bytes.
    pub fn iter(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, Mark)> + '_ {
        let (first, last) = (range.start.div_ceil(2), range.end.div_ceil(2));
        (first..last.min(self.marks.len())).map(|n| (2 * n, self.get(2 * n)))
    }
}
