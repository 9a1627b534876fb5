//! AArch64 at EL1 (DDI 0487).

mod boot;
pub mod cpu;
pub mod icc;
mod mmu;
mod vectors;

pub use boot::load_address;
pub use vectors::{Frame, cause, explain, install};
