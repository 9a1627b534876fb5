//! ARMv7-A in System mode (DDI 0406).

mod cpu;
mod vectors;

pub use cpu::{call, spin};
pub use vectors::{Frame, cause, explain};
