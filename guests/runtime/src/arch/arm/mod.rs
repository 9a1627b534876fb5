//! ARMv7-A with the virtualization extensions' long descriptors, in System mode (DDI 0406C).

#[macro_use]
pub mod sysreg;
#[macro_use]
pub mod probe;

pub mod boot;
pub mod calls;
pub mod cpu;
pub mod mmio;
pub mod mmu;
pub mod vectors;
