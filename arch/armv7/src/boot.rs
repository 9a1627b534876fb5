//! From the boot loader to Rust: the zImage header and the first page tables.
//!
//! The image is linked at [`IMAGE_BASE`] and may be loaded at any page (a boot loader of the ARM
//! boot protocol promises no more). The code here runs with the MMU off and position-independent:
//! it brings the CPU to Hyp mode if it has one, then builds a throw-away translation in which the image is
//! readable, writable and executable, by pages where it is linked and by 2 MiB blocks where it
//! is, and everything else that is needed early (the device tree, the early console) sits at its
//! physical address. Rust replaces it by the real one, which is W^X, as soon as it knows the
//! board ([`crate::mmu`]).
//!
//! Two ways lead to Hyp mode, by the mode in which the CPU starts:
//! - in Hyp mode: nothing is to be done;
//! - in Secure Supervisor mode, no firmware having been there: through Monitor mode, after what a
//!   firmware would have opened for the Non-secure state (interrupts of group 1, priorities,
//!   FP).
//!
//! In Supervisor mode of a CPU without virtualization extensions the hypervisor stays there: it runs at PL1,
//! and its tables are those of `boot/pl1.rs`. If the system's description asks for that
//! ([`ImageInfo::at_pl1`](hanok_arm_common::image::ImageInfo::at_pl1)), it goes back there from Hyp mode, on each CPU
//! (`boot/leave_hyp.rs`). Code that serves both asks for the mode, whose bit 0 differs.

mod leave_hyp;
mod pl1;

use core::mem::offset_of;
use core::sync::atomic::AtomicU32;
use hanok_arm_common::image::{BOOT_STACK, ImageInfo};
use hanok_arm_common::space::IMAGE_BASE;

unsafe extern "C" {
    static hanok_released_cpu: AtomicU32;
}

/// The word that names the CPU, of those released from a pen, which may start: its affinity with bit 31
/// set, or zero if none may. It must be cleaned to the point of coherency after
/// [`crate::image::released_record`].
pub fn released_cpu() -> &'static AtomicU32 {
    // SAFETY: an aligned word of the image's bss, which only these CPUs' assembly reads.
    unsafe { &hanok_released_cpu }
}

