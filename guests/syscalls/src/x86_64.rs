//! The developer's PC, where tests run: system calls by the numbers of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).

use core::arch::asm;

/// The unit in which [`MMAP`] takes the place in a file.
pub const MMAP_UNIT: u64 = 1;
/// read.
pub const READ: usize = 0;
/// write.
pub const WRITE: usize = 1;
/// close.
pub const CLOSE: usize = 3;
/// mmap.
pub const MMAP: usize = 9;
/// munmap.
pub const MUNMAP: usize = 11;
/// sched_yield.
pub const YIELD: usize = 24;
/// getpid.
pub const GETPID: usize = 39;
/// socket.
pub const SOCKET: usize = 41;
/// connect.
pub const CONNECT: usize = 42;
/// sendto.
pub const SEND: usize = 44;
/// bind.
pub const BIND: usize = 49;
/// listen.
pub const LISTEN: usize = 50;
/// setsockopt.
pub const SETSOCKOPT: usize = 54;
/// getsockopt.
pub const GETSOCKOPT: usize = 55;
/// execve.
pub const EXECVE: usize = 59;
/// kill.
pub const KILL: usize = 62;
/// uname.
pub const UNAME: usize = 63;
/// flock.
pub const FLOCK: usize = 73;
/// gettid.
pub const GETTID: usize = 186;
/// sched_setaffinity.
pub const SETAFFINITY: usize = 203;
/// sched_getaffinity.
pub const GETAFFINITY: usize = 204;
/// io_setup.
pub const IO_SETUP: usize = 206;
/// io_destroy.
pub const IO_DESTROY: usize = 207;
/// io_getevents.
pub const IO_GETEVENTS: usize = 208;
/// io_submit.
pub const IO_SUBMIT: usize = 209;
/// getdents64.
pub const GETDENTS: usize = 217;
/// clock_gettime.
pub const CLOCK_GETTIME: usize = 228;
/// clock_nanosleep.
pub const CLOCK_NANOSLEEP: usize = 230;
/// exit_group.
pub const EXIT: usize = 231;
/// openat.
pub const OPENAT: usize = 257;
/// mkdirat.
pub const MKDIRAT: usize = 258;
/// unlinkat.
pub const UNLINKAT: usize = 263;
/// fchmodat.
pub const FCHMODAT: usize = 268;
/// ppoll.
pub const PPOLL: usize = 271;
/// accept4.
pub const ACCEPT: usize = 288;
/// getcpu.
pub const GETCPU: usize = 309;
/// sched_setattr.
pub const SETATTR: usize = 314;
/// sched_getattr.
pub const GETATTR: usize = 315;

/// Calls Linux; gives back its answer, negative for an error.
///
/// # Safety
///
/// What the call reads and writes must be the caller's, alive and of the length that the call assumes.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let answer;
    // SAFETY: a system call changes rax, rcx and r11, and memory as by this function's contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    answer
}
