//! The code from the loader's jump to Rust: relocation, stacks, the MMU.
//!
//! The image is linked at zero and runs where it was loaded: the entry code adds the load address
//! to each pointer that the linker left in `.rela.dyn`. Until the MMU is on, all memory is Device
//! memory to the CPU; the code up to there makes only aligned accesses.

use crate::boot::{HANDED, STACKS};
use crate::cpu::{STACK_SIZE, STACKS_OF_FIRST};
use core::arch::global_asm;

global_asm!(
    r#"
    .section .text.entry, "ax"
    .global primary_entry
primary_entry:
    mov     x20, x0
    adrp    x19, _start
    adrp    x1, _rela_start
    add     x1, x1, :lo12:_rela_start
    adrp    x2, _rela_end
    add     x2, x2, :lo12:_rela_end
2:  cmp     x1, x2
    b.hs    3f
    ldp     x3, x4, [x1], #16
    ldr     x5, [x1], #8
    cmp     w4, #1027               // R_AARCH64_RELATIVE
    b.ne    2b
    add     x5, x5, x19
    str     x5, [x3, x19]
    b       2b
3:  adrp    x1, _bss_start
    add     x1, x1, :lo12:_bss_start
    adrp    x2, _bss_end
    add     x2, x2, :lo12:_bss_end
4:  cmp     x1, x2
    b.hs    5f
    stp     xzr, xzr, [x1], #16     // _bss_end is a multiple of 64
    stp     xzr, xzr, [x1], #16
    stp     xzr, xzr, [x1], #16
    stp     xzr, xzr, [x1], #16
    b       4b
5:  adrp    x1, {handed}
    str     x20, [x1, :lo12:{handed}]
    mov     x21, xzr
    bl      set_stack
    mov     x0, x20
    bl      {build_tables}
    bl      mmu_on
    b       {primary}

    .global secondary_entry
secondary_entry:
    mov     x21, x0
    bl      set_stack
    bl      mmu_on
    mov     x0, x21
    b       {secondary}

// The stack of CPU x21.
set_stack:
    msr     spsel, #1
    adrp    x1, {stacks}
    add     x1, x1, :lo12:{stacks}
    mov     x2, #{stack_size}
    add     x3, x21, #{of_first}
    madd    x1, x2, x3, x1
    mov     sp, x1
    ret

mmu_on:
    ldr     x1, ={mair}
    msr     mair_el1, x1
    ldr     x1, ={tcr}
    mrs     x2, id_aa64mmfr0_el1
    and     x2, x2, #7              // PARange, at most 48 bits
    mov     x3, #5
    cmp     x2, x3
    csel    x2, x2, x3, lo
    orr     x1, x1, x2, lsl #32     // TCR_EL1.IPS
    msr     tcr_el1, x1
    adrp    x1, {root}
    add     x1, x1, :lo12:{root}
    msr     ttbr0_el1, x1
    dsb     sy
    tlbi    vmalle1
    ic      iallu
    dsb     sy
    isb
    ldr     x1, ={sctlr}
    msr     sctlr_el1, x1
    isb
    ret
    .ltorg
    "#,
    handed = sym HANDED,
    build_tables = sym super::mmu::build_tables,
    primary = sym crate::primary,
    secondary = sym crate::smp::secondary,
    stacks = sym STACKS,
    stack_size = const STACK_SIZE,
    of_first = const STACKS_OF_FIRST,
    root = sym super::mmu::ROOT,
    mair = const crate::mmu::MAIR,
    tcr = const super::mmu::TCR,
    sctlr = const super::mmu::SCTLR,
);
