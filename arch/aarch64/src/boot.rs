//! From the boot loader to Rust: the arm64 Image header and the first page tables.
//!
//! The image is linked at [`IMAGE_BASE`], an address at which no board has RAM, and may be loaded at any 2
//! MiB boundary (the arm64 boot protocol promises one). The code here runs with the MMU off and
//! position-independent: it builds a throw-away translation in which the image is readable, writable and
//! executable by 2 MiB blocks, and everything else that is needed early (the device tree, the early
//! console) is at its physical address. Rust replaces this translation by the final one, which is W^X, as
//! soon as it knows the board ([`hanok_arm_common::mmu`]). Rejected: position-independent Rust with
//! relocations of its own; a fixed place costs one page table and lets a debugger's symbols be right from
//! the first instruction.

use hanok_arm_common::image::BOOT_STACK;
use hanok_arm_common::space::IMAGE_BASE;

// The header is that of Documentation/arch/arm64/booting.rst. Register use until Rust:
// x19 tree, x20 physical address of the image, x21 its distance to the linked address,
// x22 level-1 table, x23 next free level-2 table.
core::arch::global_asm!(
    r#"
    .section .head, "ax"
    .global hanok_image_start
hanok_image_start:
    b       hanok_boot
    .long   0
    .quad   0                       // text_offset
    .quad   __image_memory_size     // image_size; the image tool adds the payload
    .quad   0b1010                  // little endian, 4 KiB pages, anywhere in memory
    .quad   0
    .quad   0
    .quad   0
    .ascii  "ARM\x64"
    .long   0
    .global hanok_image_info
hanok_image_info:
    .ascii  "HANOKIMG"
    .quad   0, 0, 0, 0, 0, 0, 0, 0, 0, 0

    .section .text.boot, "ax"
    // Maps the 2 MiB around x0 at the address x1 (level-2 slot and level-1 slot from x1),
    // attributes x2. Clobbers x0 to x5.
map_block:
    lsr     x0, x0, #21
    lsl     x0, x0, #21
    orr     x0, x0, x2
    ubfx    x3, x1, #30, #9
    ldr     x4, [x22, x3, lsl #3]
    cbnz    x4, 1f
    orr     x4, x23, #3
    str     x4, [x22, x3, lsl #3]
    add     x23, x23, #4096
1:  and     x4, x4, #~0xfff
    ubfx    x5, x1, #21, #9
    str     x0, [x4, x5, lsl #3]
    ret

    .global hanok_boot
hanok_boot:
    mrs     x1, CurrentEL
    cmp     x1, #(2 << 2)
    b.ne    wrong_level
    msr     daifset, #0xf
    msr     spsel, #1
    adr     x1, early_vectors
    msr     vbar_el2, x1
    isb
    mov     x19, x0
    adr     x20, hanok_image_start
    tst     x20, #0x1fffff          // the blocks below would be those of something else
    b.ne    wrong_place
    ldr     x21, ={base}
    sub     x21, x21, x20

    // The loader clears what lies beyond the file only if it knows image_size; the image
    // tool pads it, a bare binary does not: clear it here.
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
2:  cmp     x0, x1
    b.hs    3f
    stp     xzr, xzr, [x0], #16
    b       2b
3:
    adrp    x22, hanok_boot_tables
    add     x22, x22, :lo12:hanok_boot_tables
    add     x23, x22, #4096

    // The device tree: at most 2 MiB, so at most two blocks. First, since the
    // image may lie in the second one, and must stay executable there.
    mov     x0, x19
    mov     x1, x19
    ldr     x2, ={normal_xn}
    bl      map_block
    add     x0, x19, #0x200000
    mov     x1, x0
    ldr     x2, ={normal_xn}
    bl      map_block

    // The image at its linked place, and at its physical one for the moment the MMU goes on.
    adrp    x24, __image_end
    add     x24, x24, :lo12:__image_end
    mov     x25, x20
4:  mov     x0, x25
    mov     x1, x25
    mov     x2, #{normal}
    bl      map_block
    mov     x0, x25
    add     x1, x25, x21
    mov     x2, #{normal}
    bl      map_block
    add     x25, x25, #0x200000
    cmp     x25, x24
    b.lo    4b

    // The early console, where the image tool named one.
    adr     x6, hanok_image_info
    ldr     x0, [x6, #32]
    cbz     x0, 5f
    mov     x1, x0
    ldr     x2, ={device_xn}
    bl      map_block
5:
    // What was written here with the caches off must not be shadowed by lines that were in
    // them before (docs/architecture-review.md, "The first tables").
    dmb     sy
    mrs     x2, ctr_el0
    ubfx    x2, x2, #16, #4
    mov     x3, #4
    lsl     x2, x3, x2
    adrp    x0, __bss_start
    add     x0, x0, :lo12:__bss_start
    adrp    x1, __bss_end
    add     x1, x1, :lo12:__bss_end
6:  dc      ivac, x0
    add     x0, x0, x2
    cmp     x0, x1
    b.lo    6b
    dsb     sy

    bl      mmu_on
    ldr     x0, =hanok_boot_stack_top
    mov     sp, x0
    ldr     x9, =hanok_boot_main
    mov     x0, x19
    mov     x1, x20
    mov     x29, xzr
    mov     x30, xzr
    br      x9

    // Turns the MMU on with level-1 table x22; all of x19 to x30 kept.
    .global mmu_on
mmu_on:
    mov     x0, #(1 << 31)          // HCR_EL2: EL1 is AArch64, no VHE, nothing else yet
    msr     hcr_el2, x0
    isb
    ldr     x0, ={mair}
    msr     mair_el2, x0
    ldr     x0, ={tcr}
    mrs     x1, id_aa64mmfr0_el1
    bfi     x0, x1, #16, #3         // PS = PARange (its three low bits: at most 52 bits)
    msr     tcr_el2, x0
    msr     ttbr0_el2, x22
    dsb     sy
    tlbi    alle2
    ic      iallu
    dsb     sy
    isb
    ldr     x0, ={sctlr}
    msr     sctlr_el2, x0
    isb
    ret

    // A CPU that was released from a spin table starts here (MMU off), with nothing to tell
    // it who it is: one starts at a time, and its record's address waits in the image.
    .global hanok_released_boot
hanok_released_boot:
    adrp    x0, hanok_released_record
    ldr     x0, [x0, :lo12:hanok_released_record]
    // Another CPU starts here (PSCI CPU_ON, MMU off), x0 = physical address of its
    // SecondaryStart record: table, stack, argument.
    .global hanok_secondary_boot
hanok_secondary_boot:
    mrs     x1, CurrentEL
    cmp     x1, #(2 << 2)
    b.ne    wrong_level
    msr     daifset, #0xf
    msr     spsel, #1
    adr     x1, early_vectors
    msr     vbar_el2, x1
    isb
    mov     x19, x0
    ldr     x22, [x19, #0]
    ldp     x20, x21, [x19, #8]
    // The running translation has no executable physical alias; the boot tables do.
    mov     x26, x22
    adrp    x22, hanok_boot_tables
    add     x22, x22, :lo12:hanok_boot_tables
    bl      mmu_on
    ldr     x9, =10f
    br      x9
10: msr     ttbr0_el2, x26
    isb
    tlbi    alle2
    dsb     nsh
    isb
    mov     sp, x20
    mov     x0, x21
    mov     x29, xzr
    mov     x30, xzr
    ldr     x9, =hanok_secondary_main
    br      x9

    // The CPU is not at EL2 (inside a guest, or on a board without EL2): this is said on the console, if the
    // image tool named one, and the CPU stops. Powering off by either PSCI conduit would be a guess.
wrong_level:
    adr     x1, 20f
    b       early_say
    // The loader did not know the image's header (QEMU, where its magic is damaged).
wrong_place:
    adr     x1, 22f
    b       early_say
early_fault:
    adr     x1, 21f
early_say:
    adr     x6, hanok_image_info
    ldr     x0, [x6, #32]
    cbz     x0, 8f
7:  ldrb    w2, [x1], #1
    cbz     w2, 8f
    str     w2, [x0]
    b       7b
8:  wfe
    b       8b
20: .asciz  "\r\nhanok: refused: not started at EL2: the board has no virtualization extensions, or keeps them (QEMU: -M virt,virtualization=on)\r\nhanok: end: refused\r\n"
21: .asciz  "\r\nhanok: panic: an exception before the first translation was in place\r\nhanok: end: panic\r\n"
22: .asciz  "\r\nhanok: refused: the image is not at a multiple of 2 MiB: its header is damaged, or the boot loader does not follow it\r\nhanok: end: refused\r\n"

    // Vectors until Rust installs the real ones: any exception is reported.
    .balign 2048
early_vectors:
    .rept   16
    b       early_fault
    .balign 128
    .endr

    .section .bss.boot, "aw", %nobits
    .balign 4096
    .global hanok_boot_tables
hanok_boot_tables:
    .space  4096 * 8
    .global hanok_released_record
hanok_released_record:
    .quad   0
    .balign 16
    .global hanok_boot_stack
hanok_boot_stack:
    .space  {boot_stack}
    .global hanok_boot_stack_top
hanok_boot_stack_top:
"#,
    base = const IMAGE_BASE,
    boot_stack = const BOOT_STACK,
    // Valid block, AttrIndx 0, SH inner, AF.
    normal = const 0b1 | (3 << 8) | (1 << 10),
    normal_xn = const 0b1u64 | (3 << 8) | (1 << 10) | (1 << 54),
    device_xn = const 0b1u64 | (1 << 2) | (1 << 10) | (1 << 54),
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
);

/// Attribute 0 is Normal, inner and outer write-back; attribute 1 is Device-nGnRE
/// (DDI 0487, D24.2.110 "MAIR_EL2").
const MAIR: u64 = 0x04ff;
/// 39 bits, walks inner and outer write-back, inner shareable; RES1 bits 31 and 23.
const TCR: u64 = (1 << 31) | (1 << 23) | 25 | (1 << 8) | (1 << 10) | (3 << 12);
/// MMU, caches, stack alignment; a writable page is never executable (WXN); the RES1 bits
/// of an EL2 without VHE (DDI 0487, D24.2.162 "SCTLR_EL2"). WXN is off until the real
/// tables are in place.
const SCTLR: u64 = 0x30c5_0830 | 1 | (1 << 2) | (1 << 3) | (1 << 12);
