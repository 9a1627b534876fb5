//! Places that are reached and not yet followed.

use crate::place::Place;

/// How many places wait at most. A function's open branches are few, since the latest is followed
/// first.
const CAPACITY: usize = 32;

/// A stack of places. What does not fit is lost, and has to be searched for again.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    places: [Option<Place>; CAPACITY],
    number: usize,
}

impl Waiting {
    /// No places.
    pub const NONE: Self = Self {
        places: [None; CAPACITY],
        number: 0,
    };

    /// Keeps `place` if there is room; answers whether there was.
    #[must_use]
    pub fn push(&mut self, place: Place) -> bool {
        let Some(free) = self.places.get_mut(self.number) else {
            return false;
        };
        *free = Some(place);
        self.number += 1;
        true
    }

    /// Takes the place that came last.
    pub fn pop(&mut self) -> Option<Place> {
        self.number = self.number.checked_sub(1)?;
        self.places.get_mut(self.number)?.take()
    }
}
