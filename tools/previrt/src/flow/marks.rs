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
        match kind & !LOADED {
            START_A32 => Mark::Start(Isa::A32, ItState::NONE),
            START_T32 => Mark::Start(Isa::T32, ItState::from_bits(it)),
            BODY => Mark::Body,
            DATA => Mark::Data,
            _ => Mark::Unknown,
        }
    }

    fn set(&mut self, offset: usize, packed: Packed) {
        if let Some(mark) = self.marks.get_mut(offset / 2) {
            *mark = Packed(packed.0 | mark.0 & LOADED, packed.1);
        }
    }

    /// An instruction of `len` bytes is at `offset`.
    pub fn code(&mut self, offset: usize, len: usize, isa: Isa, it: ItState) {
        let kind = if isa == Isa::A32 {
            START_A32
        } else {
            START_T32
        };
        self.set(offset, Packed(kind, it.into_bits()));
        if len > 2 {
            self.set(offset + 2, Packed(BODY, 0));
        }
    }

    /// `len` bytes of data are at `offset`; what is code stays so. Whether any was code.
    pub fn data(&mut self, offset: usize, len: usize) -> bool {
        let first = offset / 2;
        let last = (offset + len.max(1)).div_ceil(2).min(self.marks.len());
        let Some(marks) = self.marks.get_mut(first..last) else {
            return false;
        };
        let mut code = false;
        for mark in marks {
            match mark.0 & !LOADED {
                UNKNOWN | DATA => *mark = Packed(DATA | LOADED, 0),
                _ => (mark.0, code) = (mark.0 | LOADED, true),
            }
        }
        code
    }

    /// What is loaded as data, and nothing known of the rest.
    pub fn data_alone(&self) -> Self {
        let keep = |mark: &Packed| match mark.0 & LOADED {
            0 => Packed::default(),
            _ => Packed(DATA | LOADED, 0),
        };
        Self {
            marks: self.marks.iter().map(keep).collect(),
        }
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
