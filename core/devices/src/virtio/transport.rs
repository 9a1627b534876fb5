//! The registers of a virtio device over MMIO, version 2 (virtio 1.2, 4.2.2).
//!
//! Registers have 32 bits, and are reached by aligned accesses of 32 bits alone, as on QEMU; a driver reads the device's
//! own configuration with any width. What a store makes somebody else do is an [`Event`].

use super::feature;
use super::queue::{Places, Queue};
use crate::virtio_mmio::{MAGIC, QEMU};
use crate::{Access, Unknown};
use hanok_types::Width;

/// The most queues of a device.
pub const MAX_QUEUES: usize = 4;

const MAGIC_VALUE: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE_ID: u64 = 0x008;
const VENDOR_ID: u64 = 0x00c;
const DEVICE_FEATURES: u64 = 0x010;
const DEVICE_FEATURES_SELECT: u64 = 0x014;
const DRIVER_FEATURES: u64 = 0x020;
const DRIVER_FEATURES_SELECT: u64 = 0x024;
const QUEUE_SELECT: u64 = 0x030;
const QUEUE_SIZE_MAX: u64 = 0x034;
const QUEUE_SIZE: u64 = 0x038;
const QUEUE_READY: u64 = 0x044;
const QUEUE_NOTIFY: u64 = 0x050;
pub(super) const INTERRUPT_STATUS: u64 = 0x060;
pub(super) const INTERRUPT_ACK: u64 = 0x064;
const STATUS: u64 = 0x070;
const QUEUE_DESCRIPTORS: u64 = 0x080;
const QUEUE_DRIVER: u64 = 0x090;
const QUEUE_DEVICE: u64 = 0x0a0;
const SHARED_MEMORY_SELECT: u64 = 0x0ac;
const SHARED_MEMORY_FIRST: u64 = 0x0b0;
const SHARED_MEMORY_LAST: u64 = 0x0bc;
const CONFIG_GENERATION: u64 = 0x0fc;
/// The device's own configuration.
pub(super) const CONFIG: u64 = 0x100;

/// Bits of the status (2.1).
mod status {
    pub(super) const FEATURES_OK: u8 = 8;
    pub(super) const DRIVER_OK: u8 = 4;
    pub(super) const NEEDS_RESET: u8 = 64;
}

/// Bits of the interrupt status: a chain was used, and the configuration has changed.
const USED: u32 = 1;
const CHANGED: u32 = 2;

/// What a device is, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kind of device (virtio 1.2, 5); 0 is none.
    pub device: u32,
    /// The features that it offers.
    pub features: u64,
    /// The number of its queues, up to [`MAX_QUEUES`].
    pub queues: usize,
    /// The largest size of a queue, a power of two.
    pub queue_size: u16,
}

/// What somebody else has to do after an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Event {
    /// Nothing.
    None,
    /// The driver has reset the device: it has forgotten its queues, and whoever serves chains of them gives them up.
    Reset,
    /// The driver is ready: the device may use its queues.
    Ready,
    /// There may be new chains in this queue, which can be used.
    Notified(usize),
    /// A store to the device's own configuration.
    Config {
        /// The offset of the first byte there.
        offset: u64,
        /// How many bytes are stored.
        width: Width,
        /// The value, in little-endian order.
        value: u64,
    },
}

/// The registers of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueRegisters {
    size: u16,
    places: Places,
    queue: Option<Queue>,
}

/// The registers of a device.
#[derive(Clone, Debug)]
pub struct Transport {
    identity: Identity,
    status: u8,
    device_features_select: u32,
    driver_features_select: u32,
    driver_features: u64,
    selected: usize,
    queues: [QueueRegisters; MAX_QUEUES],
    interrupts: u32,
    generation: u32,
    unknown: Unknown,
}

