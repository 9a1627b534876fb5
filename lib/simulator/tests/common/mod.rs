//! What the tests with random sets share.

#![allow(dead_code, reason = "each test program uses a part")]

use hanok_task_model::{ComponentId, Nanos, Priority, Task};

/// A task, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct One {
    pub period: u64,
    pub execution: u64,
    pub deadline: u64,
    pub jitter: u64,
    pub priority: u64,
}

impl One {
    /// The task as one of `component`.
    pub fn task(self, name: String, component: ComponentId, offset: u64) -> Task {
        let ns = Nanos::new;
        let mut task = Task::new(name, component, ns(self.period), ns(self.execution));
        task.deadline = ns(self.deadline);
        task.jitter = ns(self.jitter);
        task.offset = ns(offset);
        task.priority = Some(Priority(self.priority as u32));
        task
    }
}

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
