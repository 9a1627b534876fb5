//! The code from the loader's jump to Rust: the right place, zeroed memory, the stack, the MMU.
//!
//! The Linux ARM boot protocol: r2 has the device tree's address, the MMU and the data cache are
//! off, the CPU is in Supervisor mode. The image begins as a zImage does, and like one it first
//! copies itself to where it was linked, 8 MiB into RAM: the compiler's code for this target has
//! absolute addresses. The loader's copy and the tree must not be there.

use super::mmu;
use crate::stacks::{BOOT_STACK, BOOT_STACK_SIZE};
use core::arch::global_asm;

unsafe extern "C" {
    static _start: u8;
}

/// Where the image runs.
pub fn load_address() -> usize {
    (&raw const _start) as usize
}

global_asm!(
    r#"
    .arm
    .section .text.entry, "ax"
    .global _start
_start:
    .rept   8
    mov     r0, r0
    .endr
    b       entry
    .word   0x016f2818              // a zImage
    .word   0                       // that may be loaded anywhere
    .word   _end - _start

entry:
    cpsid   aif, #0x1f              // System mode, whose stack tasks use too
    mov     r10, r2
    adr     r9, _start
    ldr     r0, =_start
    ldr     r1, =_data_end
    cmp     r9, r0
    beq     3f
2:  cmp     r0, r1
    ldmialo r9!, {{r3-r6}}          // _data_end is a multiple of 16
    stmialo r0!, {{r3-r6}}
    blo     2b
    mov     r3, #0
    mcr     p15, 0, r3, c7, c5, 0   // ICIALLU
    dsb
    isb
    ldr     pc, =3f
3:  ldr     r1, =_bss_start
    ldr     r2, =_bss_end
    mov     r3, #0
4:  cmp     r1, r2
    strlo   r3, [r1], #4
    blo     4b
    ldr     r1, ={stack}
    add     sp, r1, #{stack_size}
    bl      {build_table}

    mov     r1, #0
    mcr     p15, 0, r1, c8, c7, 0   // TLBIALL
    mcr     p15, 0, r1, c7, c5, 0   // ICIALLU
    mcr     p15, 0, r1, c7, c5, 6   // BPIALL
    mcr     p15, 0, r1, c2, c0, 2   // TTBCR: short descriptors, TTBR0 alone
    ldr     r1, ={table}
    orr     r1, r1, #{walks}
    mcr     p15, 0, r1, c2, c0, 0   // TTBR0
    mov     r1, #1
    mcr     p15, 0, r1, c3, c0, 0   // DACR: domain 0 is checked
    dsb
    isb
    mrc     p15, 0, r1, c1, c0, 0   // SCTLR
    bic     r1, r1, #0x2000         // V: vectors by VBAR
    bic     r1, r1, #2              // A: unaligned accesses are allowed
    orr     r1, r1, #0x1800         // I, Z
    orr     r1, r1, #5              // C, M
    mcr     p15, 0, r1, c1, c0, 0
    isb
    mov     r0, r10
    b       {main}
    .ltorg
    "#,
    stack = sym BOOT_STACK,
    stack_size = const BOOT_STACK_SIZE,
    build_table = sym mmu::build_table,
    table = sym mmu::TABLE,
    walks = const mmu::WALKS,
    main = sym crate::main,
);
