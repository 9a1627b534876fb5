//! Slots: which of a VM's devices answers at an address.
//!
//! A slot is a region of addresses, an interrupt and a device. Region and interrupt never change,
//! so that a lookup takes no lock; each device has a lock of its own. No two slots overlap, by
//! the rules of the description (`hanok_config`), so that their order means nothing but speed.

use crate::Device;
use hanok_config::{DeviceKind, DeviceSlot, MAX_SLOTS};
use hanok_hal::Mutex;
use hanok_types::{IntId, Ipa, Span};
use heapless::Vec;

/// A device of a VM, with its place.
#[derive(Debug)]
pub struct Slot {
    place: DeviceSlot,
    /// Bytes of the registers of one device, of which the region holds one or several.
    stride: u64,
    /// Which of its VM's slots it is.
    index: usize,
    /// The device. Nobody holds two of a VM's devices at a time.
    pub device: Mutex<Device>,
}

impl Slot {
    fn new(index: usize, place: DeviceSlot, epoch_seconds: u32) -> Self {
        let device = Device::new(place.kind, epoch_seconds);
        Self {
            place,
            stride: device.stride().unwrap_or(place.region.len()),
            index,
            device: Mutex::new(device),
        }
    }

    /// What it is.
    pub fn kind(&self) -> DeviceKind {
        self.place.kind
    }

    /// The interrupt that the device's line raises, if it has one.
    pub fn interrupt(&self) -> Option<IntId> {
        self.place.interrupt
    }

    /// Which of its VM's slots it is, below [`MAX_SLOTS`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// How far `access` lies inside the registers of a device of this slot, if all of it does.
    #[inline]
    fn offset_of(&self, access: &Span<Ipa>) -> Option<u64> {
        let offset = self.place.region.offset_of(access.start())?;
        let offset = if self.stride == self.place.region.len() {
            offset
        } else {
            offset.checked_rem(self.stride)?
        };
        let fits = offset.checked_add(access.len())? <= self.stride;
        fits.then_some(offset)
    }
}

/// All slots of a VM.
#[derive(Debug)]
pub struct Slots(Vec<Slot, MAX_SLOTS>);

impl Slots {
    /// A device after a reset for each of `places`. `epoch_seconds` as for [`Device::new`].
    ///
    /// Kept out of line: boot code would hold several copies of each kind of device.
    #[inline(never)]
    pub fn new(places: &[DeviceSlot], epoch_seconds: u32) -> Self {
        let mut slots = Self(Vec::new());
        for (index, place) in places.iter().enumerate() {
            // The description has no more of them than there is room for.
            let _ = slots.0.push(Slot::new(index, *place, epoch_seconds));
        }
        slots
    }

    /// The slot that holds all of the `access`, and how far inside the device's registers that
    /// begins; `None` where none does, or where it runs over a device's end.
    #[inline]
    pub fn find(&self, access: &Span<Ipa>) -> Option<(&Slot, u64)> {
        let mut slots = self.0.iter();
        slots.find_map(|slot| Some((slot, slot.offset_of(access)?)))
    }

    /// The device whose registers begin at `start`, where it is the first one.
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

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }
}
