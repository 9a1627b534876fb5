//! The start of the program, on 64-bit Arm.

use core::arch::global_asm;

global_asm!(
    r#"
    .globl _start
_start:
    mov     x0, sp
    bl      {main}
    "#,
    main = sym crate::main,
);
