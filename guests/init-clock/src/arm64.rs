//! arm64: system calls by their generic numbers (include/uapi/asm-generic/unistd.h).

use core::arch::{asm, global_asm};

pub const WRITE: usize = 64;
pub const EXIT: usize = 93;
pub const GETPID: usize = 172;
pub const EXECVE: usize = 221;

// The counter is read before anything else; a read may otherwise be done ahead of time (Arm ARM
// D12.2.2).
global_asm!(
    r#"
    .globl _start
_start:
    hint    #0x41
    isb
    mrs     x2, cntvct_el0
    mrs     x1, cntfrq_el0
    mov     x0, sp
    bl      {main}
    "#,
    main = sym crate::main,
);

/// Calls Linux; gives back its answer, negative for an error.
pub fn call(number: usize, arguments: [usize; 3]) -> isize {
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
