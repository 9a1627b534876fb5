//! AArch64 at EL1 (DDI 0487).

mod cpu;
mod vectors;

pub use cpu::{call, spin};
pub use vectors::{Frame, cause, explain};
