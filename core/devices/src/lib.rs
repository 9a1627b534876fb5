//! The devices of the virtual platform as state machines, and the slots that find them.
//!
//! A VM has a [`Slot`] for each device that its description names: a region of addresses, an
//! interrupt and a [`Device`]. Lookup, reset and the levels of interrupt lines are loops over the
//! slots, which know no kind; what a new kind of device needs is in `device.rs`.
//!
//! A model knows neither interrupts nor time nor threads: the caller hands in the line
//! behind a serial port and the time, and asks after each access for the level of the
//! interrupt line. So a model is a plain value that a test on a PC can drive through every
//! state, and that a second backend shares unchanged.
//!
//! What is kept true here: no access of a guest panics, whatever its offset, width and
//! value; an access to a register that is not there reads as zero, is ignored when it
//! writes, and is counted ([`Unknown`]); a byte that a guest was told is taken is not lost.
//!
//! Where real hardware and QEMU's `virt` board differ, a model follows QEMU where a guest
//! that starts there could tell, and says so.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod access;
mod device;
mod flash;
mod lanes;
mod pl011;
mod pl031;
mod primecell;
#[cfg(test)]
mod properties;
mod slot;
mod unknown;
mod virtio_mmio;

pub use access::Access;
pub use device::{Device, Notice, World};
pub use flash::Flash;
pub use pl011::Pl011;
pub use pl031::Pl031;
pub use slot::{Slot, Slots};
pub use unknown::Unknown;
pub use virtio_mmio::EmptyTransports;
