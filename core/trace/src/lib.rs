//! Events of a pCPU, recorded by one sink.
//!
//! Code that does something that a person may want to see later records it once, as an [`Event`].
//! The readers decide what is kept of it: each vCPU has two ([`VcpuLog`]: counters, and its latest
//! exits), and the backend is a third one ([`Sink`]). In the shipped images the backend's does
//! nothing, so that events which no reader uses cost no code.
//!
//! Rejected: a reader behind a pointer (`dyn`), which would cost every exit a call; and a call for
//! each reader at each place, where a new reader would be forgotten at some places.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod account;
mod counters;
mod event;
mod exit_log;
mod vcpu_log;

pub use account::{Account, CpuAccount, KEPT_TURNS, Readiness, Turn};
pub use counters::{Cause, Counters};
#[cfg(any(test, feature = "fake"))]
pub use event::recorded;
pub use event::{Event, Sink, Source};
pub use exit_log::{Exit, ExitLog};
pub use vcpu_log::VcpuLog;
