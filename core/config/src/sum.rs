//! The sum by which the board recognises a damaged image.
//!
//! It protects against accidents (bad flash, an incomplete transfer), not against an attacker, who
//! could change the sum together with the blob. Each word is XORed into the rotated state, and the
//! state is multiplied by an odd number. For a given word this maps states one to one, and for a
//! given state it maps words one to one. So a change of a single word always changes the result.
//! Because of the rotation high bits influence low ones, so that swapped words are recognised, too.
//! Fletcher's two running sums were tried first: they miss words that are swapped at an even
//! distance and differ only in their top bit.
//!
//! Tens of megabytes are summed at boot: for aligned data, eight bytes cost one load, one XOR with
//! a rotation and one multiplication.

use zerocopy::FromBytes;

/// An odd number without pattern: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const ROTATION: u32 = 26;

/// The sum of `data`, read as little-endian words of 64 bits, zeros added at the end.
pub fn sum(data: &[u8]) -> u64 {
    let mut sum = Sum::new();
    sum.update(data);
    sum.finish()
}

/// The same sum, for data in pieces of any length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    state: u64,
    len: u64,
    /// The bytes that are not summed yet, `len % 8` of them.
    rest: [u8; 8],
}

impl Sum {
    /// The sum of no data.
    pub const fn new() -> Self {
        Self {
            state: 0,
            len: 0,
            rest: [0; 8],
        }
    }

    /// Adds `data`. This is fastest if `data` begins at a multiple of 8 bytes in memory and the
    /// length of every earlier piece was a multiple of 8 bytes.
    pub fn update(&mut self, data: &[u8]) {
        let data = self.fill_rest(data);
        let (whole, tail) = data.split_at(whole_words(data.len()));
        self.state = match <[u64]>::ref_from_bytes(whole) {
            Ok(words) => aligned(self.state, words),
            Err(_) => unaligned(self.state, whole),
        };
        self.len = self.len.wrapping_add(whole.len() as u64);
        self.fill_rest(tail);
    }

    /// Adds `data` and copies it to `to`, which has the same length. It is fast in the same case as
    /// [`Self::update`], if `to` begins at a multiple of 8 bytes, too.
    ///
    /// # Panics
    /// If `to` has another length.
    // Always inlined: this crate is optimized for size and its caller for speed, and inlined code
    // is optimized as the caller is. Out of line, the compiler would merge the repetitions in the
    // loop.
    #[inline(always)]
    pub fn update_copying(&mut self, data: &[u8], to: &mut [u8]) {
        let whole = whole_words(data.len());
        if self.len.is_multiple_of(8)
            && let Some((from, tail)) = data.split_at_checked(whole)
            && let Some((to, to_tail)) = to.split_at_mut_checked(whole)
            && let (Ok(from), Ok(to)) = (<[u64]>::ref_from_bytes(from), <[u64]>::mut_from_bytes(to))
        {
            self.state = copying(self.state, from, to);
            self.len = self.len.wrapping_add(whole as u64);
            if !tail.is_empty() {
                to_tail.copy_from_slice(tail);
                self.update(tail);
            }
        } else {
            to.copy_from_slice(data);
            self.update(data);
        }
    }

    /// The sum of all data.
    pub fn finish(mut self) -> u64 {
        let len = self.len;
        while !self.len.is_multiple_of(8) {
            self.fill_rest(&[0]);
        }
        step(self.state, len)
    }

    /// Completes a word that was begun earlier, or begins one that `data` does not fill. The answer
    /// is the rest of `data`.
    fn fill_rest<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let begun = (self.len % 8) as usize;
        if begun == 0 && data.len() >= 8 {
            return data;
        }
        let room = self.rest.get_mut(begun..).unwrap_or_default();
        let (now, later) = data.split_at(room.len().min(data.len()));
        for (to, from) in room.iter_mut().zip(now) {
            *to = *from;
        }
        self.len = self.len.wrapping_add(now.len() as u64);
        if self.len.is_multiple_of(8) && !now.is_empty() {
            self.state = step(self.state, u64::from_le_bytes(self.rest));
        }
        later
    }
}

/// The part of `len` bytes that consists of whole words.
#[inline(always)]
fn whole_words(len: usize) -> usize {
    len & !7
}

/// Adds whole words, in blocks, so that the loop itself costs little.
fn aligned(state: u64, words: &[u64]) -> u64 {
    let (blocks, rest) = words.as_chunks::<16>();
    let one = |state, word: &u64| step(state, u64::from_le(*word));
    let state = blocks
        .iter()
        .fold(state, |state, block| block.iter().fold(state, one));
    rest.iter().fold(state, one)
}

