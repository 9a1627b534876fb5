//! The 32-bit backend `hyp`: ARMv7-A with the Virtualization Extensions, in Hyp mode.
//!
//! It does what `arch/aarch64` does, on the same core, and is called in the same way. Registers
//! carry the names of their AArch64 counterparts (`sysreg.rs`), so that what acts on both alike
//! is one text: the modules below with a path into `arch/aarch64` are that backend's own files,
//! compiled here against this crate's registers, entry and page tables. What they name by
//! `crate::` is the contract between the two.
//!
//! Guests run at PL1 and PL0, behind stage 2 (LPAE). Everything here runs in Hyp mode with
//! interrupts masked, in A32, without FP. Manual: DDI 0406C, part B, with chapter B1.7 "The
//! Virtualization Extensions".
//!
//! A CPU without these extensions is told at its first instructions (`boot.rs`); the backend
//! for it begins there.

#![no_std]

mod sysreg;

#[path = "../../aarch64/src/aborts.rs"]
mod aborts;
#[path = "../../aarch64/src/board.rs"]
pub mod board;
pub mod boot;
mod bulk;
#[path = "../../aarch64/src/command.rs"]
mod command;
#[path = "../../aarch64/src/console.rs"]
mod console;
#[path = "../../aarch64/src/controls.rs"]
mod controls;
#[path = "../../aarch64/src/cpu.rs"]
pub mod cpu;
mod debug;
#[path = "../../aarch64/src/devices.rs"]
pub mod devices;
mod errors;
pub mod exits;
mod fast;
#[path = "../../aarch64/src/fetch.rs"]
mod fetch;
mod fp;
#[path = "../../aarch64/src/frames.rs"]
pub mod frames;
mod host_id;
#[path = "../../aarch64/src/image.rs"]
pub mod image;
mod inject;
pub mod interrupts;
pub mod last_words;
pub mod lists;
#[path = "../../aarch64/src/loading.rs"]
mod loading;
#[path = "../../aarch64/src/mmu.rs"]
pub mod mmu;
#[path = "../../aarch64/src/notices.rs"]
pub mod notices;
#[path = "../../aarch64/src/outcome.rs"]
mod outcome;
mod pl1;
#[path = "../../aarch64/src/pmu.rs"]
pub mod pmu;
#[path = "../../aarch64/src/ram.rs"]
pub mod ram;
#[path = "../../aarch64/src/random.rs"]
pub mod random;
mod registers;
#[path = "../../aarch64/src/schedule.rs"]
pub mod schedule;
#[path = "../../aarch64/src/service.rs"]
mod service;
#[path = "../../aarch64/src/show.rs"]
mod show;
pub mod space;
mod stage1;
mod switch;
#[path = "../../aarch64/src/trail.rs"]
pub mod trail;
pub mod traps;
#[path = "../../aarch64/src/unit.rs"]
pub mod unit;
pub mod vcpu;
pub mod vectors;

pub use bulk::clean_to_coherency;
pub use sysreg::{isb, wait_for_interrupt, wake_all, yield_now};
pub use vectors::go_on_stack;
