//! Things that live for ever, in memory taken once at boot.

use core::ptr;
use hanok_types::{Hpa, Span};

/// A block of mapped memory that is handed out from its start and never taken back.
#[derive(Debug)]
pub struct Arena {
    next: u64,
    end: u64,
}

impl Arena {
    /// Over `block`.
    ///
    /// # Safety
    /// The block is mapped one to one, writable, zeroed or not, for ever, and nobody else's.
    pub unsafe fn new(block: Span<Hpa>) -> Self {
        Self {
            next: block.start().get(),
            end: block.end().get(),
        }
    }

    /// `bytes` bytes aligned to `align`, a power of two; `None` where they do not fit.
    fn take(&mut self, bytes: usize, align: usize) -> Option<u64> {
        let start = self.next.next_multiple_of(align as u64);
        let end = start
            .checked_add(bytes as u64)
            .filter(|end| *end <= self.end)?;
        self.next = end;
        Some(start)
    }

    /// Moves `value` to its place.
    pub fn put<T>(&mut self, value: T) -> Option<&'static mut T> {
        let at = self.take(size_of::<T>(), align_of::<T>())? as *mut T;
        // SAFETY: in the block, aligned, handed out to nobody before or after.
        unsafe {
            ptr::write(at, value);
            Some(&mut *at)
        }
    }

    /// Moves `values` to their place, one beside the other. Not all of them have to come.
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
