//! The executive of one pCPU: it decides which vCPU runs, which ones wait and for what, lets VMs boot and
//! end, and executes the commands of the console's prompt.
//!
//! It knows a CPU by the traits of `hanok_hal` alone, so that every backend runs this code, and so does a
//! test on a PC. A backend's trap entry calls it with the vCPU that has just left its guest. `hanok_vm`
//! decides the action for an exit, and this crate decides which vCPU goes on.
//!
//! It keeps these invariants: a [`Pcpu`], with its vCPUs, is accessed by its own pCPU alone. Other pCPUs
//! make requests by the atomics of a VM (`hanok_vm::Requests`, `Power`, `Lifecycle`) and a kick. All pCPUs
//! share the [`Board`]. All code runs with interrupts masked, and no data but those of these two types is
//! kept across a guest's run.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod account;
mod asks;
mod board;
mod channels;
mod command;
mod console;
#[cfg(test)]
mod crowd_tests;
mod devices;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
#[cfg(any(test, feature = "fake"))]
mod fake_software;
mod lifecycle;
mod loading;
mod memory;
mod notices;
mod outcome;
#[cfg(feature = "selftest")]
mod page_moves;
mod pcpu;
mod policy;
mod pool;
mod random;
mod report;
mod schedule;
mod service;
mod shared;
mod show;
mod sleep;
#[cfg(test)]
mod software_tests;
#[cfg(test)]
mod stolen_tests;
mod switch;
#[cfg(test)]
mod timer_wake_tests;
mod trace;
mod unit;
mod vcpu;
mod watchdog;

pub use asks::Wish;
pub use board::{Board, BoardInterrupts, DeviceLine, DeviceLines, Host, Unsaid, VmPort};
pub use command::Walk;
pub use console::begin_all;
pub use devices::{OwnDevice, lines_of, set_triggers};
pub use memory::{PageFault, regions_of};
pub use notices::Notices;
pub use outcome::{After, FpAccess};
#[cfg(feature = "selftest")]
pub use page_moves::{MOVED_PAGES, PageMoves};
pub use pcpu::{AdoptError, Local, Pcpu};
pub use policy::PcpuPolicy;
pub use pool::{Seat, SharedPool};
pub use random::gather;
pub use report::Report;
pub use service::guest;
pub use trace::Traces;
pub use unit::VmUnit;
pub use vcpu::Vcpu;
