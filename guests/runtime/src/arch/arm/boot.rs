//! From the loader's jump to Rust: the right place, zeroed memory, stacks, the MMU. An image may
//! take over at either of the steps `guest_start` and `guest_translation` (`image-arm.ld`).
//!
//! The Linux ARM boot protocol: r2 has the device tree's address, the MMU and the data cache are
//! off, the CPU is in Supervisor mode. The image begins as a zImage does, and like one it first
//! copies itself to where it was linked: the compiler's code for this target has absolute
//! addresses. It runs in System mode, so that no exception enters the mode that it runs in. Until
//! the MMU is on, all memory is Strongly-ordered to the CPU; the code up to there makes only
//! aligned accesses.
//!
//! The header's table of tags says how much memory the image takes where it runs, as those of Linux do
//! (arch/arm/boot/compressed/vmlinux.lds.S), so that the tree is not put where the image clears memory.

use crate::boot::{HANDED, STACKS};
use crate::cpu::{STACK_SIZE, STACKS_OF_FIRST};
use core::arch::global_asm;

global_asm!(
    r#"
    .arm
    .section .text.entry, "ax"
    .global primary_entry
primary_entry:
    .rept   8
    mov     r0, r0
    .endr
    b       entry
    .word   0x016f2818              // a zImage
    .word   0                       // that may be loaded anywhere
5:  .word   _data_end - primary_entry   // the file's end: Xen refuses another
    .word   0x04030201              // its byte order
    .word   0x45454545              // a table of tags is there
    .word   6f - primary_entry
// One tag: of what is at 5, and of what follows it, a loader keeps the memory free.
6:  .word   6
    .word   0x5a534c4b
    .word   5b - primary_entry
    .word   _memory_behind
    .word   _distance
    .word   0                       // there is nothing to unpack
    .word   0

entry:
    cpsid   aif, #0x1f
    mov     r10, r2
    adr     r9, primary_entry
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
3:  ldr     r0, ={handed}
    str     r10, [r0]
    ldr     pc, =guest_start
    .ltorg

    .section .text.runtime_start, "ax"
    .global runtime_start
runtime_start:
    ldr     r1, =_bss_start
    ldr     r2, =_bss_end
    mov     r3, #0
    mov     r4, r3
    mov     r5, r3
    mov     r6, r3
    mov     r7, r3
    mov     r8, r3
    mov     r9, r3
    mov     r12, r3
4:  cmp     r1, r2
    stmialo r1!, {{r3-r9, r12}}     // _bss_end is a multiple of 64
    stmialo r1!, {{r3-r9, r12}}
    blo     4b
    mov     r11, #0
    bl      set_stack
    mov     r0, r10
    bl      guest_translation
    b       {primary}

    .global secondary_entry
secondary_entry:
    cpsid   aif, #0x1f
    mov     r11, r0
    bl      set_stack
    bl      mmu_on
    mov     r0, r11
    b       {secondary}

// The stack of CPU r11.
set_stack:
    ldr     r1, ={stacks}
    mov     r2, #{stack_size}
    add     r3, r11, #{of_first}
    mla     sp, r2, r3, r1
    bx      lr
    .ltorg

    .section .text.runtime_translation, "ax"
// Fills the tables, for the device tree at r0, and turns the MMU on.
    .global runtime_translation
runtime_translation:
    push    {{r4, lr}}
    bl      {build_tables}
    pop     {{r4, lr}}

mmu_on:
    mov     r1, #0
    mcr     p15, 0, r1, c8, c7, 0   // TLBIALL
    mcr     p15, 0, r1, c7, c5, 0   // ICIALLU
    mcr     p15, 0, r1, c7, c5, 6   // BPIALL
    ldr     r2, ={short}
    ldrb    r2, [r2]
    cmp     r2, #0
    bne     5f
    ldr     r2, ={mair}
    mcr     p15, 0, r2, c10, c2, 0  // MAIR0
    mcr     p15, 0, r1, c10, c2, 1  // MAIR1
    ldr     r2, ={tcr}
    mcr     p15, 0, r2, c2, c0, 2   // TTBCR
    ldr     r2, ={root}
    mcrr    p15, 0, r2, r1, c2      // TTBR0
    b       6f
5:  mcr     p15, 0, r1, c2, c0, 2   // TTBCR
    ldr     r2, ={short_root}
    orr     r2, r2, #{walks}
    mcr     p15, 0, r2, c2, c0, 0   // TTBR0
    mov     r2, #1                  // client of domain 0
    mcr     p15, 0, r2, c3, c0, 0   // DACR
6:  dsb
    isb
    mrc     p15, 0, r2, c1, c0, 0   // SCTLR
    bic     r2, r2, #0x2000         // V: vectors by VBAR
    bic     r2, r2, #0x40000000     // TE: exceptions are taken in A32
    bic     r2, r2, #0x30000000     // TRE, AFE, which are about short descriptors
    bic     r2, r2, #2              // A: unaligned accesses are allowed
    orr     r2, r2, #0x1800         // I, Z
    orr     r2, r2, #5              // C, M
    mcr     p15, 0, r2, c1, c0, 0
    isb
    bx      lr
    .ltorg
    "#,
    handed = sym HANDED,
    build_tables = sym super::mmu::build_tables,
    primary = sym crate::primary,
    secondary = sym crate::smp::secondary,
    stacks = sym STACKS,
    stack_size = const STACK_SIZE,
    of_first = const STACKS_OF_FIRST,
    short = sym super::mmu::SHORT,
    root = sym super::mmu::ROOT,
    short_root = sym super::short::ROOT,
    walks = const super::short::WALKS,
    mair = const crate::mmu::MAIR,
    tcr = const super::mmu::TCR,
);
