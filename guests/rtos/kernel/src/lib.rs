//! The decisions of the RTOS guest: which task runs, and when.
//!
//! The crate knows no CPU. An image tells [`Kernel`] what happened and when (the timer fired, the
//! running task ended its job, wants a semaphore, ...), and then reads which task is
//! [`running`](Kernel::running) and when the [`next event`](Kernel::next_event) is due. The image
//! does the context switch and the timer. So all rules are tested on a PC, with a clock that the
//! test advances.
//!
//! Time is counted in ticks of the image's counter from the start of the schedule. There is no
//! periodic tick: between two events nothing has to be done.
//!
//! Rejected: a heap of ready tasks. A bit for each task and a look at those that are set is shorter
//! to read, and with at most 32 tasks as fast.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod compare;
mod described;
mod ids;
mod kernel;
mod options;
mod queue;
mod semaphore;
mod sets;
mod simulate;
mod task;
mod trace;
mod urgency;

pub use compare::{Agreement, Difference, compare};
pub use described::{Description, LEAST_EXECUTION, LEAST_PERIOD, NAME_LENGTH};
pub use ids::{MAX_TASKS, TaskId, TaskSet};
pub use kernel::{Full, Kernel, Misuse};
pub use options::{Mistake, Options};
pub use queue::{MAX_QUEUES, QUEUE_DEPTH, QueueId};
pub use semaphore::{MAX_SEMAPHORES, SemaphoreId};
pub use sets::{DEMO, EDF5, EDF20, Entry, Execution, OVERLOAD, RM5, RM20, Set, Tasks};
pub use simulate::Simulation;
pub use task::{Blocker, Spec, State, Stats, Task};
pub use trace::{Event, EventKind, Trace};
pub use urgency::{Policy, Urgency};

/// A time or a length of time, in ticks of the image's counter.
pub type Ticks = u64;
