//! A virtio device over MMIO, seen from its driver (virtio 1.2, 4.2.2 and 2.7): registers and queues. All steps of its
//! initialization can be done one by one, so that some can be done wrong.

use super::memory::{AREA, AVAILABLE, Descriptor, NEXT, QUEUE, QUEUES, TABLE, USED, buffer};
use crate::mmio::{read32, write32};
use crate::timer;
use core::sync::atomic::{Ordering::SeqCst, fence};
use hanok_types::platform;

/// Registers.
pub const DEVICE_FEATURES: u64 = 0x010;
pub const DEVICE_FEATURES_SELECT: u64 = 0x014;
pub const DRIVER_FEATURES: u64 = 0x020;
pub const DRIVER_FEATURES_SELECT: u64 = 0x024;
pub const QUEUE_SELECT: u64 = 0x030;
pub const QUEUE_SIZE_MAX: u64 = 0x034;
pub const QUEUE_SIZE: u64 = 0x038;
pub const QUEUE_READY: u64 = 0x044;
pub const QUEUE_NOTIFY: u64 = 0x050;
pub const INTERRUPT_STATUS: u64 = 0x060;
pub const INTERRUPT_ACK: u64 = 0x064;
pub const STATUS: u64 = 0x070;
pub const QUEUE_PLACES: [u64; 3] = [0x080, 0x090, 0x0a0];
pub const CONFIG: u64 = 0x100;
const MAGIC_VALUE: u64 = 0x000;
const DEVICE_ID: u64 = 0x008;

/// Bits of the status.
pub const ACKNOWLEDGE: u32 = 1;
pub const DRIVER: u32 = 2;
pub const DRIVER_OK: u32 = 4;
pub const FEATURES_OK: u32 = 8;
pub const NEEDS_RESET: u32 = 64;

/// Features of the queues.
pub const INDIRECT: u64 = 1 << 28;
pub const EVENT_INDEX: u64 = 1 << 29;
pub const VERSION_1: u64 = 1 << 32;

/// The places of a queue.
pub const SIZE: u16 = 16;
/// The descriptors of a request by [`Device::submit`], of which as many as fit the queue can be under way.
pub const PARTS: u16 = 4;

/// A device, and how far its queues are.
pub struct Device {
    /// Its registers.
    pub at: u64,
    /// Its kind (virtio 1.2, 5).
    pub kind: u32,
    /// The index of the next request of each queue, and of the next answer.
    pub next: [u16; QUEUES as usize],
    seen: [u16; QUEUES as usize],
}

/// All devices of this VM.
pub fn devices() -> impl Iterator<Item = Device> {
    let transports = 0..platform::VIRTIO_SLOTS;
    let all = transports.map(|slot| platform::VIRTIO.get() + slot * platform::VIRTIO_STRIDE);
    let valid = all.filter(|at| read32(at + MAGIC_VALUE) == u32::from_le_bytes(*b"virt"));
    let devices = valid.map(|at| (at, read32(at + DEVICE_ID)));
    devices
        .filter(|(_, kind)| *kind != 0)
        .map(|(at, kind)| Device {
            at,
            kind,
            next: [0; QUEUES as usize],
            seen: [0; QUEUES as usize],
        })
}

impl Device {
    /// Reads a register.
    pub fn read(&self, register: u64) -> u32 {
        read32(self.at + register)
    }

    /// Writes a register.
    pub fn write(&self, register: u64, value: u32) {
        write32(self.at + register, value);
    }

