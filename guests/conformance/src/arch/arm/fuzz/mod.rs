//! The parts of the guest fuzzer that are specific to A32, T32 and the coprocessors' registers.

pub mod access;
pub mod code;
mod forms;
pub mod jumps;
pub mod programs;
pub mod registers;
pub mod space;
pub mod tables;
pub mod trip;
