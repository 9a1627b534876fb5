//! The 64-bit backend `el2`: Armv8-A with EL2, without VHE. Its guests have AArch64 or, where the
//! CPU can, AArch32 at EL1.
//!
//! It does four things: enters and leaves a guest, gives it its view of memory, decodes an
//! exit into the core's [`hanok_vm::Exit`], and injects exceptions and interrupts. What an
//! exit leads to is the core's decision. Exits finished here, without the core: the lazy
//! switch of FP registers, and hypercalls with a constant answer, which the core gives to
//! both ways (`fast.rs`). Everything in here runs with interrupts masked.

#![no_std]

mod sysreg;

mod aarch32;
mod aborts;
pub mod board;
pub mod boot;
mod bulk;
mod command;
mod console;
mod controls;
pub mod cpu;
mod debug;
pub mod devices;
mod el1;
mod errors;
pub mod exits;
mod fast;
mod fetch;
mod fp;
pub mod frames;
mod host_id;
pub mod image;
mod inject;
mod inject32;
pub mod interrupts;
pub mod last_words;
pub mod lists;
mod loading;
pub mod mmu;
pub mod notices;
mod outcome;
pub mod pmu;
pub mod ram;
pub mod random;
mod registers;
pub mod schedule;
mod service;
mod show;
pub mod space;
mod stage1;
mod switch;
pub mod trail;
pub mod traps;
pub mod unit;
pub mod vcpu;
pub mod vectors;

pub use bulk::clean_to_coherency;
pub use sysreg::{go_on_stack, isb, wait_for_interrupt, wake_all, yield_now};
