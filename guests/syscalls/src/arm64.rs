//! arm64: system calls by their generic numbers (include/uapi/asm-generic/unistd.h).

use core::arch::asm;

/// The unit in which [`MMAP`] takes the place in a file.
pub const MMAP_UNIT: u64 = 1;
/// io_setup.
pub const IO_SETUP: usize = 0;
/// io_destroy.
pub const IO_DESTROY: usize = 1;
/// io_submit.
pub const IO_SUBMIT: usize = 2;
/// io_getevents.
pub const IO_GETEVENTS: usize = 4;
/// flock.
pub const FLOCK: usize = 32;
/// mkdirat.
pub const MKDIRAT: usize = 34;
/// unlinkat.
pub const UNLINKAT: usize = 35;
/// fchmodat.
pub const FCHMODAT: usize = 53;
/// openat.
pub const OPENAT: usize = 56;
/// close.
pub const CLOSE: usize = 57;
/// getdents64.
pub const GETDENTS: usize = 61;
/// read.
pub const READ: usize = 63;
/// write.
pub const WRITE: usize = 64;
/// ppoll.
pub const PPOLL: usize = 73;
/// exit_group.
pub const EXIT: usize = 94;
/// clock_gettime.
pub const CLOCK_GETTIME: usize = 113;
/// clock_nanosleep.
pub const CLOCK_NANOSLEEP: usize = 115;
/// sched_setaffinity.
pub const SETAFFINITY: usize = 122;
/// sched_getaffinity.
pub const GETAFFINITY: usize = 123;
/// sched_yield.
pub const YIELD: usize = 124;
/// kill.
pub const KILL: usize = 129;
/// uname.
pub const UNAME: usize = 160;
/// getcpu.
pub const GETCPU: usize = 168;
/// getpid.
pub const GETPID: usize = 172;
/// gettid.
pub const GETTID: usize = 178;
/// socket.
pub const SOCKET: usize = 198;
/// bind.
pub const BIND: usize = 200;
/// listen.
pub const LISTEN: usize = 201;
/// connect.
pub const CONNECT: usize = 203;
/// sendto.
pub const SEND: usize = 206;
/// setsockopt.
pub const SETSOCKOPT: usize = 208;
/// getsockopt.
pub const GETSOCKOPT: usize = 209;
/// munmap.
pub const MUNMAP: usize = 215;
/// execve.
pub const EXECVE: usize = 221;
/// mmap.
pub const MMAP: usize = 222;
/// accept4.
pub const ACCEPT: usize = 242;
/// sched_setattr.
pub const SETATTR: usize = 274;
/// sched_getattr.
pub const GETATTR: usize = 275;

/// Calls Linux; gives back its answer, negative for an error.
///
/// # Safety
///
/// What the call reads and writes must be the caller's, alive and of the length that the call assumes.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let answer;
    // SAFETY: a system call changes x0, and memory as by this function's contract.
    unsafe {
        asm!(
            "svc #0",
            inlateout("x0") first => answer,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") sixth,
            in("x8") number,
            options(nostack),
        );
    }
    answer
}
