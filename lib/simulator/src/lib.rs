//! An exact simulator of a system of components: which task runs when, and on which core.
//!
//! `core/sched` decides here, the code that decides on the board: the same servers, queues and
//! budgets, called with the same events. The simulator only adds jobs that arrive, time that
//! advances from one event to the next in whole ticks, and a record of what happened. So a deadline
//! that is missed here is a fault of the plan or of the scheduler, never of the simulation's step;
//! and a run can be repeated to the last tick.
//!
//! A simulation shows what happens in one case. It can be made the worst case: all tasks arrive
//! together, every job takes its longest time, and CPU time comes as late as the interface allows
//! ([`Supply::worst`]). Under EDF on one CPU with that supply, a set of tasks without offsets that
//! misses no deadline in its hyperperiod never misses one (Shin and Lee 2003: the demand meets the
//! worst supply at the critical instant). Elsewhere, and on several CPUs always, a simulation is
//! evidence and no proof.
//!
//! Work is bounded by [`Options::events`]; a horizon that needs more is refused.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chooser;
mod cores;
mod engine;
mod jobs;
mod node;
mod options;
mod place;
mod scene;
mod state;
mod supply;
mod timeline;

#[cfg(test)]
mod tests;

pub use engine::simulate;
pub use hanok_sched::{Kind, Slack};
pub use options::{Execution, Interfaces, Jitter, Options, SimError, What};
pub use supply::{Supply, SupplyError};
pub use timeline::{Job, Segment, TaskSummary, Timeline};
