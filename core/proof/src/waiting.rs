//! Places that are reached and not yet followed.

use crate::place::Place;

/// How many places wait at most. A function's open branches are few, since the latest is followed
/// first.
const CAPACITY: usize = 32;

/// A stack of places. What does not fit is lost, which is allowed here: it is found again when it is
/// fetched.
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

    /// Keeps `place` if there is room.
    pub fn push(&mut self, place: Place) {
        if let Some(free) = self.places.get_mut(self.number) {
            *free = Some(place);
            self.number += 1;
        }
    }

    /// Takes the place that came last.
    pub fn pop(&mut self) -> Option<Place> {
        self.number = self.number.checked_sub(1)?;
        self.places.get_mut(self.number)?.take()
    }
}
