//! Things that live for ever, in memory taken at boot.
//!
//! What there is of each VM, vCPU and pCPU is put here, one beside the other, as many as the board and the
//! description have. The arena takes free RAM a piece at a time, so that nobody has to know beforehand how
//! much all of it is. Nothing is given back, and after boot nothing more is taken.

use core::ptr;
use hanok_memory::FrameMap;
use hanok_types::PAGE_SIZE;

/// Bytes that are taken of free RAM at once, at least.
const PIECE: u64 = 64 << 10;

/// The board's free RAM, of which some is handed out in small and never taken back.
#[derive(Debug)]
pub struct Arena {
    /// All of it, but for what the arena has taken.
    pub free: FrameMap,
    next: u64,
    end: u64,
}

impl Arena {
    /// Over what is free.
    ///
    /// # Safety
    /// Free RAM is mapped one to one, writable, for ever, and nobody's.
    pub unsafe fn new(free: FrameMap) -> Self {
        let (next, end) = (0, 0);
        Self { free, next, end }
    }

    /// `bytes` bytes aligned to `align`, a power of two; `None` where no RAM is left for them.
    fn take(&mut self, bytes: usize, align: usize) -> Option<u64> {
        let (bytes, align) = (bytes as u64, align as u64);
        let mut start = self.next.next_multiple_of(align);
        if start.checked_add(bytes)? > self.end {
            let len = bytes.checked_add(align)?.checked_next_multiple_of(PIECE)?;
            let piece = self.free.allocate(len, PAGE_SIZE).ok()?;
            if piece.start().get() != self.end {
                self.next = piece.start().get();
            }
            self.end = piece.end().get();
            start = self.next.next_multiple_of(align);
        }
        self.next = start.checked_add(bytes)?;
        Some(start)
    }

    /// Moves `value` into the arena.
    pub fn put<T>(&mut self, value: T) -> Option<&'static mut T> {
        let at = self.take(size_of::<T>(), align_of::<T>())? as *mut T;
        // SAFETY: in free RAM, aligned, handed out to nobody before or after.
        unsafe {
            ptr::write(at, value);
            Some(&mut *at)
        }
    }

    /// Moves `values` into the arena, one after the other. There may be fewer than `count`.
    pub fn put_all<T>(
        &mut self,
        count: usize,
        values: impl Iterator<Item = T>,
    ) -> Option<&'static mut [T]> {
        let mut places = self.places(count)?;
        values.take(count).for_each(|value| places.push(value));
        Some(places.finish())
    }

    /// Places for `count` values that come one by one, while the arena goes on to be used.
    pub fn places<T>(&mut self, count: usize) -> Option<Places<T>> {
        let start = self.take(size_of::<T>().checked_mul(count)?, align_of::<T>())? as *mut T;
        let used = 0;
        Some(Places { start, count, used })
    }
}

/// Places for values, one beside the other.
#[derive(Debug)]
pub struct Places<T> {
    start: *mut T,
    count: usize,
    used: usize,
}

impl<T> Places<T> {
    /// Moves a value to the next place; one that has none is dropped.
    pub fn push(&mut self, value: T) {
        if self.used < self.count {
            // SAFETY: one of the places, which are the arena's gift to this alone.
            unsafe { ptr::write(self.start.add(self.used), value) };
            self.used += 1;
        }
    }

    /// All values that came.
    pub fn finish(self) -> &'static mut [T] {
        // SAFETY: as many are initialized; see `push`.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.used) }
    }
}
