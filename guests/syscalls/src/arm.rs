//! 32-bit Arm: system calls by the numbers of its EABI (arch/arm/tools/syscall.tbl).

use core::arch::asm;

/// exit.
pub const EXIT: usize = 1;
/// write.
pub const WRITE: usize = 4;
/// execve.
pub const EXECVE: usize = 11;
/// getpid.
pub const GETPID: usize = 20;
/// clock_gettime64: seconds of 64 bits.
pub const CLOCK_GETTIME: usize = 403;

/// Calls Linux; gives back its answer, negative for an error.
///
/// # Safety
///
/// What the call reads and writes must be the caller's, alive and of the length that the call assumes.
pub unsafe fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes r0, and memory as by this function's contract.
    unsafe {
        asm!(
            "svc #0",
            inlateout("r0") first => answer,
            in("r1") second,
            in("r2") third,
            in("r7") number,
            options(nostack),
        );
    }
    answer
}
