//! The executive of one pCPU: which vCPU runs, which wait and for what, how a VM boots and ends,
//! and what the console's prompt asks for.
//!
//! It knows a CPU by the traits of `hanok_hal` alone, so that every backend runs this code, and so
//! does a test on a PC. A backend's trap entry calls in with the vCPU that has just left its
//! guest; what an exit leads to is decided by `hanok_vm`, and here it is decided who goes on.
//!
//! What it keeps true: a [`Pcpu`], with its vCPUs, is touched by its own pCPU alone. Others ask by
//! the atomics of a VM (`hanok_vm::Requests`, `Power`, `Lifecycle`) and a kick. What all pCPUs share is
//! the [`Board`]. Everything runs with interrupts masked, and nothing is kept across a guest's run
//! but what is in these two.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod board;
mod command;
mod console;
#[cfg(test)]
mod crowd_tests;
mod devices;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod lifecycle;
mod loading;
mod memory;
mod notices;
mod outcome;
#[cfg(feature = "selftest")]
mod page_moves;
mod pcpu;
mod policy;
mod random;
mod schedule;
mod service;
mod show;
mod sleep;
mod switch;
mod unit;
mod vcpu;

pub use board::{Board, BoardInterrupts, DeviceLine, DeviceLines, Host, VmPort};
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
pub use random::gather;
pub use service::guest;
pub use unit::VmUnit;
pub use vcpu::Vcpu;
