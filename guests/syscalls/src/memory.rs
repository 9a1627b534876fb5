//! Memory that is mapped: of a file, a device, or new.

use core::ptr::NonNull;

use crate::error::{Errno, Result};
use crate::file::Descriptor;
use crate::raw;

const READ: usize = 1;
const WRITE: usize = 2;
const SHARED: usize = 1;
const PRIVATE: usize = 2;
const ANONYMOUS: usize = 0x20;
const NO_FILE: usize = -1_isize as usize;

/// A mapping, which is there until it is dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it is memory of the whole process; nothing in it is of one thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file from `from` on, to read and write, shared with all others that do.
    pub fn of(file: &Descriptor, from: u64, length: usize) -> Result<Self> {
        let place = usize::try_from(from / raw::MMAP_UNIT).map_err(|_| Errno::INVAL)?;
        Self::mapped(length, SHARED, file.number() as usize, place)
    }

    /// New memory, zeroed.
    pub fn new(length: usize) -> Result<Self> {
        Self::mapped(length, PRIVATE | ANONYMOUS, NO_FILE, 0)
    }

    fn mapped(length: usize, flags: usize, file: usize, place: usize) -> Result<Self> {
        let arguments = [0, length, READ | WRITE, flags, file, place];
        // SAFETY: Linux chooses addresses at which nothing is.
        let start = unsafe { raw::call(raw::MMAP, arguments) };
        // Addresses of 32 bits may look negative: errors are the last 4,095 values.
        if (-4095..0).contains(&start) {
            return Err(Errno(start.unsigned_abs() as u16));
        }
        let start = NonNull::new(start as *mut u8).ok_or(Errno::INVAL)?;
        Ok(Self { start, length })
    }

    /// Its first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its length in bytes.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Leaves it mapped for as long as the process lives.
    pub fn keep(self) -> NonNull<u8> {
        let start = self.start;
        core::mem::forget(self);
        start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let arguments = [self.start.as_ptr() as usize, self.length, 0, 0, 0, 0];
        // SAFETY: nothing uses it any longer.
        unsafe { raw::call(raw::MUNMAP, arguments) };
    }
}
