//! The task model: tasks, the components that hold them, and the cores. It says who needs how much
//! CPU time, by when.
//!
//! The analysis, the checker of its certificates and the simulator are three programs that share no
//! code, so that each can show another's fault. What they must agree upon is the question, and that
//! is this crate: data, the meaning of each field, and the rules that make a model valid
//! ([`Model::validate`]). Nothing here decides whether deadlines are kept.
//!
//! A [`Model`] is flat: pools of cores, components, and tasks, each a list with ids into the
//! others. A tree of nested values would need recursion, whose depth a file could choose.
//!
//! For all readers of a model its fields mean this:
//!
//! - All times are whole nanoseconds, at most [`Nanos::MAX`].
//! - **Tasks are sporadic.** The k-th job of a task arrives no earlier than its offset plus k
//!   periods. It may be held back by up to its jitter before it is released, and must be complete
//!   within its deadline *after its arrival*.
//! - **Servers begin together.** The periods of every periodic component start at multiples of the
//!   period, counted from one instant that is the same for all components of a core. A component's
//!   server offers its budget from the start of each period on. Its [`Server`] says what becomes of
//!   budget that its workload leaves unused.
//! - An **interface** (period, budget, deadline) gives a component `budget` of CPU time within
//!   `deadline` of the start of each period. With the deadline equal to the period it is the
//!   periodic resource model (Shin & Lee, RTSS 2003), otherwise the explicit-deadline periodic one
//!   (Easwaran, Anand & Lee, RTSS 2007). With several CPUs it is the multiprocessor periodic one
//!   (Shin, Easwaran & Lee, ECRTS 2008), where the budget is that of all CPUs together.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod certificate;
mod component;
mod error;
mod model;
mod platform;
mod task;
mod time;
mod validate;

pub use certificate::{
    Against, Certificate, ComponentProof, CoreProof, Descent, Exact, Fraction, Proof, Tail, Vcpu,
};
pub use component::{Component, Periods, Plan, ResourceInterface, Server, Window};
pub use error::{Fault, ModelError, Subject};
pub use model::{ComponentId, Home, MAX_MEMBERS, Member, Model, PoolId, TaskId};
pub use platform::{CoreId, Mode, Pool, SwitchCost};
pub use task::{Policy, Priority, Task};
pub use time::Nanos;
