//! What the guest that tries everything makes of A32 and T32, and of the coprocessors' registers.

pub mod access;
pub mod code;
mod forms;
pub mod jumps;
pub mod programs;
pub mod registers;
pub mod space;
pub mod tables;
pub mod trip;
