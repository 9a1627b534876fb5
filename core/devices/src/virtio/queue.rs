//! A split queue, seen from the device (virtio 1.2, 2.7).
//!
//! The driver writes descriptors and the ring of available chains, the device the ring of used ones. A queue takes no
//! note of which chains are under way: who serves it does, and may finish them in any order.

use super::chain::{Chain, DESCRIPTOR};
use super::{Breach, Fault, feature};
use hanok_hal::GuestMemory;
use hanok_hal::sync::atomic::{Ordering, fence};
use hanok_types::Ipa;

/// Where the three parts of a queue are, as the driver says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The table of descriptors.
    pub descriptors: u64,
    /// The ring of available chains, which the driver writes.
    pub driver: u64,
    /// The ring of used chains, which the device writes.
    pub device: u64,
}

impl Places {
    /// Whether a queue of `size` can be there: aligned (virtio 1.2, 2.7), and not beyond the address space.
    pub(super) fn fit(&self, size: u16) -> bool {
        let size = u64::from(size);
        let parts = [
            (self.descriptors, 16, DESCRIPTOR * size),
            (self.driver, 2, FIRST + AVAILABLE * size + EVENT),
            (self.device, 4, FIRST + USED * size + EVENT),
        ];
        parts.iter().all(|(at, alignment, bytes)| {
            at.is_multiple_of(*alignment) && at.checked_add(*bytes).is_some()
        })
    }

    /// The address of the index of the ring of available chains.
    pub(super) fn available_index(&self) -> u64 {
        self.driver + INDEX
    }

    /// The address of its entry number `index`, in a queue of `size`.
    pub(super) fn available_entry(&self, index: u16, size: u16) -> u64 {
        self.driver + FIRST + AVAILABLE * entry(index, size)
    }

    /// The address of the index after it, of which the device is to tell the driver.
    pub(super) fn available_event(&self, size: u16) -> u64 {
        self.driver + FIRST + AVAILABLE * u64::from(size)
    }

    /// The address of the index of the ring of used chains.
    pub(super) fn used_index(&self) -> u64 {
        self.device + INDEX
    }

    /// The address of its entry number `index`.
    pub(super) fn used_entry(&self, index: u16, size: u16) -> u64 {
        self.device + FIRST + USED * entry(index, size)
    }

    /// The address of the index after it, of which the driver is to tell the device.
    pub(super) fn used_event(&self, size: u16) -> u64 {
        self.device + FIRST + USED * u64::from(size)
    }
}

/// The place of entry number `index` in a ring of `size`, a power of two.
fn entry(index: u16, size: u16) -> u64 {
    (index & (size - 1)).into()
}

/// The offset of a ring's index; its flags come before, its entries after.
const INDEX: u64 = 2;
const FIRST: u64 = 4;
/// The sizes of an entry of the ring of available chains, of one of the ring of used ones, and of the index after each ring
/// by which the other side is told when it is to tell.
const AVAILABLE: u64 = 2;
const USED: u64 = 8;
const EVENT: u64 = 2;

/// The flag of a ring by which its writer says that it does not want to be told.
const QUIET: u16 = 1;

/// The number of a chain, by which it is finished: the index of its first descriptor, below the queue's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(u16);

impl Head {
    /// The chain with this number in a queue of `size`; `None` if there is none.
    pub(super) fn new(number: u32, size: u16) -> Option<Self> {
        let number = u16::try_from(number).ok().filter(|number| *number < size);
        number.map(Self)
    }

    /// The index of its first descriptor.
    pub(super) fn index(self) -> u16 {
        self.0
    }
}

/// Whether the device waits to be told of further chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Listening {
    /// It does, and there is none.
    Waits,
    /// A chain is available already.
    More,
}

/// A queue that the driver has set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    size: u16,
    places: Places,
    event_index: bool,
    indirect: bool,
    next_available: u16,
    next_used: u16,
    /// The number of used chains of which the driver was last told.
    told: u16,
}

impl Queue {
    /// A queue of which nothing was taken, with a `size` that is a power of two; `None` if there can be none at these places.
    /// `features` are those that driver and device have agreed on.
    pub fn new(size: u16, places: Places, features: u64) -> Option<Self> {
        (size.is_power_of_two() && places.fit(size)).then_some(Self {
            size,
            places,
            event_index: features & feature::EVENT_INDEX != 0,
            indirect: features & feature::INDIRECT != 0,
            next_available: 0,
            next_used: 0,
            told: 0,
        })
    }

