//! Execution times as they are measured. What was measured until now is no bound on what comes: this is for tasks whose
//! longest execution time nobody knows, and whose deadlines may be missed once in a while.

use alloc::vec::Vec;

/// The number of samples that are kept.
const KEPT: usize = 128;
/// So many samples have to be there before an estimate is below what was declared.
const ENOUGH: usize = 16;

/// The execution times of a task's jobs.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    samples: Vec<u64>,
    next: usize,
    largest: u64,
}

impl Estimator {
    /// Adds what a job took, or the mean of some jobs.
    pub fn add(&mut self, took: u64) {
        self.largest = self.largest.max(took);
        match self.samples.get_mut(self.next) {
            Some(place) => *place = took,
            None => self.samples.push(took),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The execution time to reckon with: the 99th percentile of the last samples and `margin` per cent of it, and never
    /// below the largest sample there ever was. Before there are enough samples it is not below `declared` either.
    pub fn estimate(&self, declared: u64, margin: u32) -> u64 {
        let with_margin = |time: u64| {
            let more = u128::from(time) * u128::from(margin) / 100;
            time.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
        };
        let estimate = with_margin(self.percentile()).max(self.largest);
        if self.samples.len() < ENOUGH {
            estimate.max(declared)
        } else {
            estimate.max(1)
        }
    }

    /// The 99th percentile: of 128 samples, the second largest.
    fn percentile(&self) -> u64 {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let place = (sorted.len() * 99).div_ceil(100).saturating_sub(1);
        sorted.get(place).copied().unwrap_or(0)
    }
}
