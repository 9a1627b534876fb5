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
/// Where the parts of a ring are, from its beginning on.
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

/// The most bytes of a message of a directory's.
pub const MESSAGE: u32 = 120 << 10;

/// How a ring and its slots lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Where it begins.
    pub start: u64,
    /// Its places, and so its slots: a power of two.
    pub places: u16,
    /// The bytes of a slot.
    pub slot_size: u32,
    /// The descriptors of a slot.
    pub descriptors: u32,
}

/// The ring of a disk.
pub const DISK: Layout = Layout::new(0, (PLACES, SLOT_SIZE, DESCRIPTORS));
/// The ring of a directory: a slot has a message of [`MESSAGE`] bytes and an answer of as many.
pub const DIRECTORY: Layout = Layout::new(0, (8, 0x3_e000, 72));
/// The rings of a network: of what its client receives, and of what it sends. A frame is in as many pieces as Linux has at most.
pub const NETWORK: [Layout; 2] = [
    Layout::new(0, (64, 0x2000, 32)),
    Layout::new(0x10_0000, (64, 0x2000, 32)),
];

impl Layout {
    const fn new(start: u64, (places, slot_size, descriptors): (u16, u32, u32)) -> Self {
        let end = start + SLOTS + places as u64 * slot_size as u64;
        assert!(end <= crate::memory::SIZE as u64 && descriptors * 16 < slot_size);
        Self {
            start,
            places,
            slot_size,
            descriptors,
        }
    }
}

const _: () = {
    assert!(DESCRIPTORS * 16 + SEGMENTS * SEGMENT + 64 <= SLOT_SIZE);
    assert!(DIRECTORY.descriptors * 16 + 2 * MESSAGE <= DIRECTORY.slot_size);
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
    /// The next request, if there is one. Of a chain that does not end within a slot's descriptors there is one piece more than that.
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
pub fn clear(memory: &Memory, layout: &Layout) -> Result<(), Broken> {
    for place in [0, AVAILABLE, USED] {
        let zeroed = memory.write(memory.base() + layout.start + place, &[0; 0x1000]);
        zeroed.ok_or(Broken)?;
    }
    Ok(())
}

/// Offers the device with queues whose rings lie in this memory as these layouts say, and are empty. Whoever offered it before does so no more.
///
/// # Errors
/// The hypervisor refuses the offer.
pub fn offer(
    registers: &Registers,
    (memory, layouts): (&Memory, &[Layout]),
    offer: &Offer,
) -> Result<(), String> {
    registers.write(register::CONTROL, control::WITHDRAW);
    registers.write(register::MODE, 0);
    registers.write(register::HEAD, 0);
    registers.write_pair(register::FEATURES, offer.features);
    for (index, word) in (0..).zip(&offer.config) {
        registers.write(register::CONFIG + 4 * index, *word);
    }
    registers.write(register::CONFIG_SIZE, 4 * offer.config.len() as u32);
    for (queue, layout) in (0..).zip(layouts) {
        let cleared = clear(memory, layout);
        cleared.map_err(|Broken| "the ring does not fit the page".to_owned())?;
        let base = memory.base() + layout.start;
        registers.write(register::QUEUE_SIZE, layout.places.into());
        registers.write(register::QUEUE, queue);
        registers.write_pair(register::TABLE, base);
        registers.write_pair(register::AVAILABLE, base + AVAILABLE);
        registers.write_pair(register::USED, base + USED);
        registers.write_pair(register::SLOTS, base + SLOTS);
        registers.write(register::SLOT_SIZE, layout.slot_size);
        registers.write(register::SLOT_DESCRIPTORS, layout.descriptors);
    }
    registers.write(register::CONTROL, control::OFFER);
    if registers.read(register::CONTROL) == control::OFFER {
        return Ok(());
    }
    let why = "the hypervisor refuses the offer: the client has accepted what the device has not any more";
    Err(format!("{why} (restart the client)"))
}
