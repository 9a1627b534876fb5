//! The first page tables at PL1, on a CPU without virtualization extensions: short descriptors, one to one
//! by sections, and the image by small pages where it is linked. See [the module above](super) for what
//! must be mapped, and why.

use hanok_arm_common::space::{IMAGE_BASE, WALKS};

// Registers as in `boot.rs`; r8 is the second-level tables, r9 the frames for the first level. The image may
// be at any page and a first level is aligned to 16 KiB, so the four frames that it needs begin at one of
// the first four of `hanok_boot_tables`, and the eighth is never among them.
core::arch::global_asm!(
    r#"
    .section .text.boot, "ax"
    .arm

    // r9: the first level in the boot tables, which begin at r9.
    .macro  first_level
    add     r9, r9, #0x3000
    lsr     r9, r9, #14
    lsl     r9, r9, #14
    .endm

    // The tables of the boot CPU: r7 and r6 are the image's start and end, r11 the tree, and r5 the early
    // console, or zero. Clobbers r0 to r5.
    .global hanok_pl1_tables
    .type   hanok_pl1_tables, %function
hanok_pl1_tables:
    add     r8, r9, #(4096 * 7)
    first_level
    // The device tree: at most two blocks of 2 MiB.
    ldr     r2, ={normal} | {xn}
    lsr     r1, r11, #21
    lsl     r1, r1, #1
    add     r3, r1, #4
1:  orr     r4, r2, r1, lsl #20
    str     r4, [r9, r1, lsl #2]
    add     r1, r1, #1
    cmp     r1, r3
    blo     1b
    // The early console.
    cmp     r5, #0
    beq     2f
    ldr     r2, ={device}
    lsr     r1, r5, #20
    orr     r4, r2, r1, lsl #20
    str     r4, [r9, r1, lsl #2]
2:
    // The image at its physical place, for the moment the MMU goes on.
    ldr     r2, ={normal}
    lsr     r1, r7, #20
3:  orr     r4, r2, r1, lsl #20
    str     r4, [r9, r1, lsl #2]
    add     r1, r1, #1
    cmp     r6, r1, lsl #20
    bhi     3b
    // And where it is linked, by pages of two second-level tables: at most 2 MiB.
    ldr     r1, ={base} >> 20
    add     r1, r9, r1, lsl #2
    orr     r0, r8, #1
    str     r0, [r1]
    add     r0, r0, #1024
    str     r0, [r1, #4]
    ldr     r2, ={page}
    orr     r0, r7, r2
4:  str     r0, [r8], #4
    add     r0, r0, #4096
    cmp     r0, r6
    blo     4b
    bx      lr

    // Turns the MMU on with the boot tables at r9. Clobbers r0 to r3 and r9.
    .global hanok_pl1_mmu_on
    .type   hanok_pl1_mmu_on, %function
hanok_pl1_mmu_on:
    first_level
    // A CPU of Arm's is coherent with others by ACTLR.SMP, which has to be set before its caches are on,
    // and which the Non-secure state may only set where the Secure one lets it. The Cortex-A8 has another
    // bit there; the A5 and A9 also broadcast their maintenance by bit 0 (DDI 0388, "Auxiliary Control
    // Register").
    mrc     p15, 0, r0, c0, c0, 0   // MIDR
    lsr     r1, r0, #24
    cmp     r1, #0x41
    bne     1f
    ubfx    r1, r0, #4, #12
    ldr     r2, =0xc08
    cmp     r1, r2
    beq     1f
    mov     r3, #(1 << 6)
    sub     r2, r1, r2
    cmp     r2, #1                  // A9
    cmpne   r2, #-3                 // A5
    orreq   r3, r3, #1
    // The SCU of an A5 or A9, if nobody has turned it on yet, without what it remembers of the CPUs' caches
    // (DDI 0407, 2.2.1, 2.2.4). A CPU that is alone has none.
    mov     r2, #0
    mrceq   p15, 4, r2, c15, c0, 0  // CBAR
    cmp     r2, #0
    beq     2f
    ldr     r0, [r2]
    tst     r0, #1
    bne     2f
    ldr     r1, =0xffff
    str     r1, [r2, #0xc]
    orr     r0, r0, #1
    str     r0, [r2]
2:
    mrc     p15, 0, r0, c1, c0, 1
    bics    r2, r3, r0
    orrne   r0, r0, r3
    mcrne   p15, 0, r0, c1, c0, 1
1:
    mov     r1, #0
    mcr     p15, 0, r1, c2, c0, 2   // TTBCR: TTBR0 alone, short descriptors
    mcr     p15, 0, r1, c13, c0, 1  // CONTEXTIDR: ASID 0
    mcr     p15, 0, r9, c2, c0, 0   // TTBR0: walks past the caches, with which the tables were not written
    ldr     r0, =0x55555555
    mcr     p15, 0, r0, c3, c0, 0   // DACR: a client of all domains
    dsb     sy
    mcr     p15, 0, r1, c8, c7, 0   // TLBIALL
    mcr     p15, 0, r1, c7, c5, 0   // ICIALLU
    mcr     p15, 0, r1, c7, c5, 6   // BPIALL
    dsb     sy
    isb
    mrc     p15, 0, r0, c1, c0, 0   // SCTLR
    ldr     r1, ={off}
    ldr     r2, ={on}
    bic     r0, r0, r1
    orr     r0, r0, r2
    mcr     p15, 0, r0, c1, c0, 0
    isb
    bx      lr

    // A CPU that no firmware has started: what is in its first data cache means nothing, and the Cortex-A9 does
    // not invalidate it at reset (DDI 0388, "Reset"; DDI 0406C, B2.2.4, DCISW). Clobbers r0 to r6.
    .global hanok_pl1_forget
    .type   hanok_pl1_forget, %function
hanok_pl1_forget:
    // With virtualization extensions it is one that invalidates its caches at reset (Cortex-A7, A15, A17), and
    // software may have run there since.
    mrc     p15, 0, r0, c0, c1, 1   // ID_PFR1
    tst     r0, #0xf000             // Virtualization
    bxne    lr
    mov     r0, #0
    mcr     p15, 2, r0, c0, c0, 0   // CSSELR: data, level 1
    isb
    mrc     p15, 1, r0, c0, c0, 0   // CCSIDR
    and     r1, r0, #7
    add     r1, r1, #4              // the place of the set: the line's bytes
    ubfx    r2, r0, #3, #10         // the last way
    ubfx    r3, r0, #13, #15        // the last set
    clz     r4, r2                  // the place of the way
1:  mov     r5, r2
2:  lsl     r6, r5, r4
    orr     r6, r6, r3, lsl r1
    mcr     p15, 0, r6, c7, c6, 2   // DCISW
    subs    r5, r5, #1
    bpl     2b
    subs    r3, r3, #1
    bpl     1b
    dsb     sy
    bx      lr

    // Another CPU goes on in the final translation, whose first level is at r5. Clobbers r0.
    .global hanok_pl1_final
    .type   hanok_pl1_final, %function
hanok_pl1_final:
    orr     r0, r5, #{walks}
    mcr     p15, 0, r0, c2, c0, 0
    isb
    mcr     p15, 0, r0, c8, c7, 0
    dsb     sy
    isb
    bx      lr
    .ltorg
"#,
    base = const IMAGE_BASE as u32,
    walks = const WALKS as u32,
    normal = const SECTION | CACHED | 1 << 12 | SHAREABLE,
    device = const SECTION | DEVICE | XN,
    xn = const XN,
    // A small page: AP, TEX and S have other places.
    page = const 0b10 | CACHED | 1 << 4 | 1 << 6 | 1 << 10,
    on = const SCTLR_ON,
    off = const SCTLR_OFF,
);

/// A section for PL1 alone (AP 0b001), in domain 0 (DDI 0406C, B3.5.1).
const SECTION: u32 = 0b10 | 0b01 << 10;
/// C and B: with TEX 0b001 write-back, write-allocate.
const CACHED: u32 = 0b11 << 2;
/// B alone: shareable device memory.
const DEVICE: u32 = 1 << 2;
/// XN of a section.
const XN: u32 = 1 << 4;
/// S of a section.
const SHAREABLE: u32 = 1 << 16;

/// SCTLR: MMU, caches, branch prediction (DDI 0406C, B4.1.130).
const SCTLR_ON: u32 = 1 | 1 << 2 | 1 << 11 | 1 << 12;
/// Off: alignment checks, high vectors, the hardware's access flag, WXN and UWXN, vectored interrupts,
/// big-endian exceptions, TEX remap, the access flag, exceptions in T32.
const SCTLR_OFF: u32 =
    1 << 1 | 1 << 13 | 1 << 17 | 3 << 19 | 1 << 24 | 1 << 25 | 1 << 28 | 1 << 29 | 1 << 30;
