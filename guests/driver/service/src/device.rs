//! A virtio device of the board's over MMIO, version 2, as far as its driver has to know (virtio 1.2, 4.2.2).

use crate::begin_again;
use crate::machine::mmio;
use crate::memory::{PLACES, Split};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;

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
const NEEDS_RESET: u32 = 64;
/// The bit of the interrupt's status for a change of the configuration, and of the status register.
const CHANGED: u32 = 2;

/// Tables of descriptors as buffers, an index for each side's wishes, and the standard's own version.
pub const OF_QUEUES: u64 = 1 << 28 | 1 << 29 | 1 << 32;
/// Flags of a descriptor: the device writes the buffer, it names a table.
const WRITE: u64 = 2;
const INDIRECT: u64 = 4;

/// A device whose driver is ready, with `N` queues.
pub struct Device<const N: usize> {
    registers: u64,
    /// Its queues.
    pub queues: [Queue; N],
    /// The features that are used.
    pub features: u64,
    /// The size of each queue.
    pub size: u16,
}

impl<const N: usize> Device<N> {
    /// Resets the device at `registers`, which is of this kind, and starts it with those of `features` that it has, and its first queues in `queues`.
    /// `to_board` is added to addresses that the device is told.
    pub fn start(
        (registers, kind): (u64, u32),
        features: u64,
        queues: [&'static Split; N],
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
        let mut most = PLACES as u32;
        for index in 0..N as u32 {
            write(QUEUE_SELECT, index);
            most = most.min(read(QUEUE_SIZE_MAX));
        }
        let size = 1
            << most
                .checked_ilog2()
                .ok_or("the board's device lacks a queue")?;
        for (index, queue) in (0..).zip(queues) {
            write(QUEUE_SELECT, index);
            queue.empty(size);
            write(QUEUE_SIZE, size.into());
            for (place, at) in queue.places().into_iter().zip(QUEUE_PLACES) {
                let board = place.wrapping_add(to_board);
                write(at, board as u32);
                write(at + 4, (board >> 32) as u32);
            }
            write(QUEUE_READY, 1);
        }
        write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        let mut index = 0;
        let queues = queues.map(|split| {
            let queue = Queue::new(registers + QUEUE_NOTIFY, index, (split, size));
            index += 1;
            queue
        });
        Ok(Self {
            registers,
            queues,
            features,
            size,
        })
    }

    /// The byte of its configuration at `offset`.
    pub fn config(&self, offset: u64) -> u8 {
        mmio::read8(self.registers + CONFIG + offset)
    }

    /// Acknowledges its interrupt. Returns whether it does nothing any more until it is reset (virtio 1.2, 2.1.2), as it does after a request
    /// that it cannot read.
    pub fn acknowledge(&self) -> bool {
        let reasons = mmio::read32(self.registers + INTERRUPT_STATUS);
        mmio::write32(self.registers + INTERRUPT_ACK, reasons);
        reasons & CHANGED != 0 && mmio::read32(self.registers + STATUS) & NEEDS_RESET != 0
    }

    /// The same of a device whose requests cannot be given back one by one: with it everything begins again.
    pub fn acknowledge_or_begin_again(&self) {
        if self.acknowledge() {
            begin_again("a device of the board does nothing any more");
        }
    }
}

/// A queue of the device.
pub struct Queue {
    notify: u64,
    index: u32,
    split: &'static Split,
    size: u16,
    next_available: u16,
    next_used: u16,
    /// The index of which the device was last told.
    told: u16,
}

impl Queue {
    fn new(notify: u64, index: u32, (split, size): (&'static Split, u16)) -> Self {
        Self {
            notify,
            index,
            split,
            size,
            next_available: 0,
            next_used: 0,
            told: 0,
        }
    }

    /// Gives it the request `head`, whose table of descriptors has `bytes` bytes at this address of the board.
    pub fn add(&mut self, head: u16, table: u64, bytes: u64) {
        self.put(head, table, bytes | INDIRECT << 32);
    }

    /// Gives it a buffer of so many bytes at this address of the board, which it writes, as the request `head`.
    pub fn add_buffer(&mut self, head: u16, at: u64, bytes: u64) {
        self.put(head, at, bytes | WRITE << 32);
    }

    fn put(&mut self, head: u16, at: u64, rest: u64) {
        let slot = usize::from(self.next_available % self.size);
        let descriptor = self.split.table.get(usize::from(head));
        let entry = self.split.available.entries.get(slot);
        let (Some(descriptor), Some(entry)) = (descriptor, entry) else {
            return;
        };
        descriptor.at.store(at, Relaxed);
        descriptor.rest.store(rest, Relaxed);
        entry.store(head, Relaxed);
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// Lets it see what was added.
    pub fn tell(&mut self) {
        if self.told == self.next_available {
            return;
        }
        self.split
            .available
            .index
            .store(self.next_available, Release);
        fence(SeqCst);
        let event = self.split.device_event(self.size);
        let behind = self.next_available.wrapping_sub(event).wrapping_sub(1);
        if behind < self.next_available.wrapping_sub(self.told) {
            mmio::write32(self.notify, self.index);
        }
        self.told = self.next_available;
    }

    /// The next request that is done, and how many bytes are written.
    pub fn next_done(&mut self) -> Option<(u16, u32)> {
        if self.split.used.index.load(Acquire) == self.next_used {
            return None;
        }
        let slot = usize::from(self.next_used % self.size);
        let [head, written] = self.split.used.elements.get(slot)?;
        self.next_used = self.next_used.wrapping_add(1);
        Some((head.load(Relaxed) as u16, written.load(Relaxed)))
    }

    /// Asks for an interrupt when the next request is done. Returns whether none is done yet.
    pub fn listen(&self) -> bool {
        self.split
            .driver_event(self.size)
            .store(self.next_used, Relaxed);
        fence(SeqCst);
        self.split.used.index.load(Relaxed) == self.next_used
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
