//! The fuzzer's memory: pages for code, data and tables, and memory that a step may overwrite.

use crate::arch::fuzz::code::synchronize_all;
use crate::arch::fuzz::trip::ARRIVE;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: u64 = 4096;

/// A page of words, used as code or data by whatever maps it.
#[repr(C, align(4096))]
pub struct Words(pub [AtomicU64; 512]);

/// The page of code: EL1 runs it at its own address, EL0 where `space` maps it.
pub static CODE: Words = Words([const { AtomicU64::new(0) }; 512]);
/// The page of EL0's data.
pub static DATA: Words = Words([const { AtomicU64::new(0) }; 512]);
/// The page that is used as a table of random descriptors.
pub static GARBAGE: Words = Words([const { AtomicU64::new(0) }; 512]);

/// A page without instructions: zero in A64; `space` fills it for A32 and T32.
pub static ZEROS: Words = Words([const { AtomicU64::new(0) }; 512]);

impl Words {
    /// Its physical address, which is its virtual address for EL1.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }
}

/// Memory that a step may overwrite, between guard areas that no step may overwrite.
#[repr(C, align(4096))]
pub struct Scratch {
    before: [AtomicU64; 512],
    free: [AtomicU64; 512],
    behind: [AtomicU64; 512],
}

/// The only instance.
pub static SCRATCH: Scratch = Scratch {
    before: [const { AtomicU64::new(0) }; 512],
    free: [const { AtomicU64::new(0) }; 512],
    behind: [const { AtomicU64::new(0) }; 512],
};

impl Scratch {
    /// The middle of the free area; 1 KiB on either side is free too.
    pub fn middle(&self) -> u64 {
        core::ptr::from_ref(&self.free).addr() as u64 + PAGE / 2
    }

    fn fence(&self) -> impl Iterator<Item = (u64, &AtomicU64)> {
        let pattern = (1..).map(|index: u64| index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        pattern.zip(self.before.iter().chain(&self.behind))
    }

    /// Fills the guard areas before and behind with a pattern.
    pub fn build_fence(&self) {
        self.fence()
            .for_each(|(pattern, word)| word.store(pattern, Relaxed));
    }

    /// Returns how many words of the guard areas changed.
    pub fn breaches(&self) -> usize {
        let wrong = |(pattern, word): &(u64, &AtomicU64)| word.load(Relaxed) != *pattern;
        self.fence().filter(wrong).count()
    }
}

/// Writes these words, and the end of a trip behind them, to the page of code, where EL1 and EL0
/// can run them.
pub fn put_code(words: impl IntoIterator<Item = u32>) {
    let mut words = words.into_iter().chain([ARRIVE, ARRIVE, ARRIVE]);
    for cell in &CODE.0 {
        let Some(low) = words.next() else { break };
        let high = words.next().unwrap_or(ARRIVE);
        cell.store(u64::from(high) << 32 | u64::from(low), Relaxed);
    }
    synchronize_all();
}
