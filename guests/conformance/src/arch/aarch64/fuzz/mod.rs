//! The parts of the guest fuzzer that are specific to A64 and to EL1's registers.

pub mod access;
pub mod code;
mod forms;
pub mod jumps;
pub mod programs;
pub mod registers;
pub mod space;
pub mod tables;
pub mod trip;

use crate::fuzz::Fuzzer;
use crate::fuzz::plan::Class;
use crate::fuzz::random::Random;

/// What is tried beside what all architectures have, with its weights: nothing.
pub fn extra() -> &'static [(Class, u64)] {
    &[]
}

/// One step of those.
pub fn extra_step(_: &mut Fuzzer<'_>, _: Class, _: &mut Random) {}
