//! Places that are reached and not yet followed.

use crate::bits::{self, Bits};
use crate::place::Place;
use hanok_decode::aarch32::{Isa, ItState};

/// A set of halfwords that finds one of its members at once.
#[derive(Clone, Debug)]
struct Found {
    bits: Bits,
    /// Which words of the set are not empty, a bit for each.
    used: u64,
}

const _: () = assert!(bits::LENGTH <= u64::BITS as usize);

impl Found {
    const NONE: Self = Self {
        bits: Bits::NONE,
        used: 0,
    };

    fn put(&mut self, offset: u32) {
        self.bits.put(offset);
        self.used |= 1 << (bits::position(offset).0 as u64 % u64::from(u64::BITS));
    }

    /// Takes the first member.
    fn take(&mut self) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let number = self.used.trailing_zeros() as usize;
        let word = self.bits.words().get(number).copied().unwrap_or(0);
        let offset = bits::offset(number, word.trailing_zeros());
        self.bits.remove(offset);
        if word.count_ones() <= 1 {
            self.used &= self.used - 1;
        }
        Some(offset)
    }
}

/// Places outside of IT blocks, as all targets of branches are. There is room for every place of the
/// frame, so that the flow is not finished before each place that it reaches is proven.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    a32: Found,
    t32: Found,
}

impl Waiting {
    /// No places.
    pub const NONE: Self = Self {
        a32: Found::NONE,
        t32: Found::NONE,
    };

    /// Keeps `place`, as one outside of an IT block.
    pub fn push(&mut self, place: Place) {
        match place.isa() {
            Isa::A32 => self.a32.put(place.offset()),
            Isa::T32 => self.t32.put(place.offset()),
        }
    }

    /// Takes one of the places.
    pub fn pop(&mut self) -> Option<Place> {
        let a32 = self.a32.take().map(|offset| (offset, Isa::A32));
        let (offset, isa) = a32.or_else(|| self.t32.take().map(|offset| (offset, Isa::T32)))?;
        Place::new(offset, isa, ItState::NONE)
    }
}
