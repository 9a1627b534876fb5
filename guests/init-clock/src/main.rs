//! The first program of a measured Linux: tells the virtual counter, then becomes a shell.
//!
//! Linux's own time stamps begin when its clock does, not at the reset; the counter that a
//! program may read (CNTVCT_EL0) runs from the machine's start, or from an offset that the
//! emulator can be asked for. It is read in the first instructions, before anything is
//! written. As the first process it goes on as `/bin/sh /bench/run`, with nothing set up;
//! started by anyone else it ends.
//!
//! A static ELF without a C library, so that it needs no other target than the images do:
//! system calls by hand, with Linux's numbers for arm64 (include/uapi/asm-generic/unistd.h).

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

const WRITE: usize = 64;
const EXIT: usize = 93;
const GETPID: usize = 172;
const EXECVE: usize = 221;
/// Lines go where the kernel's console is.
const STDOUT: usize = 1;

// The kernel starts a program with the stack pointer at argc, then argv and envp. The counter
// is read before anything else; a read may otherwise be done ahead of time (Arm ARM D12.2.2).
// The hint is a NOP: it tells a tool that counts instructions from outside that the boot is over.
global_asm!(
    r#"
    .globl _start
_start:
    hint    #0x41
    isb
    mrs     x1, cntvct_el0
    mrs     x2, cntfrq_el0
    mov     x0, sp
    bl      {main}
    "#,
    main = sym main,
);

/// What the kernel put on the stack.
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

    /// The first argument, if there is one; as far as it fits a line.
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

extern "C" fn main(stack: *const usize, count: u64, frequency: u64) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let arguments = unsafe { Arguments::at(stack) };
    let first = call(GETPID, [0; 3]) == 1;
    let label = match first {
        true => b"init".as_slice(),
        false => arguments.label().unwrap_or(b"now"),
    };
    let mut line = Line::default();
    line.text(b"bench: clock ");
    line.text(label);
    line.text(b" ");
    line.number(count);
    line.text(b" ");
    line.number(frequency);
    line.text(b"\n");
    line.write();
    if first {
        let argv = [c"sh".as_ptr(), c"/bench/run".as_ptr(), core::ptr::null()];
        let program = c"/bin/sh".as_ptr() as usize;
        call(
            EXECVE,
            [program, argv.as_ptr() as usize, arguments.envp as usize],
        );
    }
    // The first process must not end: that execve came back shows as a panic of the kernel.
    loop {
        call(EXIT, [usize::from(first), 0, 0]);
    }
}

/// A line being made.
struct Line {
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
    fn text(&mut self, text: &[u8]) {
        for byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds `number`, decimal.
    fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.text(&[b'0' + (number % 10) as u8]);
    }

    fn write(&self) {
        let text = self.bytes.get(..self.length).unwrap_or_default();
        call(WRITE, [STDOUT, text.as_ptr() as usize, text.len()]);
    }
}

/// Calls Linux; gives back its answer, negative for an error.
fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes x0 alone; memory that it reads is the caller's, alive
    // and unchanged during the call.
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

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {
        call(EXIT, [2, 0, 0]);
    }
}
