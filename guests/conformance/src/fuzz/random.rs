//! Numbers that look random and follow from the seed and the step's number alone, so that a
//! step can be done again without those before it.

/// A sequence of numbers (SplitMix64: the state is a counter, and each number is the state with its
/// bits mixed).
#[derive(Clone)]
pub struct Random(u64);

/// 2^64 divided by the golden ratio, odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits of `value`; different values give different results.
const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl Random {
    /// The sequence of step `index` under `seed`.
    pub const fn of(seed: u64, index: u64) -> Self {
        Self(mix(seed ^ mix(index.wrapping_add(STEP))))
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, which is not zero and well below 2^32.
    pub const fn below(&mut self, limit: u64) -> u64 {
        ((self.next() >> 32) * limit) >> 32
    }

    /// True with a probability of one in `times`.
    pub const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Chooses one of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A value that often breaks code: zero, all ones, one bit, the edge of a width, a small
    /// number, or any number.
    pub fn value(&mut self) -> u64 {
        let any = self.next();
        match self.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (any % 64),
            3 => (1_u64 << (any % 64)).wrapping_sub(1),
            4 => any % 256,
            5 => any & 0xffff_ffff,
            _ => any,
        }
    }
}
