//! Random numbers that are the same everywhere.

/// xorshift (Marsaglia, Journal of Statistical Software 8(14) 2003).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed. Seeds beside each other give unrelated numbers.
    pub fn new(seed: u64) -> Self {
        // The seed is mixed (Steele, Lea & Flood, OOPSLA 2014), as xorshift begins slowly.
        let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ mixed >> 31).max(1))
    }

    /// A number below `limit`, or 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    /// A number from `least` to `most`.
    pub fn from(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Whether something happens that does so in `cases` of `all`.
    pub fn chance(&mut self, cases: u64, all: u64) -> bool {
        self.below(all) < cases
    }

    /// One of `all`, which are not empty.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// A number from 0 to 1.
    fn unit(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }

    /// `count` shares whose sum is `whole`, all such sets equally likely (UUniFast: Bini & Buttazzo,
    /// Real-Time Systems 30, 2005).
    pub fn shares(&mut self, count: usize, whole: f64) -> Vec<f64> {
        let mut left = whole;
        let mut all = Vec::new();
        for others in (0..count).rev() {
            let next = match others {
                0 => 0.0,
                others => left * self.unit().powf(1.0 / others as f64),
            };
            all.push(left - next);
            left = next;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_spread() {
        let mut random = Random::new(1);
        let mut first = 0.0;
        for _ in 0..1_000 {
            let shares = random.shares(4, 0.9);
            assert!((shares.iter().sum::<f64>() - 0.9).abs() < 1e-9);
            assert!(shares.iter().all(|share| (0.0..=0.9).contains(share)));
            first += shares[0];
        }
        // Each has a quarter on average.
        assert!((0.21..0.24).contains(&(first / 1_000.0)), "{first}");
    }

    #[test]
    fn seeds_are_different() {
        let of = |seed| Random::new(seed).below(1 << 60);
        assert!((0..100).all(|seed| of(seed) != of(seed + 1)));
    }
}
