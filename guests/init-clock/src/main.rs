//! The first program of a measured Linux: prints the virtual counter, then becomes a shell.
//!
//! Linux's own time stamps begin when its clock does, not at the reset. The counter that a program
//! may read (CNTVCT_EL0) runs from the machine's start, or from an offset that the emulator can
//! report. It is read in the first instructions, before anything is written. As the first process
//! the program continues as `/bin/sh /bench/run`, with nothing set up; if anything else started it,
//! it ends.
//!
//! It is a static ELF file without a C library, so that it needs no other target than the images
//! do: system calls are made by hand, for 64 bits and for 32.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;

use hanok_syscalls::{Line, execute, exit, process};

/// The arguments that the kernel put on the stack.
struct Arguments {
    argv: *const *const u8,
    envp: *const *const u8,
}

impl Arguments {
    /// # Safety
    ///
    /// `stack` must be the stack pointer as the kernel starts a program with.
    unsafe fn at(stack: *const usize) -> Self {
        // SAFETY: argc is there, argv follows with argc pointers and a null, then envp.
        unsafe {
            let argv: *const *const u8 = stack.add(1).cast();
            let envp = argv.add(stack.read() + 1);
            Self { argv, envp }
        }
    }

    /// The first argument, if there is one, as far as it fits a line.
    fn label(&self) -> Option<&'static [u8]> {
        // SAFETY: argv[0] may be the null that ends it, argv[1] is there otherwise; both
        // are strings that end in a zero and stay where they are.
        unsafe {
            if self.argv.read().is_null() || self.argv.add(1).read().is_null() {
                return None;
            }
            let text = self.argv.add(1).read();
            let length = (0..LABEL).find(|at| text.add(*at).read() == 0);
            Some(core::slice::from_raw_parts(text, length?))
        }
    }
}

/// The longest label, its zero included.
const LABEL: usize = 16;

/// Called by `_start`, with which the program begins: the kernel starts it with the stack pointer
/// at argc, followed by argv and envp. A marker precedes the reading of the counter: a NOP by which
/// a tool that counts instructions from outside sees that the boot is over.
extern "C" fn main(stack: *const usize, frequency: usize, count: u64) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let arguments = unsafe { Arguments::at(stack) };
    let first = process() == 1;
    let label = if first {
        b"init".as_slice()
    } else {
        arguments.label().unwrap_or(b"now")
    };
    let mut line = Line::default();
    line.text(b"bench: clock ");
    line.text(label);
    line.text(b" ");
    line.number(count);
    line.text(b" ");
    line.number(frequency as u64);
    line.text(b"\n");
    line.write();
    if first {
        // SAFETY: the environment is the kernel's.
        unsafe { execute(c"/bin/sh", &[c"sh", c"/bench/run"], arguments.envp) };
    }
    // The first process must not end: a failed execve shows as a panic of the kernel.
    exit(usize::from(first))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(2)
}
