//! The trace of scheduling events, in order.

use crate::{TaskId, Ticks};
use core::fmt;

/// A scheduling event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When the kernel saw it.
    pub time: Ticks,
    /// The task that it concerns.
    pub task: TaskId,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// What a trace is filled with before it is used.
    pub const NONE: Self = Self {
        time: 0,
        task: TaskId::new(0),
        kind: EventKind::Release,
    };
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A job was released.
    Release,
    /// A job runs for the first time.
    Start,
    /// A job lost the CPU to another one.
    Preempt,
    /// A job that had lost the CPU, or waited, runs again.
    Resume,
    /// A job ended.
    Complete,
    /// A job waits for a semaphore or a queue.
    Block,
    /// The event that a job waited for has come.
    Wake,
    /// A job's deadline went by.
    Miss,
    /// A job used more than its budget.
    Overrun,
}

impl EventKind {
    /// Whether it says which task runs; misses and overruns are findings.
    pub const fn is_schedule(self) -> bool {
        !matches!(self, Self::Miss | Self::Overrun)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Start => "start",
            Self::Preempt => "preempt",
            Self::Resume => "resume",
            Self::Complete => "complete",
            Self::Block => "block",
            Self::Wake => "wake",
            Self::Miss => "miss",
            Self::Overrun => "overrun",
        })
    }
}

/// A trace of the first events, as many as the storage holds; later ones are only counted.
#[derive(Debug, Default)]
pub struct Trace<'a> {
    storage: &'a mut [Event],
    seen: usize,
}

impl<'a> Trace<'a> {
    /// An empty trace in this storage.
    pub const fn new(storage: &'a mut [Event]) -> Self {
        Self { storage, seen: 0 }
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        if let Some(place) = self.storage.get_mut(self.seen) {
            *place = event;
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// The events that were kept, oldest first.
    pub fn events(&self) -> &[Event] {
        let kept = self.seen.min(self.storage.len());
        self.storage.get(..kept).unwrap_or_default()
    }
}
