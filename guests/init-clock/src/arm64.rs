//! The start of the program, on 64-bit Arm.

use core::arch::global_asm;

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
