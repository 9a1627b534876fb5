//! The instructions that are measured, and those around them: the architecture's own.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod arm;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{count, hvc, nothing, reads, understood, xen_hvc};
#[cfg(target_arch = "arm")]
pub use arm::{count, hvc, nothing, reads, understood, xen_hvc};
