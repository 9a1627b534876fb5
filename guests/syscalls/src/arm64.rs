//! arm64: system calls by their generic numbers (include/uapi/asm-generic/unistd.h).

use core::arch::asm;

/// write.
pub const WRITE: usize = 64;
/// exit.
pub const EXIT: usize = 93;
/// getpid.
pub const GETPID: usize = 172;
/// execve.
pub const EXECVE: usize = 221;
/// clock_gettime.
pub const CLOCK_GETTIME: usize = 113;

/// Calls Linux; gives back its answer, negative for an error.
///
/// # Safety
///
/// What the call reads and writes must be the caller's, alive and of the length that the call assumes.
pub unsafe fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes x0, and memory as by this function's contract.
    unsafe {
        asm!(
            "svc #0",
            inlateout("x0") first => answer,
            in("x1") second,
            in("x2") third,
            in("x8") number,
            options(nostack),
        );
    }
    answer
}
