//! AArch64 at EL1 (DDI 0487).

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
