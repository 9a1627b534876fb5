//! What the guest that tries everything makes of A64 and of EL1's registers.

pub mod access;
pub mod code;
mod forms;
pub mod jumps;
pub mod programs;
pub mod registers;
pub mod space;
pub mod tables;
pub mod trip;
