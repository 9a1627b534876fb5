//! The account of a task's jobs.

use core::cell::Cell;
use core::fmt;

use critical_section::Mutex;

use super::clock;

/// What was counted so far; times in ticks of the counter.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// The number of finished jobs.
    pub jobs: u32,
    /// The number of jobs that finished after their deadlines.
    pub misses: u32,
    /// The longest time from when a job was due to begin until its first instruction.
    pub late: u64,
    /// The longest time from when a job was due to begin until its end.
    pub response: u64,
}

/// The account of one task.
pub struct Account {
    /// The task's name.
    pub name: &'static str,
    figures: Mutex<Cell<Figures>>,
}

impl Account {
    /// An empty account.
    pub const fn new(name: &'static str) -> Self {
        let none = Figures {
            jobs: 0,
            misses: 0,
            late: 0,
            response: 0,
        };
        Self {
            name,
            figures: Mutex::new(Cell::new(none)),
        }
    }

    /// Counts a job that was `due` to begin, has `begun`, and is finished now; it should have been
    /// at `deadline`.
    pub fn count(&self, due: u64, begun: u64, deadline: u64) {
        let done = clock::counter();
        critical_section::with(|token| {
            let cell = self.figures.borrow(token);
            let before = cell.get();
            cell.set(Figures {
                jobs: before.jobs + 1,
                misses: before.misses + u32::from(done > deadline),
                late: before.late.max(begun.saturating_sub(due)),
                response: before.response.max(done.saturating_sub(due)),
            });
        });
    }

    /// The figures counted so far.
    pub fn figures(&self) -> Figures {
        critical_section::with(|token| self.figures.borrow(token).get())
    }
}

/// Ticks of the counter, shown as microseconds.
pub struct Microseconds(pub u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frequency = clock::frequency();
        let nanoseconds = self.0.saturating_mul(1_000_000_000 / 1000) / (frequency / 1000).max(1);
        write!(f, "{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
    }
}
