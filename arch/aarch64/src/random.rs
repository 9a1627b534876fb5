//! Random bytes for guests' seeds.
//!
//! A guest without an `rng-seed` waits long for its random pool to fill, so every VM gets
//! one. ChaCha, seeded once from the boot loader's own seed and the counter; with neither
//! changing (a reproducible run) the bytes are the same each time, which is wanted then.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The generator.
#[allow(missing_debug_implementations)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// From the boot loader's seed, which may be empty, and the counter.
    pub fn new(seed: &[u8], counter: u64) -> Self {
        let mut key = [0; 32];
        for (index, byte) in seed.iter().enumerate() {
            key[index % 32] ^= *byte;
        }
        for (byte, more) in key.iter_mut().zip(counter.to_le_bytes()) {
            *byte ^= more;
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
