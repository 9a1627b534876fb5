//! The CPU: everything that differs between 64 and 32 bits, under the same names.
//!
//! | | |
//! |---|---|
//! | `boot` | from the loader's jump to [`crate::primary`] with the MMU on, and where the image is
//! |
//! | `vectors` | expected exceptions are caught, interrupts go to [`crate::gic`], all else ends the
//! run |
//! | `sysreg` | system registers by their AArch64 names, `read_sysreg!` and `write_sysreg!` |
//! | `probe` | `probe!`, instructions that may fault |
//! | `mmio` | plain accesses to devices |
//! | `mmu` | the architecture's part of the translation: registers, the tables' shape, TLBs |
//! | `cpu` | the interrupt mask |
//! | `calls` | calls to the next higher level: PSCI's and Xen's |

#[cfg(target_arch = "aarch64")]
#[macro_use]
mod aarch64;
#[cfg(target_arch = "arm")]
#[macro_use]
mod arm;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "arm")]
pub use arm::*;
