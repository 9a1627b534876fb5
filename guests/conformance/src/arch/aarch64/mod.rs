//! AArch64 at EL1 (DDI 0487).

pub mod access;
pub mod cases;
pub mod code;
pub mod crossing;
pub mod fp;
pub mod fuzz;
pub mod hostile;
