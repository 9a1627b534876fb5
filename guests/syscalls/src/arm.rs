//! 32-bit Arm: system calls by the numbers of its EABI (arch/arm/tools/syscall.tbl). Times are of 64 bits.

use core::arch::asm;

/// The unit in which [`MMAP`] takes the place in a file.
pub const MMAP_UNIT: u64 = 4096;
/// read.
pub const READ: usize = 3;
/// write.
pub const WRITE: usize = 4;
/// close.
pub const CLOSE: usize = 6;
/// execve.
pub const EXECVE: usize = 11;
/// getpid.
pub const GETPID: usize = 20;
/// kill.
pub const KILL: usize = 37;
/// munmap.
pub const MUNMAP: usize = 91;
/// uname.
pub const UNAME: usize = 122;
/// flock.
pub const FLOCK: usize = 143;
/// sched_yield.
pub const YIELD: usize = 158;
/// mmap2.
pub const MMAP: usize = 192;
/// getdents64.
pub const GETDENTS: usize = 217;
/// gettid.
pub const GETTID: usize = 224;
/// sched_setaffinity.
pub const SETAFFINITY: usize = 241;
/// sched_getaffinity.
pub const GETAFFINITY: usize = 242;
/// io_setup.
pub const IO_SETUP: usize = 243;
/// io_destroy.
pub const IO_DESTROY: usize = 244;
/// io_getevents.
pub const IO_GETEVENTS: usize = 245;
/// io_submit.
pub const IO_SUBMIT: usize = 246;
/// exit_group.
pub const EXIT: usize = 248;
/// socket.
pub const SOCKET: usize = 281;
/// bind.
pub const BIND: usize = 282;
/// connect.
pub const CONNECT: usize = 283;
/// listen.
pub const LISTEN: usize = 284;
/// sendto.
pub const SEND: usize = 290;
/// setsockopt.
pub const SETSOCKOPT: usize = 294;
/// getsockopt.
pub const GETSOCKOPT: usize = 295;
/// openat.
pub const OPENAT: usize = 322;
/// mkdirat.
pub const MKDIRAT: usize = 323;
/// unlinkat.
pub const UNLINKAT: usize = 328;
/// fchmodat.
pub const FCHMODAT: usize = 333;
/// getcpu.
pub const GETCPU: usize = 345;
/// accept4.
pub const ACCEPT: usize = 366;
/// sched_setattr.
pub const SETATTR: usize = 380;
/// sched_getattr.
pub const GETATTR: usize = 381;
/// clock_gettime64.
pub const CLOCK_GETTIME: usize = 403;
/// clock_nanosleep_time64.
pub const CLOCK_NANOSLEEP: usize = 407;
/// ppoll_time64.
pub const PPOLL: usize = 414;

/// Calls Linux; gives back its answer, negative for an error.
///
/// # Safety
///
/// What the call reads and writes must be the caller's, alive and of the length that the call assumes.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let answer;
    // SAFETY: a system call changes r0, and memory as by this function's contract.
    unsafe {
        asm!(
            "svc #0",
            inlateout("r0") first => answer,
            in("r1") second,
            in("r2") third,
            in("r3") fourth,
            in("r4") fifth,
            in("r5") sixth,
            in("r7") number,
            options(nostack),
        );
    }
    answer
}
