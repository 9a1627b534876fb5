//! The code from the loader's jump to Rust: relocation, zeroed memory, the stack, the MMU.
//!
//! The Linux arm64 boot protocol: X0 has the device tree's address, the MMU is off, the image is 2
//! MiB aligned anywhere in RAM. Until the MMU is on, all memory is Device memory to the CPU; the
//! code up to there makes only aligned accesses.

use super::mmu;
use crate::stacks::{BOOT_STACK, BOOT_STACK_SIZE};
use core::arch::global_asm;

unsafe extern "C" {
    static _start: u8;
}

/// The address where the image was loaded.
pub fn load_address() -> usize {
    (&raw const _start) as usize
}

global_asm!(
    r#"
    .macro address reg, symbol
    adrp    \reg, \symbol
    add     \reg, \reg, :lo12:\symbol
    .endm

    .section .text.entry, "ax"
    mov     x20, x0
    // The image is linked at 0, so that its address is added to each pointer.
    adrp    x19, _start
    address x1, _relocations_start
    address x2, _relocations_end
2:  cmp     x1, x2
    b.hs    3f
    ldp     x3, x4, [x1], #16
    ldr     x5, [x1], #8
    cmp     w4, #1027               // R_AARCH64_RELATIVE
    b.ne    2b
    add     x5, x5, x19
    str     x5, [x3, x19]
    b       2b
3:  address x1, _bss_start
    address x2, _bss_end
4:  cmp     x1, x2
    b.hs    5f
    stp     xzr, xzr, [x1], #16
    b       4b
5:  msr     spsel, #1
    address x1, {stack}
    add     x1, x1, #{stack_size}
    mov     sp, x1
    mov     x0, x19
    mov     x1, x20
    bl      {build_table}

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
    address x1, {table}
    msr     ttbr0_el1, x1
    dsb     sy
    tlbi    vmalle1
    ic      iallu
    dsb     sy
    isb
    ldr     x1, ={sctlr}
    msr     sctlr_el1, x1
    isb
    mov     x0, x20
    b       {main}
    .ltorg
    "#,
    stack = sym BOOT_STACK,
    stack_size = const BOOT_STACK_SIZE,
    build_table = sym mmu::build_table,
    table = sym mmu::TABLE,
    mair = const mmu::MAIR,
    tcr = const mmu::TCR,
    sctlr = const mmu::SCTLR,
    main = sym crate::main,
);
