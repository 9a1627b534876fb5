//! The ring by which a driver VM is told of requests: a split queue whose driver's side is the hypervisor
//! (`hanok_abi::back_end`; virtio 1.2, 2.7).
//!
//! The driver VM may write anything there at any time. So nothing is read back but the index and the elements of what is done, and
//! an element is worth no more than its check: it names a request that is under way, or it is a breach.

use super::chain::{DESCRIPTOR, Descriptor, INDIRECT, NEXT, Table, WRITE};
use super::queue::{Head, Places, read, write};
use super::{Breach, Fault};
use hanok_abi::back_end::MAX_QUEUE_SIZE;
use hanok_hal::GuestMemory;
use hanok_hal::sync::atomic::{Ordering, fence};
use hanok_types::Ipa;

/// Where the driver VM has a ring and its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) places: Places,
    /// The address of the slots.
    pub(super) slots: u64,
    /// The size of a slot in bytes.
    pub(super) slot_size: u32,
    /// The number of descriptors in a slot.
    pub(super) descriptors: u16,
}

/// A descriptor of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) bytes: u32,
    pub(super) write: bool,
}

/// The most parts that are described at once.
pub(super) const MOST_PARTS: usize = if cfg!(target_pointer_width = "32") {
    3
} else {
    6
};

/// Descriptors of a request that lie one behind the other.
#[derive(Debug)]
pub(super) struct Parts {
    table: Table<{ MOST_PARTS + 1 }>,
    /// The number of the first one among all of the request.
    first: u16,
    count: u16,
    last: Option<Part>,
}

impl Parts {
    /// Those from number `first` on, of which `last` is known.
    pub(super) fn new(first: u16, last: Option<Part>) -> Self {
        Self {
            table: Table::EMPTY,
            first,
            count: 0,
            last,
        }
    }

    /// How many the request has with these.
    pub(super) fn all(&self) -> u16 {
        self.first + self.count + u16::from(self.last.is_some())
    }

    /// One more.
    pub(super) fn add(&mut self, part: Part) {
        let last = self.last.replace(part);
        self.put(last, NEXT);
    }

    /// No further one follows.
    pub(super) fn end(&mut self) {
        let last = self.last.take();
        self.put(last, 0);
    }

    #[inline]
    fn put(&mut self, part: Option<Part>, flags: u16) {
        let place = self.table.0.get_mut(usize::from(self.count));
        if let (Some(Part { at, bytes, write }), Some(place)) = (part, place) {
            self.count += 1;
            let flags = flags | if write { WRITE } else { 0 };
            *place = descriptor(at, bytes, (flags, self.first + self.count));
        }
    }

    /// The bytes of all of which it is known whether another one follows, and the part of which it is not.
    pub(super) fn known(&self) -> (&[u8], Option<Part>) {
        let known = self.table.0.get(..self.count.into()).unwrap_or_default();
        (known.as_flattened(), self.last)
    }
}

/// A request that the driver VM has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) head: Head,
    /// How many of the bytes that it may write are written.
    pub(super) written: u32,
}

/// A ring of which nothing is used yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    size: u16,
    layout: Layout,
    next_available: u16,
    next_used: u16,
}

impl Ring {
    /// A ring with `size` places; `None` if there can be none there.
    pub(super) fn new(size: u16, layout: Layout) -> Option<Self> {
        let Layout {
            places,
            slots,
            slot_size,
            descriptors,
        } = layout;
        let table = u64::from(descriptors) * DESCRIPTOR;
        let sound = size.is_power_of_two()
            && size <= MAX_QUEUE_SIZE
            && places.fit(size)
            && slots.is_multiple_of(DESCRIPTOR)
            && u64::from(slot_size).is_multiple_of(DESCRIPTOR)
            && descriptors > 0
            && table <= slot_size.into();
        let end = u64::from(slot_size).checked_mul(size.into());
        end.and_then(|bytes| slots.checked_add(bytes))?;
        sound.then_some(Self {
            size,
            layout,
            next_available: 0,
            next_used: 0,
        })
    }

    /// The number of descriptors that a request can have.
    pub(super) fn descriptors(&self) -> u16 {
        self.layout.descriptors
    }

    /// The number of bytes of data for which a slot has room.
    pub(super) fn room(&self) -> u32 {
        let table = u32::from(self.layout.descriptors) * DESCRIPTOR as u32;
        self.layout.slot_size.saturating_sub(table)
    }

