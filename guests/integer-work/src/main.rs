//! A program of the measured Linux: integer and string work without a system call, timed.
//!
//! It is of the kind of Dhrystone, which no Debian package has and whose source is others'. It does what that does, in
//! about the same shares: copies records, follows pointers, compares and copies strings of thirty characters, branches by an
//! enumeration, calls small functions, reads and writes arrays, multiplies and divides. Its rounds cannot be
//! compared with Dhrystone's; a ratio of virtualized to native can, as both run as long as their instructions are.
//!
//! Its argument is how often a batch of rounds is done; 1 without one. It prints the mean time of a round.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;
mod work;

use hanok_syscalls::{Line, exit, monotonic};

/// The rounds of a batch: some twenty milliseconds of the machine that is measured, five ticks of the kernel.
const BATCH: u64 = 40_000;

/// Called by `_start`, with the stack pointer as the kernel starts a program with: it is at argc, argv follows.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let batches = unsafe { argument(stack) }.unwrap_or(1);
    let mut state = work::State::new();
    let before = now();
    for _ in 0..batches {
        for round in 0..BATCH {
            state.round(round as u32);
        }
    }
    let taken = now() - before;
    let rounds = batches * BATCH;
    let mut line = Line::default();
    line.text(b"integer work: ");
    // In thousandths.
    let each = taken * 1000 / rounds;
    line.number(each / 1000);
    line.text(b".");
    line.digits(each % 1000, 3);
    line.text(b" nanoseconds (");
    line.number(state.sum().into());
    line.text(b")\n");
    line.write();
    exit(0)
}

/// The first argument, a number from 1 to 999.
///
/// # Safety
///
/// `stack` must be the stack pointer as the kernel starts a program with.
unsafe fn argument(stack: *const usize) -> Option<u64> {
    // SAFETY: argc is there, argv follows with argc pointers; each is of a string that ends in a zero.
    unsafe {
        if stack.read() < 2 {
            return None;
        }
        let text = stack.add(2).read() as *const u8;
        let mut number = 0;
        for at in 0..3 {
            match text.add(at).read() {
                0 => break,
                digit @ b'0'..=b'9' => number = number * 10 + u64::from(digit - b'0'),
                _ => return None,
            }
        }
        (number > 0).then_some(number)
    }
}

/// The time, in nanoseconds.
fn now() -> u64 {
    monotonic().unwrap_or_else(|| exit(3))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(2)
}
