//! ARMv7-A at PL1 (DDI 0406C).

pub mod access;
pub mod cases;
pub mod code;
pub mod crossing;
pub mod fp;
pub mod fuzz;
pub mod hostile;