    /// The number of the next chain that is available, which stays so until [`Self::advance`]; `None` if there is none.
    ///
    /// # Errors
    /// The memory of the ring is missing or absent, or the driver has broken a rule.
    pub fn peek(&self, memory: &impl GuestMemory) -> Result<Option<Head>, Fault> {
        let available = read(memory, self.places.available_index())?;
        let waiting = available.wrapping_sub(self.next_available);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(Breach::Indices.into());
        }
        // What the driver has written before the index is seen after it (2.7.13.3).
        fence(Ordering::Acquire);
        let entry = self.places.available_entry(self.next_available, self.size);
        let head = Head::new(read(memory, entry)?.into(), self.size).ok_or(Breach::Head)?;
        Ok(Some(head))
    }

    /// The chain that begins at `head`.
    pub fn chain(&self, head: Head) -> Chain {
        let table = Ipa::new(self.places.descriptors);
        Chain::new(table, self.size, head.0, self.indirect)
    }

    /// The number of its places, a power of two.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Takes the chain that [`Self::peek`] has found.
    pub fn advance(&mut self) {
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// Gives a chain back to the driver, of whose buffers the first `written` bytes that the device may write are written.
    ///
    /// # Errors
    /// The memory of the ring is missing or absent. Then the chain is not given back.
    pub fn finish(
        &mut self,
        memory: &impl GuestMemory,
        head: Head,
        written: u32,
    ) -> Result<(), Fault> {
        let element = u64::from(head.0) | u64::from(written) << 32;
        let entry = self.places.used_entry(self.next_used, self.size);
        memory.write(Ipa::new(entry), &element.to_le_bytes())?;
        // The driver sees buffers and element before the index (2.7.8.2).
        fence(Ordering::Release);
        let used = self.next_used.wrapping_add(1);
        write(memory, self.places.used_index(), used)?;
        self.next_used = used;
        Ok(())
    }

    /// Whether the driver is to be interrupted for what was finished since this was last asked (2.7.7, 2.7.10).
    ///
    /// # Errors
    /// The memory of the ring is missing or absent; the question can be put again.
    pub fn has_to_tell(&mut self, memory: &impl GuestMemory) -> Result<bool, Fault> {
        if self.told == self.next_used {
            return Ok(false);
        }
        // Either the driver sees the used index, or the device what the driver wants.
        fence(Ordering::SeqCst);
        let tell = if self.event_index {
            let event = read(memory, self.places.available_event(self.size))?;
            // Whether the index has passed the event since.
            let behind = self.next_used.wrapping_sub(event).wrapping_sub(1);
            behind < self.next_used.wrapping_sub(self.told)
        } else {
            read(memory, self.places.driver)? & QUIET == 0
        };
        self.told = self.next_used;
        Ok(tell)
    }

    /// Asks the driver to notify of the next chain, or not to (2.7.10).
    ///
    /// # Errors
    /// The memory of the ring is missing or absent.
    pub fn listen(&self, memory: &impl GuestMemory, wants: bool) -> Result<Listening, Fault> {
        if self.event_index {
            // An index that lies behind is not passed before it has gone round: nobody notifies then.
            let event = if wants {
                self.next_available
            } else {
                self.next_available.wrapping_sub(1)
            };
            write(memory, self.places.used_event(self.size), event)?;
        } else {
            write(memory, self.places.device, if wants { 0 } else { QUIET })?;
        }
        // Either the driver sees what the device wants, or the device the available index.
        fence(Ordering::SeqCst);
        let available = read(memory, self.places.available_index())?;
        Ok(if available == self.next_available {
            Listening::Waits
        } else {
            Listening::More
        })
    }
}

pub(super) fn read(memory: &impl GuestMemory, at: u64) -> Result<u16, Fault> {
    Ok(memory.load_half(Ipa::new(at))?)
}

pub(super) fn write(memory: &impl GuestMemory, at: u64, value: u16) -> Result<(), Fault> {
    Ok(memory.store_half(Ipa::new(at), value)?)
}

#[cfg(test)]
mod tests;
