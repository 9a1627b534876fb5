//! The start of the program, on 32-bit Arm.

use core::arch::global_asm;

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
