//! The devices of the virtual platform as state machines, and the slots by which they are found.
//!
//! A VM has a [`Slot`] for each device that its description names: a region of addresses, an
//! interrupt and a [`Device`]. Lookup, reset and the levels of interrupt lines are loops over the
//! slots that depend on no kind. `device.rs` says what a new kind of device needs.
//!
//! A model knows nothing of interrupt controllers, clocks and threads. The caller passes the serial
//! line and the time to each access, and asks after it for the level of the interrupt line. So a
//! model is a plain value: a test on a PC can drive it through every state, and all backends use it
//! unchanged.
//!
//! Kept true in this crate: no access of a guest panics, whatever its offset, width and value. An
//! access to a register that does not exist reads as zero or is ignored, and is counted
//! ([`Unknown`]). A byte that a model has accepted from a guest is not lost.
//!
//! If real hardware and QEMU's `virt` board differ, a model follows QEMU where a guest that runs
//! there could notice, and says so.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod access;
mod channel;
mod device;
mod flash;
mod fw_cfg;
mod lanes;
mod nor;
mod pl011;
mod pl031;
mod primecell;
#[cfg(test)]
mod properties;
mod schedule;
mod slot;
mod unknown;
pub mod virtio;
mod virtio_mmio;

pub use access::Access;
pub use channel::{Bells, Channel, Members};
pub use device::{Behind, Device, Notice, World};
pub use flash::Flash;
pub use fw_cfg::FwCfg;
pub use nor::{NOR_WORDS, Nor, nor_memory};
pub use pl011::{FifoFull, Pl011};
pub use pl031::Pl031;
pub use schedule::{Call, Schedule, ScheduleRegisters};
pub use slot::{Slot, Slots};
pub use unknown::Unknown;
pub use virtio_mmio::EmptyTransports;