    /// The address of the data of a request at `offset`.
    pub(super) fn data(&self, head: Head, offset: u32) -> Ipa {
        let table = u64::from(self.layout.descriptors) * DESCRIPTOR;
        Ipa::new(self.slot(head) + table + u64::from(offset))
    }

    fn slot(&self, head: Head) -> u64 {
        self.layout.slots + u64::from(head.index()) * u64::from(self.layout.slot_size)
    }

    /// Writes the descriptors of a request from number `index` on.
    pub(super) fn describe(
        &self,
        memory: &impl GuestMemory,
        (head, index): (Head, u16),
        descriptors: &[u8],
    ) -> Result<(), Fault> {
        let at = self.slot(head) + u64::from(index) * DESCRIPTOR;
        Ok(memory.write(Ipa::new(at), descriptors)?)
    }

    /// Descriptor `index` of a request, as the driver VM has left it; `None` if the slot has none of this index.
    pub(super) fn described(
        &self,
        memory: &impl GuestMemory,
        (head, index): (Head, u16),
    ) -> Result<Option<Part>, Fault> {
        if index >= self.descriptors() {
            return Ok(None);
        }
        let at = self.slot(head) + u64::from(index) * DESCRIPTOR;
        let found = Descriptor::read(memory, Ipa::new(at))?;
        Ok(Some(Part {
            at: found.at,
            bytes: found.bytes,
            write: found.has(WRITE),
        }))
    }

    /// Gives a request with `count` descriptors to the driver VM. The answer is whether it is to be told.
    pub(super) fn publish(
        &mut self,
        memory: &impl GuestMemory,
        head: Head,
        count: u16,
    ) -> Result<bool, Fault> {
        let places = &self.layout.places;
        let entry = places.descriptors + u64::from(head.index()) * DESCRIPTOR;
        let bytes = u32::from(count) * DESCRIPTOR as u32;
        put(memory, entry, self.slot(head), bytes, (INDIRECT, 0))?;
        write(
            memory,
            places.available_entry(self.next_available, self.size),
            head.index(),
        )?;
        // The driver VM sees the request before the index (2.7.13.3).
        fence(Ordering::Release);
        let next = self.next_available.wrapping_add(1);
        write(memory, places.available_index(), next)?;
        // Either the driver VM sees the index, or what it wants is seen here.
        fence(Ordering::SeqCst);
        let event = read(memory, places.used_event(self.size))?;
        let tell = next.wrapping_sub(event).wrapping_sub(1) == 0;
        self.next_available = next;
        Ok(tell)
    }

    /// The next request that was given back, which stays the next one until [`Self::took`].
    pub(super) fn peek(&self, memory: &impl GuestMemory) -> Result<Option<Answer>, Fault> {
        let places = &self.layout.places;
        let used = read(memory, places.used_index())?;
        let waiting = used.wrapping_sub(self.next_used);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > self.size {
            return Err(Breach::Indices.into());
        }
        // What was written before the index is seen after it.
        fence(Ordering::Acquire);
        let mut element = [0; 8];
        memory.read(
            Ipa::new(places.used_entry(self.next_used, self.size)),
            &mut element,
        )?;
        let element = u64::from_le_bytes(element);
        let head = Head::new(element as u32, self.size).ok_or(Breach::Head)?;
        let written = (element >> 32) as u32;
        Ok(Some(Answer { head, written }))
    }

    /// Goes on to the next request that was given back, and asks to be told of it.
    pub(super) fn took(&mut self, memory: &impl GuestMemory) -> Result<(), Fault> {
        let next = self.next_used.wrapping_add(1);
        write(memory, self.layout.places.available_event(self.size), next)?;
        self.next_used = next;
        Ok(())
    }
}

/// Writes a descriptor.
fn put(
    memory: &impl GuestMemory,
    at: u64,
    buffer: u64,
    bytes: u32,
    (flags, next): (u16, u16),
) -> Result<(), Fault> {
    let table = Table([descriptor(buffer, bytes, (flags, next))]);
    Ok(memory.write(Ipa::new(at), table.0.as_flattened())?)
}

/// The bytes of a descriptor.
#[inline]
fn descriptor(buffer: u64, bytes: u32, (flags, next): (u16, u16)) -> [u8; DESCRIPTOR as usize] {
    let rest = u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48;
    (u128::from(buffer) | u128::from(rest) << 64).to_le_bytes()
}
