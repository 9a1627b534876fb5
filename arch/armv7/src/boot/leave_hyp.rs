//! From Hyp mode to PL1, where the system's description asks for the backend `deprivileged` on a CPU that could do
//! more.
//!
//! PL1 of the Non-secure state gets all that the CPU has, as if there were no Hyp mode: no stage 2, no traps,
//! interrupts and aborts, both timers and their counters without an offset, the CPU's own numbers. Only Hyp mode can
//! say so, and each of its registers may hold anything (DDI 0406C, B1.9.1 and B4.1: "UNKNOWN on reset" for most of them), or
//! what a boot loader has left. The registers of PL1 itself that were never set in the Non-secure state, of
//! which a reset sets the Secure copy alone, are here as far as they count before the MMU is on; the rest is
//! set where PL1 is set up on each CPU.
//!
//! Nothing leads back: HVC of a guest is undefined in User mode (B9.3.4), and nothing else traps. An HVC of the
//! hypervisor's own, if the board's device tree names that way to a firmware, finds vectors that say what
//! happened. They are used with Hyp mode's MMU off, at their physical address.

// r0 is the physical address of the vectors for PL1, r10 what makes a linked address a physical one. Returns in Supervisor
// mode, everything masked. Clobbers r0 to r2.
core::arch::global_asm!(
    r#"
    .section .text.boot, "ax"
    .arm
    .arch_extension virt
    .global hanok_leave_hyp
    .type   hanok_leave_hyp, %function
hanok_leave_hyp:
    mcr     p15, 0, r0, c12, c0, 0  // VBAR
    ldr     r0, =left_vectors
    add     r0, r0, r10
    mcr     p15, 4, r0, c12, c0, 0  // HVBAR
    ldr     r0, ={hsctlr}
    mcr     p15, 4, r0, c1, c0, 0   // HSCTLR: no MMU, exceptions in A32
    mov     r1, #0
    mcr     p15, 4, r1, c1, c1, 0   // HCR: no stage 2; nothing traps, nothing is routed to Hyp mode
    mcr     p15, 4, r1, c1, c1, 2   // HCPTR
    mcr     p15, 4, r1, c1, c1, 3   // HSTR
    mcrr    p15, 6, r1, r1, c2      // VTTBR: TLB entries of PL1 have a VMID without stage 2, too
    mrc     p15, 4, r0, c1, c1, 1   // HDCR: HPMN stays as the reset, or a boot loader, has set it
    and     r0, r0, #0x1f
    mcr     p15, 4, r0, c1, c1, 1
    mrc     p15, 0, r0, c0, c0, 0
    mcr     p15, 4, r0, c0, c0, 0   // VPIDR: MIDR
    mrc     p15, 0, r0, c0, c0, 5
    mcr     p15, 4, r0, c0, c0, 5   // VMPIDR: MPIDR
    // The generic timer, which is optional (ID_PFR1).
    mrc     p15, 0, r0, c0, c1, 1
    tst     r0, #0xf0000
    beq     1f
    mov     r0, #3
    mcr     p15, 4, r0, c14, c1, 0  // CNTHCTL: PL1 has the physical timer and its counter
    mcrr    p15, 4, r1, r1, c14     // CNTVOFF
    mcr     p15, 4, r1, c14, c2, 1  // CNTHP_CTL: off
1:  ldr     r0, ={sctlr}
    mcr     p15, 0, r0, c1, c0, 0   // SCTLR
    msr     elr_hyp, lr
    mov     r0, #0x1d3              // Supervisor mode, A, I and F masked
    msr     spsr_hyp, r0
    eret
    .ltorg

    .balign 32
left_vectors:
    .rept   8
    b       hanok_left_fault
    .endr
"#,
    hsctlr = const HSCTLR_OFF,
    sctlr = const SCTLR_OFF,
);

/// HSCTLR with its RES1 bits alone (DDI 0406C, B4.1.80).
const HSCTLR_OFF: u32 = 0x30c5_0838;
/// SCTLR as out of reset: its RES1 bits, and the barriers of coprocessor 15 (DDI 0406C, B4.1.130).
const SCTLR_OFF: u32 = 0x00c5_0078;
