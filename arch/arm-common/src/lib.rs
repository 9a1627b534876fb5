//! What both ARM architectures act on in the same way: the board's GIC, its serial port,
//! and the firmware's PSCI.
//!
//! These are devices that no guest reaches, so the drivers are libraries; here they get the
//! hypervisor's words and its settings.

#![no_std]

mod gich;
mod gicv2;
mod gicv3;
mod pl011;
mod psci;
mod rtc;

pub use gich::GichLists;
pub use gicv2::HostGicV2;
pub use gicv3::{GicError, HostGicV3};
pub use pl011::HostUart;
pub use psci::{Conduit, Firmware};
pub use rtc::seconds;
