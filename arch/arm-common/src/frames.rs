//! Frames for translation tables.

use crate::bulk;
use crate::privilege::has_multiprocessing;
use core::ptr;
use hanok_hal::{Mutex, TableMemory};
use hanok_types::{Hpa, PAGE_SIZE, Span};

/// A block of frames, which are lent one after the other. Frames that are given back are in a list that is
/// linked through their first words. Only single frames are given back; root tables never are.
#[derive(Debug)]
pub struct Frames {
    next: u64,
    end: u64,
    /// The offset from a physical address to the virtual one at which it is mapped.
    offset: u64,
    free: u64,
}

/// The value that means no frame: no frame has this address, as it is not aligned.
const NONE: u64 = 1;

impl Frames {
    /// `frames` frames at `start`, reached at `start + offset`.
    ///
    /// # Safety
    /// The frames are mapped there, writable, for ever, and no other code uses them.
    pub unsafe fn new(start: Hpa, frames: u64, offset: u64) -> Self {
        let next = start.get();
        Self {
            next,
            end: next + frames * PAGE_SIZE,
            offset,
            free: NONE,
        }
    }

    /// Takes all frames but `kept` out of those that were never lent. The answer is the frames taken.
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
            // What the alignment skips serves as single frames.
            for skipped in (self.next..start).step_by(PAGE_SIZE as usize) {
                self.free(Hpa::new(skipped), 1);
            }
            self.next = start + size;
            Hpa::new(start)
        };
        // SAFETY: a frame of the pool, not lent to any other code (see `new`).
        unsafe { ptr::write_bytes(self.pointer(start, 0).cast::<u8>(), 0, size as usize) };
        if !has_multiprocessing() {
            bulk::clean_to_coherency(self.pointer(start, 0) as u64, size);
        }
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
        self.write_unseen(table, index, descriptor);
        // The store is visible to the walkers of all CPUs before any later access.
        crate::sysreg::dsb_ish();
    }

    /// 512 stores, each with a barrier, would take as long as an exit may take.
    fn write_unseen(&mut self, table: Hpa, index: usize, descriptor: u64) {
        // SAFETY: as in `read`; `self` is borrowed mutably, so no other code writes.
        unsafe { ptr::write_volatile(self.pointer(table, index), descriptor) };
        clean(self.pointer(table, index).cast());
    }

    fn shares(&self) -> bool {
        has_multiprocessing()
    }
}

/// Makes a descriptor visible to walks on a CPU without the Multiprocessing Extensions, where they do not look in
/// the data caches (DDI 0406C, B3.10.1): DCCMVAU.
#[inline(always)]
fn clean(descriptor: *const u32) {
    #[cfg(target_arch = "arm")]
    if !has_multiprocessing() {
        crate::maintain!(0 7 11 1, descriptor as u32);
    }
    #[cfg(not(target_arch = "arm"))]
    let _ = descriptor;
}

/// Frames of a pool that all VMs share, mapped one to one. A table is read and written without the pool's
/// lock, as it belongs to one VM alone.
#[derive(Clone, Copy, Debug)]
pub struct SharedFrames(&'static Mutex<Frames>);

impl SharedFrames {
    /// The frames of this pool, whose offset is zero.
    pub fn new(pool: &'static Mutex<Frames>) -> Self {
        Self(pool)
    }
}

/// Descriptor `index` of a table.
fn descriptor(table: Hpa, index: usize) -> *mut u64 {
    (table.get() as *mut u64).wrapping_add(index)
}

/// The 32-bit descriptor `index` of a table. All our CPUs are little-endian.
fn short_descriptor(table: Hpa, index: usize) -> *mut u32 {
    (table.get() as *mut u32).wrapping_add(index)
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
        // The store is visible to the walkers of all CPUs before any later access.
        crate::sysreg::dsb_ish();
    }

    fn write_unseen(&mut self, table: Hpa, index: usize, value: u64) {
        // SAFETY: as in `read`; the table's owner is borrowed mutably, so no other code writes.
        unsafe { ptr::write_volatile(descriptor(table, index), value) };
        clean(descriptor(table, index).cast());
    }

    fn clear_unseen(&mut self, table: Hpa, first: usize, count: usize) {
        let start = descriptor(table, first);
        let clear = |index: usize| {
            // SAFETY: as in `write_unseen`.
            unsafe { start.wrapping_add(index).write_volatile(0) }
        };
        // Volatile, and four by four: the function that it would become does it word by word.
        let mut index = 0;
        while index + 4 <= count {
            clear(index);
            clear(index + 1);
            clear(index + 2);
            clear(index + 3);
            index += 4;
        }
        (index..count).for_each(clear);
        if !has_multiprocessing() {
            bulk::clean_to_coherency(start as u64, (count * size_of::<u64>()) as u64);
        }
    }

    // By a load and a store of a word, where a pair would take four times as many instructions.
    fn read_word(&self, table: Hpa, index: usize) -> u32 {
        // SAFETY: as in `read`.
        unsafe { ptr::read_volatile(short_descriptor(table, index)) }
    }

    fn write_word(&mut self, table: Hpa, index: usize, value: u32) {
        self.write_word_unseen(table, index, value);
        crate::sysreg::dsb_ish();
    }

    fn write_word_unseen(&mut self, table: Hpa, index: usize, value: u32) {
        // SAFETY: as in `write_unseen`.
        unsafe { ptr::write_volatile(short_descriptor(table, index), value) };
        clean(short_descriptor(table, index));
    }

    fn shares(&self) -> bool {
        has_multiprocessing()
    }
}
