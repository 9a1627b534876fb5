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
    /// Kind, with [`LOADED`] where it is loaded whatever it is, and so on: a byte each, since all of
    /// them are gone through, and copied.
    marks: Vec<u8>,
    /// ITSTATE where an instruction begins in an IT block; nothing as long as none does.
    blocks: Vec<u8>,
}

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

    /// Takes over all of `other`.
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
        self.set(offset, kind | soft);
        self.set_block(offset, it);
        if len > 2 {
            self.set(offset + 2, BODY | soft);
        }
    }

    /// `len` bytes of data are at `offset`, which something loads; `guessed` if that itself may
    /// be no code. What is code stays so: whether some of it is.
    pub fn data(&mut self, offset: usize, len: usize, guessed: bool) -> bool {
        let first = offset / 2;
        let last = (offset + len.max(1)).div_ceil(2).min(self.marks.len());
        let loaded = if guessed { GUESSED } else { LOADED };
        let mut code = false;
        for mark in self.marks.get_mut(first..last).unwrap_or_default() {
            *mark = match *mark & KIND {
                UNKNOWN | DATA => DATA | *mark & USED | loaded,
                _ => {
                    code = true;
                    *mark | loaded
                }
            };
        }
        code
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
        mark.is_some_and(|mark| mark & flags != 0)
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
