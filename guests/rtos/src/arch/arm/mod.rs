//! ARMv7-A in System mode (DDI 0406).

mod boot;
pub mod cpu;
pub mod icc;
mod mmu;
mod vectors;

pub use boot::load_address;
pub use vectors::{Frame, cause, explain, install};