impl Transport {
    /// A device after a reset.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            status: 0,
            device_features_select: 0,
            driver_features_select: 0,
            driver_features: 0,
            selected: 0,
            queues: [QueueRegisters::default(); MAX_QUEUES],
            interrupts: 0,
            generation: 0,
            unknown: Unknown::default(),
        }
    }

    /// Resets the device. Its counters and the number of its configuration go on.
    pub fn reset(&mut self) {
        let (unknown, generation) = (self.unknown, self.generation);
        *self = Self::new(self.identity);
        (self.unknown, self.generation) = (unknown, generation);
    }

    /// Sets what the device offers, with `queue_size` as the largest size of a queue. Refused, and nothing has changed, if the driver
    /// uses what is not offered any more.
    #[must_use]
    pub fn offer(&mut self, features: u64, queue_size: u16) -> bool {
        let sizes = self.queues.iter().filter_map(|registers| registers.queue);
        let larger = sizes
            .map(|queue| queue.size())
            .any(|size| size > queue_size);
        if larger || self.features() & !features != 0 {
            return false;
        }
        (self.identity.features, self.identity.queue_size) = (features, queue_size);
        true
    }

    /// Serves a load or store at `offset`, of a device whose own configuration is `config`. The answer is the value of a
    /// load, or zero for a store, and what the caller has to do.
    pub fn access(&mut self, offset: u64, access: Access, config: &[u8]) -> (u64, Event) {
        let Access {
            width,
            write,
            value,
            ..
        } = access;
        if let Some(offset) = offset.checked_sub(CONFIG) {
            let value = value & width.mask();
            return if write {
                (
                    0,
                    Event::Config {
                        offset,
                        width,
                        value,
                    },
                )
            } else {
                (self.config(offset, width, config), Event::None)
            };
        }
        if width != Width::Word || !offset.is_multiple_of(4) {
            // QEMU's answer, too.
            if write {
                self.unknown.write();
            } else {
                self.unknown.read();
            }
            return (0, Event::None);
        }
        if write {
            return (0, self.store(offset, value as u32));
        }
        (self.load(offset).into(), Event::None)
    }

    /// A load of the interrupt's status, or a store that acknowledges it: the value of a load, or zero, and whether it acknowledges. `None`,
    /// and nothing has changed, for another register.
    #[inline]
    pub(super) fn interrupts_at_once(
        &mut self,
        offset: u64,
        stored: Option<u32>,
    ) -> Option<(u32, bool)> {
        match (offset, stored) {
            (INTERRUPT_STATUS, None) => Some((self.interrupts, false)),
            (INTERRUPT_ACK, Some(bits)) => {
                self.interrupts &= !bits;
                Some((0, true))
            }
            _ => None,
        }
    }

    /// The level of the interrupt line.
    pub fn level(&self) -> bool {
        self.interrupts != 0
    }

    /// The features that driver and device have agreed on; none before they have.
    pub fn features(&self) -> u64 {
        if self.status & status::FEATURES_OK != 0 {
            self.driver_features
        } else {
            0
        }
    }

    /// The queue with this index, if the device may use it now.
    pub fn queue(&mut self, index: usize) -> Option<&mut Queue> {
        if !self.is_live() {
            return None;
        }
        self.queues.get_mut(index)?.queue.as_mut()
    }

    /// Whether the driver is ready and has broken no rule.
    pub fn is_live(&self) -> bool {
        let Self { status, .. } = *self;
        status & status::DRIVER_OK != 0 && status & status::NEEDS_RESET == 0
    }

    /// Interrupts the driver, as chains were used.
    pub fn tell_used(&mut self) {
        self.interrupts |= USED;
    }

    /// Tells the driver that the device's own configuration has changed.
    pub fn tell_changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.interrupts |= CHANGED;
    }

    /// The driver has broken a rule: the device does nothing until it is reset (2.1.2).
    pub fn break_down(&mut self) {
        self.status |= status::NEEDS_RESET;
        if self.status & status::DRIVER_OK != 0 {
            self.interrupts |= CHANGED;
        }
    }

    /// Counts a store to a part of the configuration that cannot be stored to.
    pub fn count_unknown_store(&mut self) {
        self.unknown.write();
    }

    /// The counts of accesses to registers that do not exist.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    fn load(&mut self, offset: u64) -> u32 {
        let queue = (self.selected < self.identity.queues)
            .then(|| self.queues.get(self.selected))
            .flatten();
        match offset {
            MAGIC_VALUE => MAGIC,
            VERSION => 2,
            DEVICE_ID => self.identity.device,
            VENDOR_ID => QEMU,
            DEVICE_FEATURES => half(self.identity.features, self.device_features_select),
            QUEUE_SIZE_MAX => queue.map_or(0, |_| self.identity.queue_size.into()),
            QUEUE_READY => queue.map_or(0, |queue| queue.queue.is_some().into()),
            INTERRUPT_STATUS => self.interrupts,
            STATUS => self.status.into(),
            // No shared memory: its length and place are all ones (4.2.2).
            SHARED_MEMORY_FIRST..=SHARED_MEMORY_LAST => u32::MAX,
            CONFIG_GENERATION => self.generation,
            _ => self.unknown.read(),
        }
    }

    fn store(&mut self, offset: u64, value: u32) -> Event {
        match offset {
            DEVICE_FEATURES_SELECT => self.device_features_select = value,
            DRIVER_FEATURES_SELECT => self.driver_features_select = value,
            // Not after the driver has said that it has chosen (3.1.1).
            DRIVER_FEATURES if self.status & status::FEATURES_OK == 0 => {
                set_half(
                    &mut self.driver_features,
                    self.driver_features_select,
                    value,
                );
            }
            QUEUE_SELECT => self.selected = value as usize,
            QUEUE_NOTIFY => {
                let index = value as usize;
                if self.queue(index).is_some() {
                    return Event::Notified(index);
                }
            }
            INTERRUPT_ACK => self.interrupts &= !value,
            STATUS => return self.store_status(value as u8),
            QUEUE_SIZE | QUEUE_READY | QUEUE_DESCRIPTORS..=SHARED_MEMORY_SELECT => {
                self.store_queue(offset, value);
            }
            _ => self.unknown.write(),
        }
        Event::None
    }

    /// A store to a register of the selected queue.
    fn store_queue(&mut self, offset: u64, value: u32) {
        let Self {
            selected, identity, ..
        } = *self;
        let (features, is_live) = (self.features(), self.is_live());
        let Some(registers) = (selected < identity.queues)
            .then(|| self.queues.get_mut(selected))
            .flatten()
        else {
            return self.unknown.write();
        };
        let (is_ready, places) = (registers.queue.is_some(), &mut registers.places);
        match offset {
            // A queue that the device may use ends with the device's reset alone.
            QUEUE_READY if value == 0 && is_live => self.unknown.write(),
            QUEUE_READY if value == 0 => registers.queue = None,
            QUEUE_READY if !is_ready => {
                let fits = registers.size <= identity.queue_size;
                registers.queue = fits
                    .then(|| Queue::new(registers.size, *places, features))
                    .flatten();
                if registers.queue.is_none() {
                    self.break_down();
                }
            }
            // A queue that is in use stays as it is (4.2.2.2).
            QUEUE_READY => {}
            _ if is_ready => self.unknown.write(),
            QUEUE_SIZE => registers.size = u16::try_from(value).unwrap_or(0),
            _ => {
                let (place, number) = match offset & !4 {
                    QUEUE_DESCRIPTORS => (&mut places.descriptors, offset),
                    QUEUE_DRIVER => (&mut places.driver, offset),
                    QUEUE_DEVICE => (&mut places.device, offset),
                    // Among them, the selector of shared memory, of which there is none.
                    _ => return self.unknown.write(),
                };
                set_half(place, (number & 4) as u32 / 4, value);
            }
        }
    }

    fn store_status(&mut self, value: u8) -> Event {
        if value == 0 {
            self.reset();
            return Event::Reset;
        }
        let (old, value) = (self.status, value & !status::NEEDS_RESET);
        let mut new = old | value;
        if value & !old & status::FEATURES_OK != 0 && !self.may_agree() {
            // The driver reads it back, and finds that the device does not agree (3.1.1).
            new &= !status::FEATURES_OK;
        }
        let is_early = new & status::DRIVER_OK != 0 && new & status::FEATURES_OK == 0;
        if is_early {
            new &= !status::DRIVER_OK;
        }
        self.status = new;
        // Bits are never cleared but by a reset (2.1.1).
        if is_early || old & !status::NEEDS_RESET & !value != 0 {
            self.break_down();
        }
        if self.is_live() && old & status::DRIVER_OK == 0 {
            Event::Ready
        } else {
            Event::None
        }
    }

    /// Whether the device can work with the features that the driver has chosen.
    fn may_agree(&self) -> bool {
        let chosen = self.driver_features;
        chosen & !self.identity.features == 0 && chosen & feature::VERSION_1 != 0
    }

    fn config(&mut self, offset: u64, width: Width, config: &[u8]) -> u64 {
        let mut bytes = [0; 8];
        let count = width.bytes() as usize;
        let from = usize::try_from(offset).ok();
        let own = from.and_then(|from| config.get(from..from.checked_add(count)?));
        match (own, bytes.get_mut(..count)) {
            (Some(own), Some(bytes)) => bytes.copy_from_slice(own),
            _ => {
                self.unknown.read();
            }
        }
        u64::from_le_bytes(bytes)
    }
}

/// Half number `index` of `value`, from the lowest bit on; there are two.
pub(super) fn half(value: u64, index: u32) -> u32 {
    match index {
        0 => value as u32,
        1 => (value >> 32) as u32,
        _ => 0,
    }
}

/// Sets half number `index` of `value`.
pub(super) fn set_half(value: &mut u64, index: u32, to: u32) {
    let (low, high) = (*value as u32, (*value >> 32) as u32);
    let (low, high) = match index {
        0 => (to, high),
        1 => (low, to),
        // What is beyond is of no feature that there is.
        _ => (low, high),
    };
    *value = u64::from(high) << 32 | u64::from(low);
}

#[cfg(test)]
mod tests;
