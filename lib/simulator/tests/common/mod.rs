//! What the tests with random sets share.

#![allow(dead_code, reason = "each test program uses a part")]

/// xorshift (Marsaglia 2003): it gives the same sets everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The number of sets to try: `HANOK_SETS`, or `few` if that is not set.
pub fn sets_or(few: usize) -> usize {
    let sets = std::env::var("HANOK_SETS").ok();
    sets.map_or(few, |sets| sets.parse().expect("a number of sets"))
}
