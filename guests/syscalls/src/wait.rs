//! Waiting for files.

use crate::error::{Errno, Result};
use crate::raw;

/// A file that is waited for (struct pollfd).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    descriptor: i32,
    events: i16,
    came: i16,
}

impl Awaited {
    const INPUT: i16 = 1;
    const OUTPUT: i16 = 4;
    /// POLLRDHUP: the other end sends no more.
    const GONE: i16 = 0x2000;

    /// Waits until there is something to read, or the other end is gone; and until something can be written,
    /// if `output`.
    pub const fn new(descriptor: i32, output: bool) -> Self {
        let events = if output {
            Self::INPUT | Self::OUTPUT
        } else {
            Self::INPUT
        };
        Self {
            descriptor,
            events,
            came: 0,
        }
    }

    /// Waits until the other end is gone.
    pub const fn end(descriptor: i32) -> Self {
        Self {
            descriptor,
            events: Self::GONE,
            came: 0,
        }
    }

    /// Whether something came that is not only room for output.
    pub const fn is_readable(&self) -> bool {
        self.came & !Self::OUTPUT != 0
    }

    /// Whether something can be written.
    pub const fn is_writable(&self) -> bool {
        self.came & Self::OUTPUT != 0
    }
}

/// Waits for any of `files`, for at most `nanoseconds`.
pub fn wait(files: &mut [Awaited], nanoseconds: u64) -> Result<()> {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    let arguments = [
        files.as_mut_ptr() as usize,
        files.len(),
        time.as_ptr() as usize,
        0,
        8,
        0,
    ];
    // SAFETY: it reads the time, and reads and writes the files.
    match unsafe { raw::checked(raw::PPOLL, arguments) } {
        Ok(_) => Ok(()),
        Err(Errno::INTR) => {
            files.iter_mut().for_each(|file| file.came = 0);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
