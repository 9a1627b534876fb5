//! 32-bit Arm: system calls by the numbers of its EABI (arch/arm/tools/syscall.tbl).

use core::arch::{asm, global_asm};

pub const EXIT: usize = 1;
pub const WRITE: usize = 4;
/// clock_gettime64: seconds of 64 bits.
pub const CLOCK_GETTIME: usize = 403;

global_asm!(
    r#"
    .globl _start
_start:
    mov     r0, sp
    bl      {main}
    "#,
    main = sym crate::main,
);

/// Calls Linux; gives back its answer, negative for an error.
pub fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes r0 and the memory that it is told to write; the caller owns that.
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
