//! ARMv7-A, with long descriptors where the CPU has them, in System mode (DDI 0406C).

#[macro_use]
pub mod sysreg;
#[macro_use]
pub mod probe;

pub mod boot;
pub mod calls;
pub mod cpu;
pub mod flush;
pub mod mmio;
pub mod mmu;
pub mod short;
pub mod vectors;
