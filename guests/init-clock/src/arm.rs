//! 32-bit Arm: system calls by the numbers of its EABI (arch/arm/tools/syscall.tbl).

use core::arch::{asm, global_asm};

pub const EXIT: usize = 1;
pub const WRITE: usize = 4;
pub const EXECVE: usize = 11;
pub const GETPID: usize = 20;

// CNTVCT and CNTFRQ (DDI 0406C, B8.1.5, B8.1.2). The counter is read before anything else; a
// read may otherwise be done ahead of time (B8.1.2).
global_asm!(
    r#"
    .globl _start
_start:
    hint    #0x41
    isb
    mrrc    p15, 1, r2, r3, c14
    mrc     p15, 0, r1, c14, c0, 0
    mov     r0, sp
    bl      {main}
    "#,
    main = sym crate::main,
);

/// Calls Linux; gives back its answer, negative for an error.
pub fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes r0 alone; memory that it reads is the caller's, alive
    // and unchanged during the call.
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
