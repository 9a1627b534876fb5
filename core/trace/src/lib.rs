//! What happens on a pCPU, told to one sink.
//!
//! Whoever does something that a person may want to see later says so once, as an [`Event`]. What is
//! kept of it is up to the readers: each vCPU has two ([`VcpuLog`]: counters, and its latest exits),
//! and the backend is a third one ([`Sink`]), which the shipped images give nothing to do: no code is
//! made for an event that nobody reads.
//!
//! Rejected: a reader behind a pointer (`dyn`), which costs every exit a call that is not taken; and
//! a call for each reader at each place, where the next reader would be forgotten at some of them.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod counters;
mod event;
mod exit_log;
mod vcpu_log;

pub use counters::{Cause, Counters};
#[cfg(any(test, feature = "fake"))]
pub use event::recorded;
pub use event::{Event, Sink, Source};
pub use exit_log::{Exit, ExitLog};
pub use vcpu_log::VcpuLog;
