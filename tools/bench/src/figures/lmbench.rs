//! lmbench 3.0-a9 in a Linux guest: what a hypervisor costs real work.
//!
//! The bandwidths' ratios are costs too: the time for a byte over native's. So one rule,
//! "at most so many times native's cost", holds for every row.

use crate::figure::{Better, Figure, Group, Limit, Published, PublishedAs, Unit};
use crate::machine::Side;

/// Conditions of the published rows.
const SOURCE: &str = "lmbench 3.0-a9, Debian kernel 6.1, Cortex-A57, QEMU 10.0.2, one CPU, \
                      1 instruction = 1 ns; the range over all rows of this kind";

const fn published(system: &'static str, side: Side, low: f64, high: f64) -> Published {
    Published {
        system,
        side: Some(side),
        bits: Some(64),
        given: PublishedAs::Ratio,
        low,
        high,
        source: SOURCE,
    }
}

const fn on_armhf(low: f64, high: f64) -> Published {
    Published {
        bits: Some(32),
        source: "lmbench 3.0-a9, Debian kernel 6.1 armhf, Cortex-A15, QEMU 10.0.2, one CPU, \
                 1 instruction = 1 ns; the range over all rows of this kind",
        ..published("Xen 4.17 armhf", Side::Xen, low, high)
    }
}

const LATENCY: Figure = Figure {
    id: "",
    title: "",
    about: "",
    group: Group::Lmbench,
    unit: Unit::Microseconds,
    shown_in: None,
    better: Better::Lower,
    limit: Limit::RatioToNative(1.01),
    published: &[
        published("Xen 4.17", Side::Xen, 0.97, 1.03),
        published("KVM (no VHE)", Side::Kvm, 0.97, 1.02),
        on_armhf(0.95, 1.02),
    ],
};

const BANDWIDTH: Figure = Figure {
    unit: Unit::MegabytesPerSecond,
    better: Better::Higher,
    ..LATENCY
};

const CONTEXT: Figure = Figure {
    limit: Limit::RatioToNative(1.02),
    published: &[
        published("Xen 4.17", Side::Xen, 1.05, 1.10),
        published("KVM (no VHE)", Side::Kvm, 1.04, 1.08),
        on_armhf(1.08, 1.18),
    ],
    ..LATENCY
};

pub(super) const SYSCALL_NULL: Figure = Figure {
    id: "syscall-null",
    title: "Null system call",
    about: "One getppid system call.",
    ..LATENCY
};

pub(super) const SYSCALL_READ: Figure = Figure {
    id: "syscall-read",
    title: "Read system call",
    about: "A read of one byte from /dev/zero.",
    ..LATENCY
};

pub(super) const SYSCALL_WRITE: Figure = Figure {
    id: "syscall-write",
    title: "Write system call",
    about: "A write of one byte to /dev/null.",
    ..LATENCY
};

pub(super) const SYSCALL_STAT: Figure = Figure {
    id: "syscall-stat",
    title: "Stat system call",
    about: "A stat of a file in memory.",
    ..LATENCY
};

pub(super) const SYSCALL_OPEN: Figure = Figure {
    id: "syscall-open",
    title: "Open and close",
    about: "An open and a close of a file in memory.",
    ..LATENCY
};

pub(super) const SIG_INSTALL: Figure = Figure {
    id: "sig-install",
    title: "Signal install",
    about: "Installing a signal handler.",
    ..LATENCY
};

pub(super) const SIG_CATCH: Figure = Figure {
    id: "sig-catch",
    title: "Signal catch",
    about: "Sending a signal to oneself and handling it.",
    ..LATENCY
};

pub(super) const PIPE: Figure = Figure {
    id: "pipe",
    title: "Pipe round trip",
    about: "A byte to another process and one back, through pipes.",
    ..LATENCY
};

pub(super) const SELECT_100: Figure = Figure {
    id: "select-100",
    title: "Select of 100 files",
    about: "A select over 100 file descriptors.",
    ..LATENCY
};

pub(super) const SEM: Figure = Figure {
    id: "sem",
    title: "Semaphores of two processes",
    about: "Two processes wake each other in turn by System V semaphores: one turn.",
    ..LATENCY
};

pub(super) const FCNTL: Figure = Figure {
    id: "fcntl",
    title: "Locks of files, two processes",
    about: "Two processes take and release fcntl locks of files in turn: one turn.",
    ..LATENCY
};

