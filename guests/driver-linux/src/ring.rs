//! The ring of a device in the memory of a page, and its offer to the hypervisor.

use crate::pages::Page;
use crate::registers::Registers;
use hanok_abi::back_end::{control, register};
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

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
    assert!(SLOTS + PLACES as u64 * SLOT_SIZE as u64 <= crate::pages::SIZE as u64);
};

/// What is offered of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The features of the device.
    pub features: u64,
    /// Its configuration: words of 32 bits, in little-endian order.
    pub config: Vec<u32>,
}

/// An empty queue at `base` of `memory`, in which this program is the device.
///
/// # Errors
/// It does not fit the memory.
pub fn empty(memory: &GuestMemoryMmap, base: u64) -> Result<Queue, String> {
    let places = [TABLE, AVAILABLE, USED].map(|offset| GuestAddress(base + offset));
    for place in places {
        let zeroed = memory.write_slice(&[0; 0x1000], place);
        zeroed.map_err(|error| error.to_string())?;
    }
    let mut queue = Queue::new(PLACES).map_err(|error| error.to_string())?;
    let [table, available, used] = places;
    let set = queue
        .try_set_desc_table_address(table)
        .and_then(|()| queue.try_set_avail_ring_address(available))
        .and_then(|()| queue.try_set_used_ring_address(used));
    set.map_err(|error| error.to_string())?;
    queue.set_event_idx(true);
    queue.set_ready(true);
    Ok(queue)
}

/// Offers the device with one queue, whose ring is in the page. Whoever offered it before does so no more.
///
/// # Errors
/// The hypervisor refuses the offer.
pub fn offer(registers: &Registers, page: &Page, offer: &Offer) -> Result<Queue, String> {
    registers.write(register::CONTROL, control::WITHDRAW);
    let queue = empty(&page.memory, page.address)?;
    registers.write(register::MODE, 0);
    registers.write(register::HEAD, 0);
    registers.write_pair(register::FEATURES, offer.features);
    registers.write(register::QUEUE_SIZE, PLACES.into());
    for (index, word) in (0..).zip(&offer.config) {
        registers.write(register::CONFIG + 4 * index, *word);
    }
    registers.write(register::CONFIG_SIZE, 4 * offer.config.len() as u32);
    registers.write(register::QUEUE, 0);
    registers.write_pair(register::TABLE, page.address + TABLE);
    registers.write_pair(register::AVAILABLE, page.address + AVAILABLE);
    registers.write_pair(register::USED, page.address + USED);
    registers.write_pair(register::SLOTS, page.address + SLOTS);
    registers.write(register::SLOT_SIZE, SLOT_SIZE);
    registers.write(register::SLOT_DESCRIPTORS, DESCRIPTORS);
    registers.write(register::CONTROL, control::OFFER);
    if registers.read(register::CONTROL) == control::OFFER {
        return Ok(queue);
    }
    let why =
        "the hypervisor refuses the offer: the client has accepted what the disk has not any more";
    Err(format!("{why} (restart the client)"))
}
