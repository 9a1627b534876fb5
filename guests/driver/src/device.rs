//! A virtio device of the board's over MMIO, version 2, as far as its driver has to know (virtio 1.2, 4.2.2).

use crate::memory::Split;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use hanok_guest_runtime::mmio;

const MAGIC: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE: u64 = 0x008;
const DEVICE_FEATURES: u64 = 0x010;
const DEVICE_FEATURES_SELECT: u64 = 0x014;
const DRIVER_FEATURES: u64 = 0x020;
const DRIVER_FEATURES_SELECT: u64 = 0x024;
const QUEUE_SELECT: u64 = 0x030;
const QUEUE_SIZE_MAX: u64 = 0x034;
const QUEUE_SIZE: u64 = 0x038;
const QUEUE_READY: u64 = 0x044;
const QUEUE_NOTIFY: u64 = 0x050;
const INTERRUPT_STATUS: u64 = 0x060;
const INTERRUPT_ACK: u64 = 0x064;
const STATUS: u64 = 0x070;
const QUEUE_PLACES: [u64; 3] = [0x080, 0x090, 0x0a0];
const CONFIG: u64 = 0x100;

const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;

/// Tables of descriptors as buffers, an index for each side's wishes, and the standard's own version.
pub const OF_QUEUES: u64 = 1 << 28 | 1 << 29 | 1 << 32;
/// The flag of a descriptor that names a table.
const INDIRECT: u64 = 4;

/// A device whose driver is ready, with one queue.
pub struct Device {
    registers: u64,
    queue: &'static Split,
    size: u16,
    next_available: u16,
    next_used: u16,
    /// The index of which the device was last told.
    told: u16,
    /// The features that are used.
    pub features: u64,
}

impl Device {
    /// Resets the device at `registers`, which is of this kind, and starts it with those of `features` that it has, and its first queue in `queue`.
    /// `to_board` is added to addresses that the device is told.
    pub fn start(
        (registers, kind): (u64, u32),
        features: u64,
        queue: &'static Split,
        to_board: u64,
    ) -> Result<Self, &'static str> {
        let read = |offset| mmio::read32(registers + offset);
        let write = |offset, value| mmio::write32(registers + offset, value);
        if read(MAGIC) != u32::from_le_bytes(*b"virt") || read(VERSION) != 2 {
            return Err(
                "the board has no virtio device of version 2 there (QEMU: -global virtio-mmio.force-legacy=false)",
            );
        }
        if read(DEVICE) != kind {
            return Err("the board's device is of another kind");
        }
        write(STATUS, 0);
        while read(STATUS) != 0 {}
        write(STATUS, ACKNOWLEDGE | DRIVER);
        let features = offered(registers) & (features | OF_QUEUES);
        for half in 0..2 {
            write(DRIVER_FEATURES_SELECT, half);
            write(DRIVER_FEATURES, (features >> (32 * half)) as u32);
        }
        write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if read(STATUS) & FEATURES_OK == 0 || features & OF_QUEUES != OF_QUEUES {
            return Err("the board's device has no indirect descriptors and event indices");
        }
        write(QUEUE_SELECT, 0);
        let size = queue.table.len() as u32;
        if read(QUEUE_SIZE_MAX) < size {
            return Err("the board's device has a queue that is too small");
        }
        write(QUEUE_SIZE, size);
        for (place, at) in queue.places().into_iter().zip(QUEUE_PLACES) {
            let board = place.wrapping_add(to_board);
            write(at, board as u32);
            write(at + 4, (board >> 32) as u32);
        }
        write(QUEUE_READY, 1);
        write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        Ok(Self {
            registers,
            queue,
            size: size as u16,
            next_available: 0,
            next_used: 0,
            told: 0,
            features,
        })
    }

    /// The word of its configuration at `offset`.
    pub fn config(&self, offset: u64) -> u32 {
        mmio::read32(self.registers + CONFIG + offset)
    }

    /// Gives it the request `head`, whose table of descriptors has `bytes` bytes at this address of the board.
    pub fn add(&mut self, head: u16, table: u64, bytes: u64) {
        let slot = usize::from(self.next_available % self.size);
        let descriptor = self.queue.table.get(usize::from(head));
        let entry = self.queue.available.entries.get(slot);
        let (Some(descriptor), Some(entry)) = (descriptor, entry) else {
            return;
        };
        descriptor.at.store(table, Relaxed);
        descriptor.rest.store(bytes | INDIRECT << 32, Relaxed);
        entry.store(head, Relaxed);
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// Lets it see what was added.
    pub fn tell(&mut self) {
        if self.told == self.next_available {
            return;
        }
        self.queue
            .available
            .index
            .store(self.next_available, Release);
        fence(SeqCst);
        let event = self.queue.used.event.load(Relaxed);
        let behind = self.next_available.wrapping_sub(event).wrapping_sub(1);
        if behind < self.next_available.wrapping_sub(self.told) {
            mmio::write32(self.registers + QUEUE_NOTIFY, 0);
        }
        self.told = self.next_available;
    }

    /// The next request that is done.
    pub fn next_done(&mut self) -> Option<u16> {
        if self.queue.used.index.load(Acquire) == self.next_used {
            return None;
        }
        let slot = usize::from(self.next_used % self.size);
        let [head, _] = self.queue.used.elements.get(slot)?;
        self.next_used = self.next_used.wrapping_add(1);
        Some(head.load(Relaxed) as u16)
    }

    /// Asks for an interrupt when the next request is done. Returns whether none is done yet.
    pub fn listen(&self) -> bool {
        self.queue.available.event.store(self.next_used, Relaxed);
        fence(SeqCst);
        self.queue.used.index.load(Relaxed) == self.next_used
    }

    /// Acknowledges its interrupt.
    pub fn acknowledge(&self) {
        let reasons = mmio::read32(self.registers + INTERRUPT_STATUS);
        mmio::write32(self.registers + INTERRUPT_ACK, reasons);
    }
}

/// The features that the device at `registers` offers.
fn offered(registers: u64) -> u64 {
    let half = |half: u32| {
        mmio::write32(registers + DEVICE_FEATURES_SELECT, half);
        u64::from(mmio::read32(registers + DEVICE_FEATURES))
    };
    half(0) | half(1) << 32
}
