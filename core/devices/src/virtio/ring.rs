//! The ring by which a driver VM is told of requests: a split queue whose driver's side is the hypervisor
//! (`hanok_abi::back_end`; virtio 1.2, 2.7).
//!
//! The driver VM may write anything there at any time. So nothing is read back but the index and the elements of what is done, and
//! an element is worth no more than its check: it names a request that is under way, or it is a breach.

use super::chain::{DESCRIPTOR, Descriptor, INDIRECT, NEXT, Table};
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

/// The most parts that are described at once.
pub(super) const MOST_PARTS: usize = if cfg!(target_pointer_width = "32") {
    3
} else {
    6
};

/// Room for as many, and for one of before.
pub(super) type PartsTable = Table<{ MOST_PARTS + 1 }>;

/// Descriptors of a request that lie one behind the other.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    table: &'a mut PartsTable,
    /// How many of the request were described before, and with these.
    first: u16,
    pub(super) count: u16,
    /// The part of which it is not known whether another one follows; or one of no bytes, which a request does not have.
    pub(super) last: Descriptor,
}

impl<'a> Parts<'a> {
    /// Those from number `first` on, of which `last` is known.
    pub(super) fn new(table: &'a mut PartsTable, first: u16, last: Descriptor) -> Self {
        Self {
            table,
            first,
            count: first,
            last,
        }
    }

    /// How many the request has with these.
    pub(super) fn all(&self) -> u16 {
        self.count + u16::from(self.last.bytes > 0)
    }

    /// One more.
    pub(super) fn add(&mut self, part: Descriptor) {
        self.put(NEXT);
        self.last = part;
    }

    /// No further one follows.
    pub(super) fn end(&mut self) {
        self.put(0);
        self.last = Descriptor::default();
    }

    /// Describes the last one.
    #[inline]
    fn put(&mut self, flags: u16) {
        let place = self.table.0.get_mut(usize::from(self.count - self.first));
        if let Some(place) = place.filter(|_| self.last.bytes > 0) {
            self.count += 1;
            self.last.flags |= flags;
            self.last.next = self.count;
            *place = self.last.encoded();
        }
    }

    /// The bytes of all that are described.
    pub(super) fn described(&self) -> &[u8] {
        let count = usize::from(self.count - self.first);
        let described = self.table.0.get(..count).unwrap_or_default();
        described.as_flattened()
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
    /// Whether the driver VM is still to be asked to tell of it.
    asks: bool,
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
            asks: false,
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

    /// Descriptor `index` of a request, as the driver VM has left it. The answer is whether the slot has one of this index, which is then in `part`.
    pub(super) fn described(
        &self,
        memory: &impl GuestMemory,
        (head, index): (Head, u16),
        part: &mut Descriptor,
    ) -> Result<bool, Fault> {
        if index >= self.descriptors() {
            return Ok(false);
        }
        let at = self.slot(head) + u64::from(index) * DESCRIPTOR;
        *part = Descriptor::read(memory, Ipa::new(at))?;
        Ok(true)
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
        let table = Descriptor {
            at: self.slot(head),
            bytes: u32::from(count) * DESCRIPTOR as u32,
            flags: INDIRECT,
            next: 0,
        };
        let table = Table([table.encoded()]);
        memory.write(Ipa::new(entry), table.0.as_flattened())?;
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
        let event = read(memory, places.used_event(self.size));
        self.next_available = next;
        // The driver VM may have the request already: what fails now is no reason to give it again. An interrupt too many does no harm.
        Ok(event.map_or(true, |event| next.wrapping_sub(event) == 1))
    }

    /// The next request that was given back, which stays the next one until [`Self::took`].
    pub(super) fn peek(&mut self, memory: &impl GuestMemory) -> Result<Option<Answer>, Fault> {
        if self.asks {
            self.ask(memory)?;
        }
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

    /// Goes on to the next request that was given back, and asks to be told of it. After an error it has gone on, and [`Self::peek`] asks.
    pub(super) fn took(&mut self, memory: &impl GuestMemory) -> Result<(), Fault> {
        self.next_used = self.next_used.wrapping_add(1);
        self.ask(memory)
    }

    #[inline(never)]
    fn ask(&mut self, memory: &impl GuestMemory) -> Result<(), Fault> {
        let event = self.layout.places.available_event(self.size);
        let asked = write(memory, event, self.next_used);
        self.asks = asked.is_err();
        asked
    }
}