pub(super) const FORK: Figure = Figure {
    id: "fork",
    title: "Fork and exit",
    about: "A fork, the child's exit, and the wait for it.",
    ..LATENCY
};

pub(super) const EXEC: Figure = Figure {
    id: "exec",
    title: "Fork and execve",
    about: "A fork, an execve of a small program, and its exit.",
    ..LATENCY
};

pub(super) const SHELL: Figure = Figure {
    id: "shell",
    title: "Fork and /bin/sh",
    about: "A fork and a shell that starts a small program.",
    ..LATENCY
};

pub(super) const PAGEFAULT: Figure = Figure {
    id: "pagefault",
    title: "Page fault",
    about: "A page fault on a file's page that is in memory.",
    ..LATENCY
};

pub(super) const MMAP: Figure = Figure {
    id: "mmap",
    title: "Mmap and munmap",
    about: "Mapping a megabyte of a file, using it, and unmapping it.",
    limit: Limit::None,
    ..LATENCY
};

pub(super) const BW_MEM_RD: Figure = Figure {
    id: "bw-mem-rd",
    title: "Memory read",
    about: "Bandwidth of reading 512 KiB of memory.",
    ..BANDWIDTH
};

pub(super) const BW_MEM_WR: Figure = Figure {
    id: "bw-mem-wr",
    title: "Memory write",
    about: "Bandwidth of writing 512 KiB of memory.",
    ..BANDWIDTH
};

pub(super) const BW_MEM_RDWR: Figure = Figure {
    id: "bw-mem-rdwr",
    title: "Memory read and write",
    about: "Bandwidth of reading and then writing each word of 512 KiB of memory.",
    ..BANDWIDTH
};

pub(super) const BW_MEM_CP: Figure = Figure {
    id: "bw-mem-cp",
    title: "Memory copy",
    about: "Bandwidth of copying 512 KiB of memory.",
    ..BANDWIDTH
};

pub(super) const BW_MEM_BZERO: Figure = Figure {
    id: "bw-mem-bzero",
    title: "Memory clear",
    about: "Bandwidth of clearing 512 KiB of memory by bzero.",
    ..BANDWIDTH
};

pub(super) const BW_MEM_BCOPY: Figure = Figure {
    id: "bw-mem-bcopy",
    title: "Memory copy by the C library",
    about: "Bandwidth of copying 512 KiB of memory by bcopy.",
    ..BANDWIDTH
};

pub(super) const BW_PIPE: Figure = Figure {
    id: "bw-pipe",
    title: "Pipe bandwidth",
    about: "Bandwidth through a pipe between two processes.",
    ..BANDWIDTH
};

pub(super) const MEM_RD: Figure = Figure {
    id: "mem-rd",
    title: "Dependent loads",
    about: "One load of a chain of dependent loads through a megabyte, 128 bytes apart.",
    unit: Unit::Nanoseconds,
    limit: Limit::None,
    ..LATENCY
};

pub(super) const INTEGER: Figure = Figure {
    id: "integer",
    title: "Integer and string program",
    about: "One round of a program of this project's own that does what Dhrystone does: it copies records, compares and \
            copies strings, follows pointers, calls functions, multiplies and divides, without a system call.",
    unit: Unit::Nanoseconds,
    published: &[],
    ..LATENCY
};

pub(super) const CTX_2: Figure = Figure {
    id: "ctx-2",
    title: "Context switch, 2 processes",
    about: "A switch among 2 processes in a ring of pipes, each touching 32 KiB in its turn.",
    ..CONTEXT
};

pub(super) const CTX_4: Figure = Figure {
    id: "ctx-4",
    title: "Context switch, 4 processes",
    about: "A switch among 4 processes in a ring of pipes, each touching 32 KiB in its turn.",
    ..CONTEXT
};

pub(super) const CTX_8: Figure = Figure {
    id: "ctx-8",
    title: "Context switch, 8 processes",
    about: "A switch among 8 processes in a ring of pipes, each touching 32 KiB in its turn.",
    ..CONTEXT
};

pub(super) const CTX_16: Figure = Figure {
    id: "ctx-16",
    title: "Context switch, 16 processes",
    about: "A switch among 16 processes in a ring of pipes, each touching 32 KiB in its turn.",
    ..CONTEXT
};

pub(super) const CTX_32: Figure = Figure {
    id: "ctx-32",
    title: "Context switch, 32 processes",
    about: "A switch among 32 processes in a ring of pipes, each touching 32 KiB in its turn.",
    ..CONTEXT
};
