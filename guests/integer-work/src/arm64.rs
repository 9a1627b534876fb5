//! arm64: system calls by their generic numbers (include/uapi/asm-generic/unistd.h).

use core::arch::{asm, global_asm};

pub const WRITE: usize = 64;
pub const EXIT: usize = 93;
pub const CLOCK_GETTIME: usize = 113;

global_asm!(
    r#"
    .globl _start
_start:
    mov     x0, sp
    bl      {main}
    "#,
    main = sym crate::main,
);

/// Calls Linux; gives back its answer, negative for an error.
pub fn call(number: usize, arguments: [usize; 3]) -> isize {
    let [first, second, third] = arguments;
    let answer;
    // SAFETY: a system call changes x0 and the memory that it is told to write; the caller owns that.
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
