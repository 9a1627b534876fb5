//! The ring of a device in the memory of a page, in which this program is the device (virtio 1.2, 2.7), and its offer to the hypervisor.
//!
//! On 64-bit machines it is read by rust-vmm's `virtio-queue`. That refuses to be built for 32 bits, where `own` does the same; the tests hold
//! both against the same requests.

pub mod own;
#[cfg(target_pointer_width = "64")]
pub mod vmm;

use crate::memory::Memory;
use crate::registers::Registers;
use hanok_abi::back_end::{control, register};

/// The places of a ring: so many requests are under way at most.
pub const PLACES: u16 = 16;
/// Where its parts are in a page.
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const SLOTS: u64 = 0x1_0000;
/// The bytes of a slot: sixteen fill the page.
pub const SLOT_SIZE: u32 = 0x1_f000;
/// The bytes of a buffer of a request, and their number: with header, state and descriptors they fit a slot.
pub const SEGMENT: u32 = 4096;
/// See [`SEGMENT`].
pub const SEGMENTS: u32 = 30;
/// The descriptors of a slot.
pub const DESCRIPTORS: u32 = SEGMENTS + 2;

const _: () = {
    assert!(DESCRIPTORS * 16 + SEGMENTS * SEGMENT + 64 <= SLOT_SIZE);
    assert!(SLOTS + PLACES as u64 * SLOT_SIZE as u64 <= crate::memory::SIZE as u64);
};

/// The ring that this machine has.
#[cfg(target_pointer_width = "64")]
pub type Kept = vmm::Vmm;
/// The ring that this machine has.
#[cfg(not(target_pointer_width = "64"))]
pub type Kept = own::Own;

/// The ring is not as the hypervisor makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its address in the VM, which may be anything.
    pub at: u64,
    /// Its bytes.
    pub len: u32,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// By what it is answered.
    pub head: u16,
    /// What may be read of it, in order.
    pub read: Vec<Piece>,
    /// What may be written of it, in order.
    pub write: Vec<Piece>,
}

/// A queue of which this program is the device.
pub trait Ring {
    /// The next request, if there is one. Of a chain that does not end within [`DESCRIPTORS`] there is one piece more than that.
    ///
    /// # Errors
    /// The ring says what cannot be.
    fn next(&mut self) -> Result<Option<Request>, Broken>;

    /// Answers the request `head`: the first `written` bytes that may be written are.
    ///
    /// # Errors
    /// There is no such place.
    fn answer(&mut self, head: u16, written: u32) -> Result<(), Broken>;

    /// Whether the hypervisor wants to be told of the answers since the last call.
    ///
    /// # Errors
    /// The ring says what cannot be.
    fn must_tell(&mut self) -> Result<bool, Broken>;

    /// Asks to be told of the next request. Returns whether it is there already.
    ///
    /// # Errors
    /// The ring says what cannot be.
    fn listen(&mut self) -> Result<bool, Broken>;

    /// Where requests are.
    fn memory(&self) -> Memory;
}

/// What is offered of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The features of the device.
    pub features: u64,
    /// Its configuration: words of 32 bits, in little-endian order.
    pub config: Vec<u32>,
}

/// Makes the ring one in which nothing is.
///
/// # Errors
/// It does not fit the memory.
pub fn clear(memory: &Memory) -> Result<(), Broken> {
    for place in [TABLE, AVAILABLE, USED] {
        let zeroed = memory.write(memory.base() + place, &[0; 0x1000]);
        zeroed.ok_or(Broken)?;
    }
    Ok(())
}

/// Offers the device with one queue, whose ring is in this memory and is empty. Whoever offered it before does so no more.
///
/// # Errors
/// The hypervisor refuses the offer.
pub fn offer(registers: &Registers, memory: &Memory, offer: &Offer) -> Result<(), String> {
    registers.write(register::CONTROL, control::WITHDRAW);
    clear(memory).map_err(|Broken| "the ring does not fit the page".to_owned())?;
    let base = memory.base();
    registers.write(register::MODE, 0);
    registers.write(register::HEAD, 0);
    registers.write_pair(register::FEATURES, offer.features);
    registers.write(register::QUEUE_SIZE, PLACES.into());
    for (index, word) in (0..).zip(&offer.config) {
        registers.write(register::CONFIG + 4 * index, *word);
    }
    registers.write(register::CONFIG_SIZE, 4 * offer.config.len() as u32);
    registers.write(register::QUEUE, 0);
    registers.write_pair(register::TABLE, base + TABLE);
    registers.write_pair(register::AVAILABLE, base + AVAILABLE);
    registers.write_pair(register::USED, base + USED);
    registers.write_pair(register::SLOTS, base + SLOTS);
    registers.write(register::SLOT_SIZE, SLOT_SIZE);
    registers.write(register::SLOT_DESCRIPTORS, DESCRIPTORS);
    registers.write(register::CONTROL, control::OFFER);
    if registers.read(register::CONTROL) == control::OFFER {
        return Ok(());
    }
    let why =
        "the hypervisor refuses the offer: the client has accepted what the disk has not any more";
    Err(format!("{why} (restart the client)"))
}
