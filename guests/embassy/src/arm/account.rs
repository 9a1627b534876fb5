//! What a task's jobs came to.

use core::cell::Cell;
use core::fmt;

use critical_section::Mutex;

use super::clock;

/// Counted so far; times in ticks of the counter.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// Jobs done.
    pub jobs: u32,
    /// Of these, done after their deadlines.
    pub misses: u32,
    /// From when a job was due to its first instruction, at most.
    pub late: u64,
    /// From when a job was due to its end, at most.
    pub response: u64,
}

/// One who counts.
pub struct Account {
    /// What it is called.
    pub name: &'static str,
    figures: Mutex<Cell<Figures>>,
}

impl Account {
    /// Nothing is counted yet.
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

    /// A job that was `due` has `begun` and is done now; at `deadline` it should have been.
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

    /// What was counted.
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
