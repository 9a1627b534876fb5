//! The memory that this VM shares with the other side of a device: queues, tables of descriptors and buffers at fixed places of
//! one static area. All accesses are by atomics of 16 bits, as the other side may access it at any time.

use crate::fuzz::random::Random;
use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;

/// The bytes of the area.
pub const BYTES: u64 = 0x1_0000;
/// From one queue to the next: each has its three parts in a page of its own.
pub const QUEUE: u64 = 0x1000;
/// Where the parts of a queue are in its page.
pub const TABLE: u64 = 0;
pub const AVAILABLE: u64 = 0x400;
pub const USED: u64 = 0x800;
/// The most queues of a device.
pub const QUEUES: u64 = 4;
/// Two tables of descriptors that requests name as buffers.
pub const INDIRECT: u64 = 0x4000;
pub const INNER: u64 = 0x5000;
/// What a device reads: the header of a request.
pub const HEADER: u64 = 0x6000;
/// What a device writes: the state of a request, or its answer.
pub const ANSWER: u64 = 0x6800;
/// A page of data.
pub const DATA: u64 = 0x7000;
/// A page that no request names.
pub const GUARD: u64 = 0x8000;
/// A table of more descriptors than a request may have: up to the end.
pub const LONG: u64 = 0x9000;
const PAGE: u64 = 0x1000;

/// Flags of a descriptor (virtio 1.2, 2.7.5).
pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const IS_TABLE: u16 = 4;

/// The area.
#[repr(C, align(4096))]
pub struct Area([AtomicU16; BYTES as usize / 2]);

/// That of this VM.
pub static AREA: Area = Area([const { AtomicU16::new(0) }; BYTES as usize / 2]);

/// A descriptor.
#[derive(Clone, Copy)]
pub struct Descriptor {
    /// The address of the buffer.
    pub at: u64,
    /// Its length.
    pub bytes: u32,
    /// [`NEXT`], [`WRITE`], [`IS_TABLE`].
    pub flags: u16,
    /// The number of the next one.
    pub next: u16,
}

impl Area {
    /// The address of the byte at `offset`. The payload's memory is mapped in place.
    pub fn address(&self, offset: u64) -> u64 {
        self.0.as_ptr().addr() as u64 + offset
    }

    fn half(&self, offset: u64) -> &AtomicU16 {
        // All offsets are this payload's own.
        &self.0[offset as usize / 2]
    }

    /// The 16 bits at `offset`, which is even.
    pub fn get(&self, offset: u64) -> u16 {
        self.half(offset).load(Relaxed)
    }

    /// Sets them.
    pub fn set(&self, offset: u64, value: u16) {
        self.half(offset).store(value, Relaxed);
    }

    /// The byte at `offset`.
    pub fn byte(&self, offset: u64) -> u8 {
        self.get(offset).to_le_bytes()[offset as usize % 2]
    }

    /// The 32 bits at `offset`.
    pub fn word(&self, offset: u64) -> u32 {
        u32::from(self.get(offset)) | u32::from(self.get(offset + 2)) << 16
    }

    /// Sets the first `bytes` bytes, an even number up to 8, of `value` in little-endian order.
    pub fn put(&self, offset: u64, value: u64, bytes: u64) {
        (0..bytes / 2).for_each(|half| self.set(offset + 2 * half, (value >> (16 * half)) as u16));
    }

    /// Sets bytes, an even number of them.
    pub fn put_bytes(&self, offset: u64, bytes: &[u8]) {
        for (at, pair) in (offset..).step_by(2).zip(bytes.as_chunks().0) {
            self.set(at, u16::from_le_bytes(*pair));
        }
    }

    /// Sets `bytes` bytes to `value`.
    pub fn fill(&self, offset: u64, bytes: u64, value: u8) {
        let halves = (offset..offset + bytes).step_by(2);
        halves.for_each(|at| self.set(at, u16::from_le_bytes([value; 2])));
    }

    /// Sets `bytes` bytes to what chance says.
    pub fn fill_by_chance(&self, offset: u64, bytes: u64, random: &mut Random) {
        let halves = (offset..offset + bytes).step_by(2);
        halves.for_each(|at| self.set(at, random.next() as u16));
    }

    /// Sets descriptor `index` of the table at `table`.
    pub fn describe(&self, table: u64, index: u64, descriptor: Descriptor) {
        let at = table + 16 * index;
        self.put(at, descriptor.at, 8);
        self.put(at + 8, descriptor.bytes.into(), 4);
        self.set(at + 12, descriptor.flags);
        self.set(at + 14, descriptor.next);
    }

    /// Descriptor `index` of the table at `table`.
    pub fn described(&self, table: u64, index: u64) -> Descriptor {
        let at = table + 16 * index;
        Descriptor {
            at: u64::from(self.word(at)) | u64::from(self.word(at + 4)) << 32,
            bytes: self.word(at + 8),
            flags: self.get(at + 12),
            next: self.get(at + 14),
        }
    }

    /// Writes a pattern to the page that no request names.
    pub fn set_guard(&self) {
        (0..PAGE)
            .step_by(2)
            .for_each(|at| self.set(GUARD + at, pattern(at)));
    }

    /// Whether the pattern is unchanged.
    pub fn guard_holds(&self) -> bool {
        let mut halves = (0..PAGE).step_by(2);
        halves.all(|at| self.get(GUARD + at) == pattern(at))
    }
}

/// A buffer in the area.
pub fn buffer(offset: u64, bytes: u32, flags: u16) -> Descriptor {
    Descriptor {
        at: AREA.address(offset),
        bytes,
        flags,
        next: 0,
    }
}

fn pattern(at: u64) -> u16 {
    (at as u16).wrapping_mul(0x9e37) ^ 0x5a5a
}
