//! Memory of the fuzzer's that is for whoever maps it, and memory that a step may spoil.

use crate::arch::fuzz::code::synchronize_all;
use crate::arch::fuzz::trip::ARRIVE;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;

/// A page of words, which is code or data for whoever maps it.
#[repr(C, align(4096))]
pub struct Words(pub [AtomicU64; 512]);

/// What is run: seen at its own address, and by EL0 where `space` says.
pub static CODE: Words = Words([const { AtomicU64::new(0) }; 512]);
/// EL0's data.
pub static DATA: Words = Words([const { AtomicU64::new(0) }; 512]);
/// A table full of garbage.
pub static GARBAGE: Words = Words([const { AtomicU64::new(0) }; 512]);

/// Nothing but what is no instruction: zero in A64; `space` fills it otherwise.
pub static ZEROS: Words = Words([const { AtomicU64::new(0) }; 512]);

impl Words {
    /// Its physical address, which is its virtual one for EL1.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }
}

/// Memory that a step may write to, in the middle of memory that nobody may.
#[repr(C, align(4096))]
pub struct Scratch {
    before: [AtomicU64; 512],
    free: [AtomicU64; 512],
    behind: [AtomicU64; 512],
}

/// The one.
pub static SCRATCH: Scratch = Scratch {
    before: [const { AtomicU64::new(0) }; 512],
    free: [const { AtomicU64::new(0) }; 512],
    behind: [const { AtomicU64::new(0) }; 512],
};

impl Scratch {
    /// The middle of what is free; 1 KiB on either side is, too.
    pub fn middle(&self) -> u64 {
        core::ptr::from_ref(&self.free).addr() as u64 + PAGE / 2
    }

    fn fence(&self) -> impl Iterator<Item = (u64, &AtomicU64)> {
        let pattern = (1..).map(|index: u64| index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        pattern.zip(self.before.iter().chain(&self.behind))
    }

    /// Puts a pattern before and behind.
    pub fn build_fence(&self) {
        self.fence()
            .for_each(|(pattern, word)| word.store(pattern, Relaxed));
    }

    /// How many words before and behind are not what they were.
    pub fn breaches(&self) -> usize {
        let wrong = |(pattern, word): &(u64, &AtomicU64)| word.load(Relaxed) != *pattern;
        self.fence().filter(wrong).count()
    }
}

/// Puts these words where EL1 and EL0 can run them, with the way back behind them.
pub fn put_code(words: impl IntoIterator<Item = u32>) {
    let mut words = words.into_iter().chain([ARRIVE, ARRIVE, ARRIVE]);
    for cell in &CODE.0 {
        let Some(low) = words.next() else { break };
        let high = words.next().unwrap_or(ARRIVE);
        cell.store(u64::from(high) << 32 | u64::from(low), Relaxed);
    }
    synchronize_all();
}
