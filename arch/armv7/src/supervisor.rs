//! The hypervisor at PL1: its own faults.
//!
//! It runs in Supervisor mode with everything masked, so that none of its exceptions is an interrupt: each is
//! a fault of its own and ends in a panic, but for an abort that some code expects (`errors.rs`). The
//! stack pointer of the exception's mode is free: it becomes the emergency stack.

use crate::{Host, write_own};
use core::mem::offset_of;
use hanok_arm_common::cpu::Cpu;
use hanok_arm_common::sysreg;

core::arch::global_asm!(
    r#"
    .section .text.vectors, "ax"
    .arm

    // Everything to the emergency stack, then the panic that shows it. \from is how far the return address
    // is from the instruction (DDI 0406C, B1.8.3), in both instruction sets.
    .macro from_pl1 kind, from
    mrc     p15, 0, sp, c13, c0, 4
    ldr     sp, [sp, #{emergency}]
    sub     sp, sp, #72
    stmia   sp, {{r0-r12}}
    mov     r0, #\kind
    sub     r2, lr, #\from
    b       hanok_pl1_fault_entry
    .endm

    .balign 32
    .global hanok_pl1_vectors
hanok_pl1_vectors:
    b       .                       // a reset does not come here
    b       pl1_undefined
    b       pl1_call
    b       pl1_prefetch
    b       pl1_data
    b       .
    b       pl1_irq
    b       pl1_fiq

pl1_undefined:
    from_pl1 1, 0
pl1_call:
    from_pl1 2, 0
pl1_prefetch:
    from_pl1 3, 4
pl1_data:
    // As in Hyp mode (`vectors.rs`, `hyp_data`), by the stack pointer of Supervisor mode.
    cps     #0x13
    cmp     sp, #0
    cps     #0x17
    beq     pl1_expected
    from_pl1 4, 8
pl1_expected:
    mrs     r0, spsr
    orr     r0, r0, #(1 << 8)
    msr     spsr_fsxc, r0
    mov     lr, r1
    movs    pc, lr
pl1_irq:
    from_pl1 6, 4
pl1_fiq:
    from_pl1 7, 4

    // r0 = vector, r2 = where; r0 to r12 of then at the stack pointer of the exception's mode.
hanok_pl1_fault_entry:
    mrs     r3, spsr
    add     r4, sp, #60
    stmia   r4, {{r2, r3}}
    mov     r2, sp
    cps     #0x13
    str     sp, [r2, #52]
    str     lr, [r2, #56]
    mov     sp, r2
    mov     r1, #0
    bic     sp, sp, #7
    mov     r11, #0
    bl      hanok_on_el2_fault
    b       .
"#,
    emergency = const offset_of!(Cpu<Host>, emergency_stack),
);

unsafe extern "C" {
    static hanok_pl1_vectors: u8;
}

/// Points this CPU at the vectors.
pub fn install() {
    // SAFETY: the linked address of a table that is 32-byte aligned and never freed.
    unsafe { write_own!("vbar_pl1", &raw const hanok_pl1_vectors as u64) };
    sysreg::isb();
}

/// The address of the vectors.
pub(crate) fn vectors() -> u32 {
    &raw const hanok_pl1_vectors as u32
}
