//! Slots, which tell which of a VM's devices answers at an address.
//!
//! A slot is a region of addresses, an interrupt and a device. Region and interrupt never change,
//! so that a lookup takes no lock. Each device has a lock of its own. The rules of the description
//! (`hanok_config`) say that no two slots overlap, so that their order matters only for speed.

use crate::device::{Behind, Device};
use crate::virtio::SharedDevice;
use hanok_config::{DeviceKind, DeviceSlot, MAX_SLOTS, Peer};
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::AtomicU32;
use hanok_types::{IntId, Ipa, Span};
use heapless::Vec;

/// A device of a VM, with its region and interrupt.
#[derive(Debug)]
pub struct Slot {
    place: DeviceSlot,
    /// The size of one device's registers in bytes; the region has one or several devices.
    stride: u64,
    /// The slot's index among its VM's slots.
    index: usize,
    shared: Option<&'static SharedDevice>,
    /// The device. No CPU holds the locks of two of a VM's devices at a time.
    pub device: Mutex<Device>,
}

impl Slot {
    fn new(index: usize, place: DeviceSlot, epoch_seconds: u32, behind: Behind) -> Self {
        let shared = behind.shared;
        let device = Device::new(place.kind, epoch_seconds, behind);
        Self {
            place,
            stride: device.stride().unwrap_or(place.region.len()),
            index,
            shared,
            device: Mutex::new(device),
        }
    }

    /// The record of a device that two VMs share, or that the hypervisor serves.
    #[inline]
    pub fn shared(&self) -> Option<&'static SharedDevice> {
        self.shared
    }

    /// The other end of a device that two VMs share.
    pub fn peer(&self) -> Option<Peer> {
        self.place.peer
    }

    /// The kind of the device.
    pub fn kind(&self) -> DeviceKind {
        self.place.kind
    }

    /// Its place in the description.
    pub fn place(&self) -> &DeviceSlot {
        &self.place
    }

    /// The interrupt that the device's line raises, if it has one.
    pub fn interrupt(&self) -> Option<IntId> {
        self.place.interrupt
    }

    /// The slot's index among its VM's slots, below [`MAX_SLOTS`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The offset in the registers of a device of this slot of an access with `len` bytes that begins `offset` bytes behind the slot's start, if all
    /// of it is inside them.
    #[inline]
    fn inside(&self, offset: u64, len: u64) -> Option<u64> {
        let offset = if self.stride == self.place.region.len() {
            offset
        } else {
            offset.checked_rem(self.stride)?
        };
        (len <= self.stride.checked_sub(offset)?).then_some(offset)
    }
}

/// All slots of a VM.
#[derive(Debug)]
pub struct Slots(Vec<Slot, MAX_SLOTS>);

impl Slots {
    /// Slots with a device after a reset for each of `places`. `epoch_seconds` and `memory` as for
    /// [`Device::new`]; `shared` has the record of each slot that needs one, at the slot's index.
    ///
    /// Kept out of line: inlined, boot code would hold several copies of each kind of device.
    #[inline(never)]
    pub fn new(
        places: &[DeviceSlot],
        epoch_seconds: u32,
        shared: &[Option<&'static SharedDevice>],
        memory: &'static [AtomicU32],
    ) -> Self {
        let mut slots = Self(Vec::new());
        for (index, place) in places.iter().enumerate() {
            let shared = shared.get(index).copied().flatten();
            let behind = Behind { shared, memory };
            // The description has no more devices than there is room for.
            let _ = slots
                .0
                .push(Slot::new(index, *place, epoch_seconds, behind));
        }
        slots
    }

    /// The slot that contains all of `access`, and the offset of `access` in the device's
    /// registers; `None` if there is no such slot, or if `access` reaches beyond the end of a
    /// device.
    #[inline]
    pub fn find(&self, access: &Span<Ipa>) -> Option<(&Slot, u64)> {
        // Each access comes here, so that a slot that it does not go to is to take few instructions. Most often it goes to one of the last
        // ones, which are the shared devices; those of the first one, the serial port, have a way of their own.
        for slot in self.0.iter().rev() {
            let region = &slot.place.region;
            let offset = access.start().get().wrapping_sub(region.start().get());
            if offset < region.len() {
                // No two slots overlap.
                return Some((slot, slot.inside(offset, access.len())?));
            }
        }
        None
    }

    /// The device whose registers begin at `start`, if it is the first device there.
    #[inline]
    pub fn first_at(&self, start: Ipa) -> Option<&Slot> {
        self.0
            .first()
            .filter(|slot| slot.place.region.start() == start)
    }

    /// The slot of the serial port, if the VM has one.
    pub fn serial(&self) -> Option<&Slot> {
        let mut slots = self.0.iter();
        slots.find(|slot| slot.kind() == DeviceKind::Pl011)
    }

    /// The slot with this index.
    pub fn get(&self, index: usize) -> Option<&Slot> {
        self.0.get(index)
    }

    /// All slots.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }
}
