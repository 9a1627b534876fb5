//! How much may be reckoned, and what is said where that is not enough.

use crate::kinds::Unproven;
use thiserror::Error;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Undecided {
    /// An intermediate value is beyond 128 bits, or an instant beyond 64.
    #[error("the numbers are too large for an exact answer")]
    TooLarge,
    /// The test would take more steps than are allowed.
    #[error("the exact test needs more steps than it may take")]
    TooLong,
    /// A kind of server where nothing is proven about it.
    #[error(transparent)]
    Server(Unproven),
    /// Global EDF with a deadline after the next arrival.
    #[error("the test for several CPUs needs deadlines no longer than periods")]
    Unconstrained,
}

/// Steps that are left; a step is one look at one member of a component.
#[derive(Clone, Copy, Debug)]
pub struct Work(u64);

impl Work {
    /// What one test may take: less than a second on a PC.
    pub const TEST: u64 = 20_000_000;

    /// What one model may take: some seconds on a PC.
    pub const MODEL: u64 = 1_000_000_000;

    /// So many steps.
    pub const fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// How many are left.
    pub const fn left(&self) -> u64 {
        self.0
    }

    /// Takes `steps`, or says that they are not there.
    pub fn spend(&mut self, steps: usize) -> Result<(), Undecided> {
        let left = self.0.checked_sub((steps as u64).max(1));
        self.0 = left.ok_or(Undecided::TooLong)?;
        Ok(())
    }

    /// A part of what is left, at most `steps`, that is not taken from the whole yet.
    pub fn part(&self, steps: u64) -> Self {
        Self(self.0.min(steps))
    }

    /// Takes what was used of `part`, which began with `began`.
    pub fn settle(&mut self, began: Self, part: Self) {
        self.0 = self.0.saturating_sub(began.0.saturating_sub(part.0));
    }
}
