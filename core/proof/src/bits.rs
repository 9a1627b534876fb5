//! One bit for each halfword of a frame.

use crate::frame::HALFWORDS;

/// The halfwords that one word of the set stands for.
const EACH: u32 = u32::BITS;
/// The number of words of the set.
pub(crate) const LENGTH: usize = HALFWORDS / EACH as usize;

/// A set of halfwords of a frame, named by their offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits([u32; LENGTH]);

impl Bits {
    /// The empty set.
    pub const NONE: Self = Self([0; LENGTH]);
    /// The whole frame.
    pub const ALL: Self = Self([u32::MAX; LENGTH]);

    /// Whether the halfword at `offset` is in the set. An offset beyond the frame never is.
    pub fn has(&self, offset: u32) -> bool {
        let half = offset / 2;
        self.0
            .get((half / EACH) as usize)
            .is_some_and(|bits| bits >> (half % EACH) & 1 != 0)
    }

    /// Puts the halfword at `offset` into the set. An offset beyond the frame changes nothing.
    pub fn put(&mut self, offset: u32) {
        let half = offset / 2;
        if let Some(bits) = self.0.get_mut((half / EACH) as usize) {
            *bits |= 1 << (half % EACH);
        }
    }

    /// Takes the halfword at `offset` out of the set.
    pub fn remove(&mut self, offset: u32) {
        let half = offset / 2;
        if let Some(bits) = self.0.get_mut((half / EACH) as usize) {
            *bits &= !(1 << (half % EACH));
        }
    }

    /// Decides about both halfwords of the word with number `word`: the lower bit of `two` is the
    /// first one's. A word beyond the frame changes nothing.
    pub fn set_word(&mut self, word: u32, two: u32) {
        let (half, mask) = (word.saturating_mul(2), 0b11);
        if let Some(bits) = self.0.get_mut((half / EACH) as usize) {
            let shift = half % EACH;
            *bits = *bits & !(mask << shift) | (two & mask) << shift;
        }
    }

    /// Decides about 32 halfwords. A number beyond the set changes nothing.
    pub fn set(&mut self, number: usize, bits: u32) {
        if let Some(word) = self.0.get_mut(number) {
            *word = bits;
        }
    }

    /// The bits, 32 halfwords at a time, the first halfword in the lowest bit.
    pub const fn words(&self) -> &[u32; LENGTH] {
        &self.0
    }
}

/// The offset of a halfword: the bit with number `bit` in the word with number `word`.
pub(crate) fn offset(word: usize, bit: u32) -> u32 {
    (word as u32 * EACH + bit) * 2
}

/// The word of the set, and the bit in it, of the first halfword at `offset` or behind.
pub(crate) const fn position(offset: u32) -> (usize, u32) {
    let half = offset.div_ceil(2);
    ((half / EACH) as usize, half % EACH)
}
