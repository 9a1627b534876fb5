//! Bounds the work of an analysis, and says what the answer is where that is not enough.

use crate::kinds::Unproven;
use thiserror::Error;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Undecided {
    /// An intermediate value is beyond 128 bits, or an instant beyond 64 bits.
    #[error("the numbers are too large for an exact answer")]
    TooLarge,
    /// The test would take more steps than are allowed.
    #[error("the exact test needs more steps than it may take")]
    TooLong,
    /// A kind of server about which nothing is proven in its place.
    #[error(transparent)]
    Server(Unproven),
    /// Global EDF with a deadline behind the next arrival.
    #[error("the test for several CPUs needs deadlines no longer than periods")]
    Unconstrained,
}

/// The steps that are left. A step is one look at one member of a component.
#[derive(Clone, Copy, Debug)]
pub struct Work(u64);

impl Work {
    /// The largest number of steps of one test: less than a second on a PC.
    pub const TEST: u64 = 20_000_000;

    /// The largest number of steps for one model: some seconds on a PC.
    pub const MODEL: u64 = 1_000_000_000;

    /// A budget of `steps` steps.
    pub const fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// The number of steps that are left.
    pub const fn left(&self) -> u64 {
        self.0
    }

    /// Takes `steps`; an error if fewer are left.
    pub fn spend(&mut self, steps: usize) -> Result<(), Undecided> {
        let left = self.0.checked_sub((steps as u64).max(1));
        self.0 = left.ok_or(Undecided::TooLong)?;
        Ok(())
    }

    /// A part of at most `steps` of the steps that are left. They are not taken from the whole yet:
    /// see [`Self::charge_part`].
    pub fn part(&self, steps: u64) -> Self {
        Self(self.0.min(steps))
    }

    /// Takes the steps that were used of `part`, which began as `began`.
    pub fn charge_part(&mut self, began: Self, part: Self) {
        self.0 = self.0.saturating_sub(began.0.saturating_sub(part.0));
    }
}