    /// The name of its kind.
    pub fn name(&self) -> &'static str {
        match self.kind {
            1 => "network",
            2 => "block",
            3 => "console",
            4 => "entropy",
            9 => "directory",
            16 => "gpu",
            18 => "input",
            19 => "vsock",
            _ => "unknown",
        }
    }

    /// Resets the device, and forgets its queues.
    pub fn reset(&mut self) -> Result<(), &'static str> {
        self.write(STATUS, 0);
        if !super::wait(|| self.read(STATUS) == 0) {
            return Err("the status after a reset is not 0");
        }
        self.forget();
        Ok(())
    }

    /// Forgets its queues.
    fn forget(&mut self) {
        (self.next, self.seen) = ([0; QUEUES as usize], [0; QUEUES as usize]);
        AREA.fill(0, QUEUES * QUEUE, 0);
        self.write(INTERRUPT_ACK, self.read(INTERRUPT_STATUS));
    }

    /// Takes all steps from a reset to a driver that is ready, whatever the device says: somebody else may store to its registers.
    pub fn set_up_blindly(&mut self) {
        self.write(STATUS, 0);
        self.forget();
        self.write(STATUS, ACKNOWLEDGE | DRIVER);
        self.choose(VERSION_1 | INDIRECT);
        self.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        self.make_queues(None);
        self.go();
    }

    /// The features that are offered.
    pub fn offered(&self) -> u64 {
        let half = |half| {
            self.write(DEVICE_FEATURES_SELECT, half);
            u64::from(self.read(DEVICE_FEATURES))
        };
        half(0) | half(1) << 32
    }

    /// Chooses features.
    pub fn choose(&self, features: u64) {
        for half in [0, 1] {
            self.write(DRIVER_FEATURES_SELECT, half);
            self.write(DRIVER_FEATURES, (features >> (32 * half)) as u32);
        }
    }

    /// Resets the device, and agrees on these features. The answer is whether the device agrees.
    pub fn agree(&mut self, features: u64) -> Result<bool, &'static str> {
        self.reset()?;
        self.write(STATUS, ACKNOWLEDGE | DRIVER);
        self.choose(features);
        self.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        Ok(self.read(STATUS) & FEATURES_OK != 0)
    }

    /// The largest size of queue `index`, 0 if there is none.
    pub fn largest(&self, index: u32) -> u32 {
        self.write(QUEUE_SELECT, index);
        self.read(QUEUE_SIZE_MAX)
    }

    /// How many queues it has.
    pub fn queues(&self) -> u32 {
        (0..QUEUES as u32)
            .take_while(|index| self.largest(*index) != 0)
            .count() as u32
    }

    /// The places of queue `index` in this VM's memory, as its registers take them.
    pub fn places(index: u32) -> [u64; 3] {
        [TABLE, AVAILABLE, USED].map(|part| AREA.address(u64::from(index) * QUEUE + part))
    }

    /// Says that queue `index` is at `places`, and that it is ready. The answer is whether the device takes it.
    pub fn make_queue(&self, index: u32, size: u32, places: [u64; 3]) -> bool {
        self.write(QUEUE_SELECT, index);
        self.write(QUEUE_SIZE, size);
        for (register, place) in QUEUE_PLACES.into_iter().zip(places) {
            self.write(register, place as u32);
            self.write(register + 4, (place >> 32) as u32);
        }
        self.write(QUEUE_READY, 1);
        self.read(QUEUE_READY) == 1
    }

    /// Makes all queues but `but`, which somebody else makes.
    pub fn make_queues(&self, but: Option<u32>) {
        for index in (0..self.queues()).filter(|index| Some(*index) != but) {
            let size = self.largest(index).min(SIZE.into());
            self.make_queue(index, size, Self::places(index));
        }
    }

    /// The driver is ready.
    pub fn go(&self) {
        self.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    /// Resets the device and sets it up as it should be.
    pub fn set_up(&mut self) -> Result<(), &'static str> {
        self.set_up_with(VERSION_1 | INDIRECT)
    }

    /// The same with other features.
    pub fn set_up_with(&mut self, features: u64) -> Result<(), &'static str> {
        if !self.agree(features)? {
            return Err("the device does not agree on features");
        }
        self.make_queues(None);
        self.go();
        if !self.is_live() {
            return Err("the device is not ready");
        }
        Ok(())
    }

    /// Whether the device is ready and does not want a reset.
    pub fn is_live(&self) -> bool {
        self.read(STATUS) & (DRIVER_OK | NEEDS_RESET) == DRIVER_OK
    }

    /// Whether it wants a reset.
    pub fn is_broken(&self) -> bool {
        self.read(STATUS) & NEEDS_RESET != 0
    }

    /// Makes a request of these buffers, up to four, by descriptors of the queue's own table, and notifies the device.
    pub fn submit(&mut self, queue: u32, parts: &[Descriptor]) {
        let head = self.next[queue as usize] % (SIZE / PARTS) * PARTS;
        let table = u64::from(queue) * QUEUE + TABLE;
        for (index, part) in (head..).zip(parts) {
            let is_last = usize::from(index - head) + 1 == parts.len();
            let next = if is_last { 0 } else { NEXT };
            let descriptor = Descriptor {
                flags: part.flags | next,
                next: index + 1,
                ..*part
            };
            AREA.describe(table, index.into(), descriptor);
        }
        self.publish(queue, head);
        self.notify(queue);
    }

    /// Makes a request of the descriptors that begin at `head`.
    pub fn publish(&mut self, queue: u32, head: u16) {
        let next = &mut self.next[queue as usize];
        let ring = u64::from(queue) * QUEUE + AVAILABLE;
        AREA.set(ring + 4 + 2 * u64::from(*next % SIZE), head);
        *next = next.wrapping_add(1);
        fence(SeqCst);
        AREA.set(ring + 2, *next);
        fence(SeqCst);
    }

    /// Tells the device of requests.
    pub fn notify(&self, queue: u32) {
        self.write(QUEUE_NOTIFY, queue);
    }

    /// The next answer, if there is one: the request's first descriptor, and how many bytes were written.
    pub fn answer(&mut self, queue: u32) -> Option<(u32, u32)> {
        let seen = &mut self.seen[queue as usize];
        let ring = u64::from(queue) * QUEUE + USED;
        if AREA.get(ring + 2) == *seen {
            return None;
        }
        fence(SeqCst);
        let at = ring + 4 + 8 * u64::from(*seen % SIZE);
        *seen = seen.wrapping_add(1);
        Some((AREA.word(at), AREA.word(at + 4)))
    }

    /// Waits for the next answer, for at most so many milliseconds.
    pub fn wait_ms(&mut self, queue: u32, milliseconds: u64) -> Option<(u32, u32)> {
        let mut found = None;
        super::wait_ms(milliseconds, || {
            found = self.answer(queue);
            found.is_some()
        });
        found
    }

    /// Waits for the next answer, as long as a working device may take.
    pub fn wait(&mut self, queue: u32) -> Option<(u32, u32)> {
        self.wait_ms(queue, timer::PATIENCE_MS)
    }
}

/// A buffer that the device reads.
pub fn reads(offset: u64, bytes: u32) -> Descriptor {
    buffer(offset, bytes, 0)
}

/// A buffer that the device writes.
pub fn writes(offset: u64, bytes: u32) -> Descriptor {
    buffer(offset, bytes, super::memory::WRITE)
}