// The header is that of a zImage (Documentation/arch/arm/booting.rst; the tree in R2). Register
// use until Rust: r11 tree, r10 the physical address of a symbol less its linked one, r9 level-1
// table, r8 the level-2 tables, one after the other.
core::arch::global_asm!(
    r#"
    .section .head, "ax"
    .arm
    .global hanok_image_start
hanok_image_start:
    .rept   8
    mov     r0, r0
    .endr
    b       hanok_boot
    .long   0x016f2818              // a zImage
    .long   0                       // that may be loaded anywhere
    .long   __image_memory_size     // where it ends; the image tool adds the payload
    .long   0x04030201              // little-endian
    .long   0, 0, 0
    .global hanok_image_info
hanok_image_info:
    .ascii  "HANOKIMG"
    .quad   0, 0, 0, 0, 0, 0, 0, 0, 0, 0

    .section .text.boot, "ax"
    .arm
    .arch_extension virt
    .arch_extension sec

    // r0: a symbol's linked address made its physical one.
    .macro  place symbol
    ldr     r0, =\symbol
    add     r0, r0, r10
    .endm

    // NE at PL1, EQ in Hyp mode. Clobbers r0.
    .macro  ask_pl1
    mrs     r0, cpsr
    tst     r0, #1
    .endm

    // Maps the 2 MiB around r0 at r1, lower and upper attributes r2 and r3. Clobbers r0, r1, r4.
map_block:
    lsr     r4, r1, #21
    add     r4, r8, r4, lsl #3
    lsr     r0, r0, #21
    lsl     r0, r0, #21
    orr     r0, r0, r2
    mov     r1, r3
    strd    r0, r1, [r4]
    bx      lr

    .global hanok_boot
hanok_boot:
    mov     r11, r2
    bl      to_hyp
    bl      basics
    place   hanok_image_start
    mov     r7, r0
    lsl     r0, r0, #20             // the pages below would be those of something else
    cmp     r0, #0
    bne     wrong_place

    // A bare binary's bss is not cleared by its loader.
    place   __bss_start
    mov     r1, r0
    place   __bss_end
    mov     r2, #0
    mov     r3, #0
2:  cmp     r1, r0
    bhs     3f
    strd    r2, r3, [r1], #8
    b       2b
3:
    place   __image_end
    mov     r6, r0
    place   hanok_image_info
    ldr     r5, [r0, #32]
    place   hanok_boot_tables
    mov     r9, r0
    ask_pl1
    beq     31f
    bl      hanok_pl1_tables
    place   hanok_boot_tables
    mov     r9, r0
    b       7f
31:
    add     r8, r9, #4096
    // Level 1: four level-2 tables, one for each GiB.
    orr     r0, r8, #3
    mov     r1, #0
    mov     r2, r9
    mov     r3, #4
4:  strd    r0, r1, [r2], #8
    add     r0, r0, #4096
    subs    r3, r3, #1
    bne     4b

    // The device tree: at most 2 MiB, so at most two blocks. First, since the image may lie in
    // the second one, and must stay executable there.
    ldr     r2, ={normal}
    mov     r3, #{xn}
    mov     r0, r11
    mov     r1, r11
    bl      map_block
    add     r0, r11, #0x200000
    mov     r1, r0
    bl      map_block

    // The image at its physical place, for the moment the MMU goes on.
    mov     r3, #0
    lsr     r5, r7, #21
    lsl     r5, r5, #21
5:  mov     r0, r5
    mov     r1, r5
    bl      map_block
    add     r5, r5, #0x200000
    cmp     r5, r6
    blo     5b

    // And where it is linked, by pages of the last table: at most 2 MiB.
    add     r5, r8, #(4096 * 4)
    ldr     r1, ={base}
    lsr     r1, r1, #21
    add     r1, r8, r1, lsl #3
    orr     r0, r5, #3
    str     r0, [r1]
    orr     r0, r7, r2
    orr     r0, r0, #2              // a page
    mov     r1, #0
6:  strd    r0, r1, [r5], #8
    add     r0, r0, #4096
    cmp     r0, r6
    blo     6b

    // The early console, where the image tool named one.
    place   hanok_image_info
    ldr     r0, [r0, #32]
    cmp     r0, #0
    beq     7f
    mov     r1, r0
    ldr     r2, ={device}
    mov     r3, #{xn}
    bl      map_block
7:
    // What was written here with the caches off must not be shadowed by lines that were in
    // them before (docs/architecture-review.md, "The first tables").
    dmb     sy
    mrc     p15, 0, r2, c0, c0, 1   // CTR.DminLine
    ubfx    r2, r2, #16, #4
    mov     r3, #4
    lsl     r2, r3, r2
    place   __bss_start
    mov     r1, r0
    place   __bss_end
8:  mcr     p15, 0, r1, c7, c6, 1   // DCIMVAC
    add     r1, r1, r2
    cmp     r1, r0
    blo     8b
    dsb     sy

    bl      mmu_on
    ldr     sp, =hanok_boot_stack_top
    mov     r0, r11
    mov     r1, #0
    mov     r2, r7
    mov     r3, #0
    mov     r11, #0
    mov     lr, #0
    ldr     pc, =hanok_boot_main

    // No interrupts, vectors that say what happens, r10, and the mode in which the hypervisor runs: PL1 if
    // the image tool says so. Clobbers r0 to r2.
basics:
    cpsid   aif
    adr     r10, 1f
    ldr     r0, =1f
1:  sub     r10, r10, r0
    place   early_vectors
    // Branches: an undefined instruction may be one although its condition fails (DDI 0406C, "Conditional
    // execution of undefined instructions").
    mrs     r1, cpsr
    tst     r1, #1
    bne     34f
    mcr     p15, 4, r0, c12, c0, 0  // HVBAR
    isb
    place   hanok_image_info
    ldr     r0, [r0, #{at_pl1}]
    cmp     r0, #0
    bxeq    lr
    place   early_vectors
    b       hanok_leave_hyp
34: mcr     p15, 0, r0, c12, c0, 0  // VBAR
    isb
    bx      lr

    // Turns the MMU on with level-1 table r9. Clobbers r0 to r3 and r9.
mmu_on:
    ask_pl1
    bne     hanok_pl1_mmu_on
    mov     r1, #0
    mcr     p15, 4, r1, c1, c1, 0   // HCR: nothing yet
    isb
    ldr     r0, ={mair}
    mcr     p15, 4, r0, c10, c2, 0  // HMAIR0
    mcr     p15, 4, r1, c10, c2, 1  // HMAIR1
    ldr     r0, ={tcr}
    mcr     p15, 4, r0, c2, c0, 2   // HTCR
    mcrr    p15, 4, r9, r1, c2      // HTTBR
    dsb     sy
    mcr     p15, 4, r1, c8, c7, 0   // TLBIALLH
    mcr     p15, 0, r1, c7, c5, 0   // ICIALLU
    mcr     p15, 0, r1, c7, c5, 6   // BPIALL
    dsb     sy
    isb
    ldr     r0, ={sctlr}
    mcr     p15, 4, r0, c1, c0, 0   // HSCTLR
    isb
    bx      lr

    // A CPU that was released from a pen starts here (MMU off). A pen may release all of its CPUs
    // at once: each waits until the image names it, and there is one record, which is its own
    // until it has answered.
    .global hanok_released_boot
hanok_released_boot:
    bl      to_hyp
    bl      basics
    ask_pl1
    blne    hanok_pl1_forget
    mrc     p15, 0, r1, c0, c0, 5   // MPIDR
    bic     r1, r1, #0x7f000000     // bit 31 and the affinity
    orr     r1, r1, #0x80000000
    place   hanok_released_cpu
25: ldr     r2, [r0]
    cmp     r2, r1
    wfene
    bne     25b
    dmb     sy
    place   hanok_released_record
    ldr     r0, [r0]
    b       9f
    // Another CPU starts here (PSCI CPU_ON, MMU off), r0 = physical address of its
    // SecondaryStart record: table, stack, argument.
    .global hanok_secondary_boot
hanok_secondary_boot:
    mov     r11, r0
    bl      to_hyp
    bl      basics
    mov     r0, r11
9:  ldr     r5, [r0, #0]
    ldr     r6, [r0, #8]
    ldr     r7, [r0, #16]
    // The running translation has no executable physical alias; the boot tables do.
    place   hanok_boot_tables
    mov     r9, r0
    bl      mmu_on
    ldr     pc, =10f
10: ask_pl1
    beq     32f
    bl      hanok_pl1_final
    b       33f
32: mov     r0, #0
    mcrr    p15, 4, r5, r0, c2
    isb
    mcr     p15, 4, r0, c8, c7, 0
    dsb     sy
    isb
33: mov     sp, r6
    mov     r0, r7
    mov     r11, #0
    mov     lr, #0
    ldr     pc, =hanok_secondary_main

    // Goes to Hyp mode from the mode that the CPU is in, or stays at PL1 of a CPU without it. Keeps r0 to r2
    // and r11; clobbers r3 to r6.
to_hyp:
    mrs     r3, cpsr
    and     r3, r3, #0x1f
    cmp     r3, #0x1a
    bxeq    lr
    cmp     r3, #0x13
    bne     wrong_mode
    mrc     p15, 0, r3, c0, c1, 1   // ID_PFR1
    tst     r3, #0xf000             // Virtualization
    bxeq    lr
    tst     r3, #0xf0               // Security
    beq     wrong_mode
    // In the Non-secure state the next but one is undefined.
    cpsid   aif
    adr     r3, 15f
    ldr     r4, =15f
15: sub     r3, r3, r4
    ldr     r4, =non_secure_vectors
    add     r3, r3, r4
    mcr     p15, 0, r3, c12, c0, 0  // VBAR
    isb
    mrc     p15, 0, r3, c1, c1, 0   // SCR
    // ACTLR.SMP of Arm's own, which the Non-secure state may not set: the CPU is coherent with
    // others, which it must be before its caches are on (DDI 0438, DDI 0464, "Auxiliary Control
    // Register").
    mrc     p15, 0, r3, c0, c0, 0   // MIDR
    lsr     r3, r3, #24
    cmp     r3, #0x41
    mrceq   p15, 0, r3, c1, c0, 1
    orreq   r3, r3, #(1 << 6)
    mcreq   p15, 0, r3, c1, c0, 1
    // FP for the Non-secure state.
    mrc     p15, 0, r4, c1, c1, 2   // NSACR
    orr     r4, r4, #(3 << 10)
    mcr     p15, 0, r4, c1, c1, 2
    // All interrupts are of group 1, and any priority passes: by PERIPHBASE, which the CPUs that
    // have both extensions and no firmware (Cortex-A7, A15) tell (IHI 0048B, 4.3.4, 4.4.2).
    mrc     p15, 4, r4, c15, c0, 0  // CBAR
    lsr     r4, r4, #15
    lsl     r4, r4, #15
    add     r5, r4, #0x1000         // GICD
    ldr     r6, [r5, #4]            // GICD_TYPER.ITLinesNumber
    and     r6, r6, #0x1f
    add     r5, r5, #0x80           // GICD_IGROUPR
    mvn     r3, #0
11: str     r3, [r5], #4
    subs    r6, r6, #1
    bpl     11b
    add     r5, r4, #0x1000
    mov     r3, #3
    str     r3, [r5]                // GICD_CTLR: both groups, for CPUs that wait for one of 0
    add     r5, r4, #0x2000         // GICC
    mov     r3, #0xff
    str     r3, [r5, #4]            // GICC_PMR
    mov     r4, lr
    cps     #0x16
    mrc     p15, 0, r3, c1, c1, 0   // SCR: Non-secure, HVC enabled, nothing to Monitor mode
    bic     r3, r3, #0xfe
    orr     r3, r3, #0x100
    orr     r3, r3, #1
    mcr     p15, 0, r3, c1, c1, 0
    isb
    mov     r3, #0x1da              // Hyp mode, A, I and F masked
    msr     spsr_fsxc, r3
    movs    pc, r4

    // Says why on the console, if the image tool named one, and stops. Powering off by either PSCI
    // conduit would be a guess.
wrong_mode:
    ldr     r1, =21f
    b       early_say
wrong_place:
    ldr     r1, =22f
    b       early_say
    .global hanok_left_fault
hanok_left_fault:
    ldr     r1, =24f
    b       early_say
early_fault:
    ldr     r1, =23f
early_say:
    adr     r3, 12f
    ldr     r0, =12f
12: sub     r3, r3, r0
    add     r1, r1, r3
    ldr     r0, =hanok_image_info
    add     r0, r0, r3
    ldr     r0, [r0, #32]
    bics    r0, r0, #1              // the kind of the port: both send what is written here
    beq     14f
13: ldrb    r2, [r1], #1
    cmp     r2, #0
    strne   r2, [r0]
    bne     13b
14: wfe
    b       14b
    .ltorg
21: .asciz  "\r\nhanok: refused: not started in Hyp mode, nor in Secure Supervisor mode: somebody else has the virtualization extensions (QEMU: -M virt,virtualization=on)\r\nhanok: end: refused\r\n"
    .balign 4
22: .asciz  "\r\nhanok: refused: the image is not at a multiple of 4 KiB: its header is damaged, or the boot loader does not follow it\r\nhanok: end: refused\r\n"
    .balign 4
23: .asciz  "\r\nhanok: panic: an exception before the first translation was in place\r\nhanok: end: panic\r\n"
    .balign 4
24: .asciz  "\r\nhanok: panic: an exception to Hyp mode, which was left: is PSCI by HVC on a board that starts in Hyp mode?\r\nhanok: end: panic\r\n"
    .balign 4

    // Until Rust installs the real ones: whatever happens is said.
    .balign 32
early_vectors:
    .rept   8
    b       early_fault
    .endr
non_secure_vectors:
    b       early_fault
    b       wrong_mode
    .rept   6
    b       early_fault
    .endr

    .section .bss.boot, "aw", %nobits
    .balign 4096
    // Level 1, four of level 2, one of level 3; at PL1 four of the first level, one of the second, and three
    // by which the first is aligned.
    .global hanok_boot_tables
hanok_boot_tables:
    .space  4096 * 8
    .global hanok_released_record
    .balign 8
hanok_released_record:
    .quad   0
    // The affinity of the CPU that may start, and bit 31.
    .global hanok_released_cpu
hanok_released_cpu:
    .long   0
    .balign 16
    .global hanok_boot_stack
hanok_boot_stack:
    .space  {boot_stack}
    .global hanok_boot_stack_top
hanok_boot_stack_top:
"#,
    base = const IMAGE_BASE as u32,
    boot_stack = const BOOT_STACK,
    // Valid block, AttrIndx 0, AP[1] (RES1 in Hyp mode), SH inner, AF.
    normal = const 0b1 | (1 << 6) | (3 << 8) | (1 << 10),
    device = const 0b1 | (1 << 2) | (1 << 6) | (1 << 10),
    // XN, in the upper word.
    xn = const 1 << 22,
    at_pl1 = const offset_of!(ImageInfo, at_pl1),
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
);

/// Attribute 0 is Normal, inner and outer write-back; attribute 1 is Device (DDI 0406C, B4.1.77
/// "HMAIRn").
const MAIR: u32 = 0x04ff;
/// 32 bits, walks inner and outer write-back, inner shareable; RES1 bits 31 and 23 (B4.1.84).
const TCR: u32 = 1 << 31 | 1 << 23 | 1 << 8 | 1 << 10 | 3 << 12;
/// MMU, caches; the RES1 bits of HSCTLR (B4.1.80). WXN is off until the real tables are in place.
const SCTLR: u32 = 0x30c5_0838 | 1 | 1 << 2 | 1 << 12;
