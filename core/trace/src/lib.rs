//! Events of a pCPU, recorded by one sink.
//!
//! Code that does something that a person may want to see later records it once, as an [`Event`].
//! The readers decide what is kept of it: each vCPU has two ([`VcpuLog`]: counters, and its latest
//! exits), each pCPU has one that writes what a person chose into a ring in memory ([`Tracer`]), and the backend is another one
//! ([`Sink`]), which does nothing in the shipped images and keeps everything in tests.
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
mod ring;
mod vcpu_log;

pub use account::{Account, CpuAccount, KEPT_TURNS, Readiness, Turn};
pub use counters::{Cause, Counters};
#[cfg(any(test, feature = "fake"))]
pub use event::recorded;
pub use event::{Event, Sink, Source};
pub use exit_log::{Exit, ExitLog};
pub use ring::{Area, Before, Choice, Facts, Tracer};
pub use vcpu_log::VcpuLog;