/// As [`aligned`], and copies, in blocks for which a CPU has enough registers.
#[inline(always)]
fn copying(state: u64, from: &[u64], to: &mut [u64]) -> u64 {
    if usize::BITS < u64::BITS {
        return copying_pairs(state, from, to);
    }
    copying_eights(state, from, to)
}

/// Eight words at a time, each with a name, so that the compiler loads and stores them in pairs.
#[inline(always)]
fn copying_eights(mut state: u64, from: &[u64], to: &mut [u64]) -> u64 {
    let (blocks, rest) = from.as_chunks::<8>();
    let (to_blocks, to_rest) = to.as_chunks_mut::<8>();
    for (block, to) in blocks.iter().zip(to_blocks) {
        let [a, b, c, d, e, f, g, h] = *block;
        *to = [a, b, c, d, e, f, g, h];
        // Written out: with optimization for size a loop would stay a loop, and cost twice as much.
        let four = |state, [a, b, c, d]: [u64; 4]| {
            let state = step(step(state, u64::from_le(a)), u64::from_le(b));
            step(step(state, u64::from_le(c)), u64::from_le(d))
        };
        state = four(four(state, [a, b, c, d]), [e, f, g, h]);
    }
    copying_pairs(state, rest, to_rest)
}

/// Two words at a time: on a CPU of 32 bits these are four registers, besides those of the state
/// and the factor.
#[inline(always)]
fn copying_pairs(mut state: u64, from: &[u64], to: &mut [u64]) -> u64 {
    let (blocks, rest) = from.as_chunks::<2>();
    let (to_blocks, to_rest) = to.as_chunks_mut::<2>();
    for (block, to) in blocks.iter().zip(to_blocks) {
        let [a, b] = *block;
        *to = [a, b];
        state = step(step(state, u64::from_le(a)), u64::from_le(b));
    }
    for (word, to) in rest.iter().zip(to_rest) {
        *to = *word;
        state = step(state, u64::from_le(*word));
    }
    state
}

fn unaligned(state: u64, bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let one = |state, word: &[u8; 8]| step(state, u64::from_le_bytes(*word));
    words.iter().fold(state, one)
}

#[inline(always)]
fn step(state: u64, word: u64) -> u64 {
    (state.rotate_left(ROTATION) ^ word).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_count() {
        assert_ne!(sum(&[]), sum(&[0]));
        assert_ne!(sum(&[0; 8]), sum(&[0; 16]));
        assert_ne!(sum(&[1, 0]), sum(&[1]));
    }

    #[test]
    fn the_format_stays() {
        assert_eq!(
            sum(b"The same sum on PC and board, always."),
            0x94aa_857f_2c8d_d613
        );
    }

    #[test]
    fn swapped_words_that_differ_in_one_bit_are_noticed() {
        for distance in [1, 2, 64, 128, 512] {
            for bit in 0..64 {
                let mut words = std::vec![[0u8; 8]; 600];
                words[3] = (1u64 << bit).to_le_bytes();
                let before = sum(words.as_flattened());
                words.swap(3, 3 + distance);
                assert_ne!(sum(words.as_flattened()), before, "{distance} {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn copying_is_summing_and_copying(data: std::vec::Vec<u8>, from in 0..8usize, cut: u8) {
            let data = data.get(from.min(data.len())..).unwrap();
            let (first, second) = data.split_at(data.len().min(usize::from(cut)));
            let mut copy = std::vec![0; data.len()];
            let (to_first, to_second) = copy.split_at_mut(first.len());
            let mut both = Sum::new();
            both.update_copying(first, to_first);
            both.update_copying(second, to_second);
            prop_assert_eq!(both.finish(), sum(data));
            prop_assert_eq!(copy.as_slice(), data);
        }

        #[test]
        fn pieces_make_the_whole(data: std::vec::Vec<u8>, cuts: [u8; 3]) {
            let mut pieces = Sum::new();
            let mut left = data.as_slice();
            for cut in cuts {
                let (now, later) = left.split_at(left.len().min(usize::from(cut)));
                pieces.update(now);
                left = later;
            }
            pieces.update(left);
            prop_assert_eq!(pieces.finish(), sum(&data));
        }

        #[test]
        fn a_flipped_bit_is_noticed(mut data in prop::collection::vec(any::<u8>(), 1..300), at: usize) {
            let before = sum(&data);
            let at = at % (data.len() * 8);
            data[at / 8] ^= 1 << (at % 8);
            prop_assert_ne!(sum(&data), before);
        }
    }
}
