//! What a small program for Linux needs that is a static ELF file without a C library, so that it needs no other target
//! than the images do: system calls by hand, for 64 bits and for 32, and lines of text.
//!
//! Programs with a C library can use it, too: it neither has nor needs anything that such a library keeps to itself.
//! It knows the developer's PC as well, on which such programs are tested.

#![no_std]

pub mod aio;
#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;
mod error;
pub mod file;
mod line;
pub mod mark;
pub mod memory;
pub mod packet;
mod raw;
pub mod socket;
pub mod thread;
pub mod time;
pub mod wait;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use error::{Errno, Result};
pub use file::Descriptor;
pub use line::Line;
pub use time::monotonic;

use core::ffi::{CStr, c_char};

/// Ends the program.
pub fn exit(status: usize) -> ! {
    loop {
        // SAFETY: it reads and writes nothing.
        unsafe { raw::call(raw::EXIT, [status, 0, 0, 0, 0, 0]) };
    }
}

/// Argument number `index`, from 1 on.
///
/// # Safety
///
/// `stack` must be the stack pointer as the kernel starts a program with: it is at argc, argv follows.
pub unsafe fn argument(stack: *const usize, index: usize) -> Option<&'static CStr> {
    // SAFETY: argc is there, argv follows with argc pointers; each is of a string that ends in a zero and stays.
    unsafe {
        if stack.read() <= index {
            return None;
        }
        Some(CStr::from_ptr(stack.add(1 + index).read() as *const _))
    }
}

/// The number of this process; 1 for the first one.
pub fn process() -> isize {
    // SAFETY: it reads and writes nothing.
    unsafe { raw::call(raw::GETPID, [0; 6]) }
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
    let arguments = [path, arguments, environment as usize, 0, 0, 0];
    // SAFETY: each string ends in a zero, and both lists in a null.
    unsafe { raw::call(raw::EXECVE, arguments) };
}

/// The kernel's release, such as `6.1.0-56-arm64`, in the first bytes of `into`.
pub fn release(into: &mut [u8; 65]) -> Result<&[u8]> {
    // struct utsname: six names of 65 bytes, each of which ends in a zero. The third is the release.
    let mut names = [0_u8; 6 * 65];
    // SAFETY: it writes the names alone.
    unsafe { raw::checked(raw::UNAME, [names.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) }?;
    into.copy_from_slice(&names[130..195]);
    let length = into.iter().position(|byte| *byte == 0).unwrap_or(0);
    Ok(&into[..length])
}
