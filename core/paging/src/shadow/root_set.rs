//! Sets of roots.

use core::ops::{BitAnd, BitOr};

/// The most roots that [`Shadow`](super::Shadow) may have.
pub(super) const MOST_ROOTS: usize = 128;
const BITS: usize = u32::BITS as usize;
const WORDS: usize = MOST_ROOTS / BITS;

/// Some of the roots of a vCPU's shadow tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootSet([u32; WORDS]);

impl RootSet {
    /// No root.
    pub const NONE: Self = Self([0; WORDS]);

    /// The first `number` roots.
    pub(super) const fn first(number: usize) -> Self {
        let mut words = [0; WORDS];
        let mut root = 0;
        while root < number {
            words[root / BITS] |= 1 << (root % BITS);
            root += 1;
        }
        Self(words)
    }

    pub(super) fn contains(&self, root: usize) -> bool {
        let word = self.0.get(root / BITS);
        word.is_some_and(|word| word >> (root % BITS) & 1 != 0)
    }

    pub(super) fn insert(&mut self, root: usize) {
        if let Some(word) = self.0.get_mut(root / BITS) {
            *word |= 1 << (root % BITS);
        }
    }

    pub(super) fn remove(&mut self, root: usize) {
        if let Some(word) = self.0.get_mut(root / BITS) {
            *word &= !(1 << (root % BITS));
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether all of the others are among them.
    pub(super) fn has_all(&self, others: &Self) -> bool {
        // Not by ==, which calls a function that compares bytes.
        let missing = self.0.iter().zip(&others.0).map(|(all, some)| some & !all);
        missing.fold(0, |one, other| one | other) == 0
    }

    /// Their numbers, the greatest first.
    pub(super) fn numbers(self) -> impl Iterator<Item = usize> {
        let Self(mut words) = self;
        let mut left = WORDS;
        core::iter::from_fn(move || {
            loop {
                let word = words.get_mut(left.wrapping_sub(1))?;
                if let Some(bit) = word.checked_ilog2() {
                    *word &= !(1 << bit);
                    return Some((left - 1) * BITS + bit as usize);
                }
                left -= 1;
            }
        })
    }

    /// Those of them for which `is_meant` holds.
    #[inline(always)]
    pub(super) fn filter(mut self, is_meant: impl Fn(usize) -> bool) -> Self {
        // Not by iterators: there may be many, and each is to take few instructions. The loop is to stay one.
        for number in 0..core::hint::black_box(WORDS).min(WORDS) {
            let mut left = self.0[number];
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left ^= bit;
                if !is_meant(number * BITS + bit.trailing_zeros() as usize) {
                    self.0[number] ^= bit;
                }
            }
        }
        self
    }
}

impl BitAnd for RootSet {
    type Output = Self;
    fn bitand(self, others: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & others.0[word]))
    }
}

impl BitOr for RootSet {
    type Output = Self;
    fn bitor(self, others: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] | others.0[word]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_set_has_is_found() {
        let mut set = RootSet::NONE;
        for root in [127, 0, 31, 32, 64, 5] {
            set.insert(root);
        }
        set.remove(5);
        set.remove(6);
        assert!(set.numbers().eq([127, 64, 32, 31, 0]));
        assert_eq!(set.count(), 5);
        assert!(set.contains(127) && !set.contains(5) && !set.contains(126));
        assert!(set.filter(|root| root % 2 == 0).numbers().eq([64, 32, 0]));
        let some = RootSet::first(33);
        assert!(some.count() == 33 && (set & some).numbers().eq([32, 31, 0]));
        assert!(set.has_all(&(set & some)) && !set.has_all(&some));
        assert_eq!((set | some).count(), 35);
        assert!(RootSet::NONE.numbers().next().is_none());
    }
}
