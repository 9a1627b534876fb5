//! What the backends of both Arm architectures have in common: registers by the names of their
//! AArch64 counterparts, the hypervisor's own translation, the board's GIC, its serial port, and the
//! firmware's PSCI.
//!
//! Devices of the board that no guest can access are driven by libraries; the modules here translate the
//! hypervisor's types for them, and choose their settings.

#![no_std]

pub mod sysreg;

pub mod aborts;
#[cfg(target_arch = "arm")]
mod allwinner;
pub mod bulk;
pub mod controls;
pub mod cpu;
pub mod exited;
pub mod frames;
mod gich;
mod gicv2;
mod gicv3;
#[cfg(target_arch = "arm")]
mod global_timer;
pub mod host_gic;
#[cfg(target_arch = "arm")]
mod host_timer;
pub mod image;
pub mod interrupted;
pub mod lists;
pub mod machine;
pub mod mmu;
#[cfg(target_arch = "arm")]
mod ns16550;
mod pl011;
pub mod planted;
pub mod pmu;
pub mod privilege;
mod psci;
pub mod ram;
mod rtc;
#[cfg(target_arch = "aarch64")]
pub mod smmu;
#[cfg(target_arch = "arm")]
mod software;
pub mod space;
pub mod tracing;
#[cfg(target_arch = "arm")]
mod uart;
mod wiring;

#[cfg(target_arch = "arm")]
pub use allwinner::{AllwinnerInterrupts, AllwinnerTimer, AllwinnerTimers};
pub use gich::GichLists;
pub use gicv2::HostGicV2;
pub use gicv3::{GicError, HostGicV3};
#[cfg(target_arch = "arm")]
pub use global_timer::GlobalTimer;
#[doc(hidden)]
pub use hanok_pcpu as pcpu;
#[cfg(target_arch = "arm")]
pub use host_timer::HostTimer;
#[cfg(target_arch = "aarch64")]
pub use pl011::Pl011 as HostUart;
pub use psci::{Conduit, Firmware};
pub use rtc::seconds;
#[cfg(target_arch = "arm")]
pub use software::{SoftwareInterfaces, SoftwareLists};
#[cfg(target_arch = "arm")]
pub use uart::HostUart;
