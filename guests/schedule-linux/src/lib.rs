//! How a program of Linux takes part in the scheduling of its VM's vCPUs, with a stock kernel.
//!
//! - [`Periodic`]: the calling thread becomes a periodic task of Linux (SCHED_DEADLINE), waits for its next period,
//!   and knows what it has used.
//! - [`Agent`]: the program declares its task to `hanok-agent`, which finds the least interface of the vCPU with which
//!   all declared tasks keep their deadlines, asks Hanok for it, and schedules the thread. Most programs want this.
//! - [`open`]: the calls of `hanok_schedule` themselves, by the device in `/dev/mem`. The agent does it so; a program
//!   can, too, instead of an agent.
//!
//! It uses no C library, so that it is the same to programs of glibc, of musl, and of neither.
//!
//! ```no_run
//! use hanok_schedule_linux::{Agent, Periodic, Task};
//!
//! fn control() {}
//!
//! let mut agent = Agent::connect()?;
//! let task = Task::new(10_000_000, 1_500_000);
//! let declared = agent.declare("control", &task)?;
//! let mut jobs = Periodic::of(declared);
//! loop {
//!     control();
//!     jobs.wait();
//! }
//! # Ok::<(), hanok_schedule_linux::NotDeclared>(())
//! ```

#![no_std]

extern crate alloc;

mod agent;
mod device;
mod path;
mod text;
mod thread;
mod tree;

pub use agent::{Agent, Declared, NotDeclared, SOCKET};
pub use device::{Device, Missing, Places, open, open_at};
pub use thread::{NotPeriodic, Periodic, Why, bind};

pub use hanok_schedule::{Error, Features, Interface, Item, Limits, Refusal, Task, Usage, Vcpu};
pub use hanok_syscalls::Errno;
