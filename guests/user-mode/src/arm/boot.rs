//! From the loader's jump to Rust.
//!
//! The Linux ARM boot protocol: the MMU is off, the CPU is in Supervisor mode. The image copies
//! itself to where it was linked, since the compiler's code holds absolute addresses.

use core::arch::global_asm;

const STACK_SIZE: usize = 0x8000;

#[repr(align(16))]
struct Stack(#[expect(dead_code, reason = "only its address is used")] [u8; STACK_SIZE]);

static mut STACK: Stack = Stack([0; STACK_SIZE]);

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
    cpsid   aif, #0x13
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
    ldr     sp, ={stack}
    add     sp, sp, #{stack_size}
    ldr     r0, =vectors
    mcr     p15, 0, r0, c12, c0, 0  // VBAR
    bl      {mmu}
    mov     r0, #0xf00000           // CPACR: VFP and Advanced SIMD for everybody
    mcr     p15, 0, r0, c1, c0, 2
    isb
    mov     r0, #0x40000000         // EN
    .inst   0xeee80a10              // vmsr fpexc, r0
    bl      {main}
    "#,
    stack = sym STACK,
    stack_size = const STACK_SIZE,
    mmu = sym super::mmu::enable,
    main = sym super::main,
);
