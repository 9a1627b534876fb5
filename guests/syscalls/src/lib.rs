//! What a small program for Linux needs that is a static ELF file without a C library, so that it needs no other target
//! than the images do: system calls by hand, for 64 bits and for 32, and lines of text.

#![no_std]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;

#[cfg(target_arch = "arm")]
use arm::{CLOCK_GETTIME, EXECVE, EXIT, GETPID, WRITE, call};
#[cfg(target_arch = "aarch64")]
use arm64::{CLOCK_GETTIME, EXECVE, EXIT, GETPID, WRITE, call};
use core::ffi::{CStr, c_char};

/// The descriptor that lines go to.
const STDOUT: usize = 1;
/// CLOCK_MONOTONIC.
const MONOTONIC: usize = 1;

/// Ends the program.
pub fn exit(status: usize) -> ! {
    loop {
        // SAFETY: it reads and writes nothing.
        unsafe { call(EXIT, [status, 0, 0]) };
    }
}

/// The number of this process; 1 for the first one.
pub fn process() -> isize {
    // SAFETY: it reads and writes nothing.
    unsafe { call(GETPID, [0; 3]) }
}

/// Nanoseconds of the kernel's monotonic clock, if there is one.
pub fn monotonic() -> Option<u64> {
    let mut time = [0_u64; 2];
    // SAFETY: it writes seconds and nanoseconds, of 64 bits both.
    let answer = unsafe { call(CLOCK_GETTIME, [MONOTONIC, time.as_mut_ptr() as usize, 0]) };
    (answer == 0).then_some(time[0] * 1_000_000_000 + time[1])
}

/// Goes on as another program. It comes back only if that is not possible.
///
/// # Safety
///
/// `environment` must be what the kernel started this program with, or end in a null pointer as that does.
pub unsafe fn execute(path: &CStr, arguments: &[&CStr; 2], environment: *const *const u8) {
    let [name, first] = arguments.map(CStr::as_ptr);
    let arguments: [*const c_char; 3] = [name, first, core::ptr::null()];
    let [path, arguments] = [path.as_ptr() as usize, arguments.as_ptr() as usize];
    // SAFETY: each string ends in a zero, and both lists in a null.
    unsafe { call(EXECVE, [path, arguments, environment as usize]) };
}

/// A line that is being made, of at most 80 bytes.
pub struct Line {
    bytes: [u8; 80],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; 80],
            length: 0,
        }
    }
}

impl Line {
    /// Adds `text`; what does not fit is cut off.
    pub fn text(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds `number`, decimal.
    pub fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8]);
    }

    /// Adds the last `count` decimal digits of `number`.
    pub fn digits(&mut self, number: u64, count: u32) {
        for at in (0..count).rev() {
            self.text(&[b'0' + (number / 10_u64.pow(at) % 10) as u8]);
        }
    }

    /// Writes it to the standard output.
    pub fn write(&self) {
        let text = self.bytes.get(..self.length).unwrap_or_default();
        // SAFETY: it reads the text.
        unsafe { call(WRITE, [STDOUT, text.as_ptr() as usize, text.len()]) };
    }
}
