//! One bit for each halfword of a frame.

use crate::frame::HALFWORDS;

/// A set of halfwords of a frame, named by their offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits([u32; HALFWORDS / 32]);

impl Bits {
    /// The empty set.
    pub const NONE: Self = Self([0; HALFWORDS / 32]);

    /// Whether the halfword at `offset` is in the set. An offset beyond the frame never is.
    pub fn has(&self, offset: u32) -> bool {
        let half = offset / 2;
        self.0
            .get((half / 32) as usize)
            .is_some_and(|bits| bits >> (half % 32) & 1 != 0)
    }

    /// Puts the halfword at `offset` into the set. An offset beyond the frame changes nothing.
    pub fn put(&mut self, offset: u32) {
        let half = offset / 2;
        if let Some(bits) = self.0.get_mut((half / 32) as usize) {
            *bits |= 1 << (half % 32);
        }
    }
}
