//! Memory that is taken once at boot for values that live for ever.

use core::ptr;
use hanok_types::{Hpa, Span};

/// A block of mapped memory that is allocated from its start and never freed.
#[derive(Debug)]
pub struct Arena {
    next: u64,
    end: u64,
}

impl Arena {
    /// An arena of `block`.
    ///
    /// # Safety
    /// The block is mapped at its physical address and writable, for ever, and is used by nothing
    /// else.
    pub unsafe fn new(block: Span<Hpa>) -> Self {
        Self {
            next: block.start().get(),
            end: block.end().get(),
        }
    }

    /// The address of `bytes` bytes aligned to `align`, a power of two; `None` if they do not fit.
    fn take(&mut self, bytes: usize, align: usize) -> Option<u64> {
        let start = self.next.next_multiple_of(align as u64);
        let end = start
            .checked_add(bytes as u64)
            .filter(|end| *end <= self.end)?;
        self.next = end;
        Some(start)
    }

    /// Moves `value` into the arena.
    pub fn put<T>(&mut self, value: T) -> Option<&'static mut T> {
        let at = self.take(size_of::<T>(), align_of::<T>())? as *mut T;
        // SAFETY: in the block, aligned, handed out to nobody before or after.
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
        let at = self.take(size_of::<T>().checked_mul(count)?, align_of::<T>())? as *mut T;
        let mut placed = 0;
        for value in values.take(count) {
            // SAFETY: `placed` is below `count`; see `put`.
            unsafe { ptr::write(at.add(placed), value) };
            placed += 1;
        }
        // SAFETY: as many are initialized; see `put`.
        Some(unsafe { core::slice::from_raw_parts_mut(at, placed) })
    }
}
