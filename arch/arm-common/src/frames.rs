//! Frames for translation tables.

use core::ptr;
use hanok_hal::{Mutex, TableMemory};
use hanok_types::{Hpa, PAGE_SIZE, Span};

/// A block of frames, lent out one after the other; a frame that comes back is kept in a
/// list through its own first word. Only single frames come back: roots live for ever.
#[derive(Debug)]
pub struct Frames {
    next: u64,
    end: u64,
    /// What is added to a physical address to reach it.
    offset: u64,
    free: u64,
}

/// No frame: an address that no frame has, as it is not aligned.
const NONE: u64 = 1;

impl Frames {
    /// `frames` frames at `start`, reached at `start + offset`.
    ///
    /// # Safety
    /// The frames are mapped there, writable, for ever, and nobody else's.
    pub unsafe fn new(start: Hpa, frames: u64, offset: u64) -> Self {
        let next = start.get();
        Self {
            next,
            end: next + frames * PAGE_SIZE,
            offset,
            free: NONE,
        }
    }

    /// Takes out all frames but `kept` that were never lent; these frames.
    pub fn shrink(&mut self, kept: u64) -> Option<Span<Hpa>> {
        let start = self.next + kept * PAGE_SIZE;
        let len = self.end.checked_sub(start).filter(|len| *len > 0)?;
        self.end = start;
        Span::new(Hpa::new(start), len)
    }

    fn pointer(&self, table: Hpa, index: usize) -> *mut u64 {
        (table.get().wrapping_add(self.offset) as *mut u64).wrapping_add(index)
    }
}

impl TableMemory for Frames {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        let size = frames as u64 * PAGE_SIZE;
        let start = if frames == 1 && self.free != NONE {
            let frame = Hpa::new(self.free);
            self.free = self.read(frame, 0);
            frame
        } else {
            let start = self.next.next_multiple_of(size);
            if start + size > self.end {
                return None;
            }
            self.next = start + size;
            Hpa::new(start)
        };
        // SAFETY: a frame of the pool, lent to nobody (see `new`).
        unsafe { ptr::write_bytes(self.pointer(start, 0).cast::<u8>(), 0, size as usize) };
        Some(start)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        debug_assert_eq!(frames, 1, "roots live for ever");
        let link = self.free;
        self.write(table, 0, link);
        self.free = table.get();
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        // SAFETY: a table of the pool, and an index within it by the walker's geometry.
        unsafe { ptr::read_volatile(self.pointer(table, index)) }
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        // SAFETY: as in `read`; `self` is borrowed mutably, so nobody else writes.
        unsafe { ptr::write_volatile(self.pointer(table, index), descriptor) };
        // Visible to the walkers of all CPUs before the next thing happens.
        crate::sysreg::dsb_ish();
    }

    /// 512 of them, each with a barrier, would be as long as an exit may be.
    fn write_unseen(&mut self, table: Hpa, index: usize, descriptor: u64) {
        // SAFETY: as in `write`.
        unsafe { ptr::write_volatile(self.pointer(table, index), descriptor) };
    }
}

/// Frames of a pool that all VMs share, reached where they are. Whoever reads or writes a table does so
/// without the pool: a table is its VM's alone.
#[derive(Clone, Copy, Debug)]
pub struct SharedFrames(&'static Mutex<Frames>);

impl SharedFrames {
    /// Of this pool, whose offset is zero.
    pub fn new(pool: &'static Mutex<Frames>) -> Self {
        Self(pool)
    }
}

/// Descriptor `index` of a table.
fn descriptor(table: Hpa, index: usize) -> *mut u64 {
    (table.get() as *mut u64).wrapping_add(index)
}

impl TableMemory for SharedFrames {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.0.lock().allocate(frames)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        self.0.lock().free(table, frames);
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        // SAFETY: a table that the pool lent for this, and an index within it by the walker's geometry.
        unsafe { ptr::read_volatile(descriptor(table, index)) }
    }

    fn write(&mut self, table: Hpa, index: usize, value: u64) {
        self.write_unseen(table, index, value);
        // Visible to the walkers of all CPUs before the next thing happens.
        crate::sysreg::dsb_ish();
    }

    fn write_unseen(&mut self, table: Hpa, index: usize, value: u64) {
        // SAFETY: as in `read`; the table's owner is borrowed mutably, so nobody else writes.
        unsafe { ptr::write_volatile(descriptor(table, index), value) };
    }
}
