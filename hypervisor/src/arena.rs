//! Data that is never dropped, in memory taken at boot.
//!
//! The data of each VM, vCPU and pCPU is put here, one after the other, for as many as the board and the
//! description have. The arena takes free RAM a piece at a time, so that the total size need not be known
//! beforehand. What was put into it is never given back. At the end of boot the arena ends, and with it what it
//! took in vain.

use core::ptr;
use hanok_memory::{FrameMap, MemoryError};
use hanok_types::{Hpa, PAGE_SIZE, Span};

/// The least number of bytes that are taken from free RAM at once.
const PIECE: u64 = 64 << 10;

/// The board's free RAM, small parts of which are handed out and never given back.
#[derive(Debug)]
pub struct Arena {
    /// The free RAM that the arena has not taken.
    pub free: FrameMap,
    next: u64,
    end: u64,
}

impl Arena {
    /// An arena over this free RAM.
    ///
    /// # Safety
    /// Free RAM is mapped one to one, writable, for ever, and no other code uses it.
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
                self.give_back_rest().ok()?;
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
        // SAFETY: in free RAM, aligned, and handed out only once.
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

    /// The free RAM, with the whole pages of the arena that nothing was put into.
    pub fn finish(mut self) -> Result<FrameMap, MemoryError> {
        self.give_back_rest()?;
        Ok(self.free)
    }

    fn give_back_rest(&mut self) -> Result<(), MemoryError> {
        let start = self.next.next_multiple_of(PAGE_SIZE);
        let len = self.end.saturating_sub(start);
        match Span::new(Hpa::new(start), len) {
            Some(rest) if len > 0 => self.free.free(rest),
            _ => Ok(()),
        }
    }

    /// Places for `count` values that are added one by one, while the arena stays in use.
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
    /// Moves a value to the next place. If there is none, the value is dropped.
    pub fn push(&mut self, value: T) {
        if self.used < self.count {
            // SAFETY: one of the places, which belong to this value alone.
            unsafe { ptr::write(self.start.add(self.used), value) };
            self.used += 1;
        }
    }

    /// All values that were added.
    pub fn finish(self) -> &'static mut [T] {
        // SAFETY: as many are initialized; see `push`.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.used) }
    }
}
