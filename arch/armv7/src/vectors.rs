//! Trap entry and return.
//!
//! While a guest runs, SP_hyp points at its [`Vcpu`], whose first field is the trap frame: an
//! exit stores registers without needing a free one, then takes the pCPU's stack. A frequent exit is
//! over before the banked registers are looked at (`fast.rs`). Hyp mode uses
//! LR_usr and the User bank of R8 to R12 (DDI 0406C, B1.3.2), so these are what is stored; the
//! banked registers of the guest's other modes stay in the CPU until Rust asks for them. The
//! handler answers with the vCPU to resume; the hypervisor keeps no registers between two exits, so
//! there is nothing else to save.
//!
//! An exception taken from Hyp mode itself is the hypervisor's own fault and ends in a panic, on a stack of
//! its own, since the normal one may have overflowed. Some code expects a data abort, which is no fault
//! (`hyp_data`).

use crate::{Host, HostContext, Vcpu};
use core::mem::offset_of;
use hanok_arm_common::cpu::Cpu;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_decode::Class;
use hanok_types::platform;

core::arch::global_asm!(
    r#"
    .section .text.vectors, "ax"
    .arm
    .arch_extension virt

    // From the guest: R0 to R12 and LR_usr to the frame, and on to the pCPU's stack; R0 = the vCPU.
    .macro from_guest
    stmia   sp, {{r0-r12, lr}}
    mov     r0, sp
    ldr     sp, [r0, #{stack}]
    .endm

    // Back to the guest of the vCPU at SP.
    .macro leave
    ldmia   sp, {{r0-r12, lr}}
    eret
    // Nothing may be speculated past the return (straight-line speculation).
    dsb     nsh
    isb
    .endm

    // \handler, and back to a guest. \traced records that the guest was left, if something does.
    .macro slow handler, traced
    mov     r11, #0
    bl      \handler
    .ifnb \traced
    bl      hanok_trace_enter
    mrc     p15, 4, r0, c13, c0, 2
    ldr     r0, [r0, #{current}]
    .endif
    b       hanok_enter
    .endm

    // After the function for frequent exits, whose answer is the vCPU, or zero if it has not handled the
    // exit: then \handler does.
    .macro finish handler, traced
    cmp     r0, #0
    beq     1f
    .ifnb \traced
    bl      hanok_trace_enter
    mrc     p15, 4, r0, c13, c0, 2
    ldr     r0, [r0, #{current}]
    .endif
    mov     sp, r0
    leave
1:
    slow    \handler, \traced
    .endm

    // A synchronous exit, by HSR.EC (B3.13.6): a data abort, HVC, and all others; R1 = HSR.
    .macro from_sync traced
    from_guest
    .ifnb \traced
    bl      \traced
    mrc     p15, 4, r0, c13, c0, 2
    ldr     r0, [r0, #{current}]
    .endif
    mrc     p15, 4, r1, c5, c2, 0
    lsr     r2, r1, #26
    cmp     r2, #{data_abort}
    bne     2f
    // The distributor's page, by HPFAR; then whether it was a store.
    adr     lr, 4f
    mrc     p15, 4, r2, c6, c0, 4
    cmp     r2, #{distributor}
    // By loads of the program counter: these functions are T32, and a branch stays in A32.
    ldrne   pc, =hanok_fast_device
    tst     r1, #{write}
    ldrne   pc, =hanok_fast_store
    ldr     pc, =hanok_fast_load
4:
    finish  hanok_on_sync, \traced
2:
    cmp     r2, #{hypercall}
    bne     3f
    bl      hanok_fast_hypercall
    finish  hanok_on_sync, \traced
3:
    slow    hanok_on_sync, \traced
    .endm

    // An interrupt.
    .macro from_irq traced
    from_guest
    .ifnb \traced
    bl      \traced
    mrc     p15, 4, r0, c13, c0, 2
    ldr     r0, [r0, #{current}]
    .endif
    bl      hanok_fast_irq
    finish  hanok_on_irq, \traced
    .endm

    // From Hyp mode: everything to the emergency stack, then the panic that shows it. TPIDRURO,
    // the guest's, is lost: this never returns.
    .macro from_hypervisor kind
    mcr     p15, 0, r0, c13, c0, 3
    mrc     p15, 4, r0, c13, c0, 2
    ldr     r0, [r0, #{emergency}]
    stmdb   r0!, {{r1, lr}}
    mov     r1, #\kind
    b       hanok_hyp_fault_entry
    .endm

    // All vectors, with these ways from a guest.
    .macro table sync, irq
    b       .                       // the reset of a PL2 that does not exist
    b       hyp_undefined
    b       hyp_call
    b       hyp_prefetch
    b       hyp_data
    b       \sync
    b       \irq
    b       \irq
    .endm

    .balign 32
    .global hanok_vectors
hanok_vectors:
    table   guest_sync, guest_irq
    // The same for a CPU whose exits are traced.
    .global hanok_tracing_vectors
hanok_tracing_vectors:
    table   traced_sync, traced_irq

hyp_undefined:
    from_hypervisor 1
hyp_call:
    from_hypervisor 2
hyp_prefetch:
    from_hypervisor 3
hyp_data:
    // Its stack pointer is zero in two pieces of code alone, which expect an abort: the
    // translation of a guest's address (`stage1.rs`), and the moment in which asynchronous aborts
    // are let through (`errors.rs`). Goes on at R1, with R0 not zero and these masked.
    cmp     sp, #0
    beq     hyp_expected
    from_hypervisor 4
hyp_expected:
    mrs     r0, SPSR_hyp
    orr     r0, r0, #(1 << 8)
    msr     SPSR_hyp, r0
    msr     ELR_hyp, r1
    eret
    dsb     nsh
    isb
guest_sync:
    from_sync
guest_irq:
    from_irq
traced_sync:
    from_sync hanok_trace_sync
traced_irq:
    from_irq hanok_trace_irq

    // To the guest: r0 = the vCPU.
    .global hanok_enter
    .type   hanok_enter, %function
hanok_enter:
    mov     sp, r0
    leave

    // r0 = the emergency stack, r1 and lr of then on it; r1 = vector; r0 of then in TPIDRURO.
hanok_hyp_fault_entry:
    str     sp, [r0, #-8]!
    mov     sp, r0
    sub     sp, sp, #52
    str     r2, [sp, #8]
    add     r0, sp, #12
    stmia   r0, {{r3-r12}}
    mrc     p15, 0, r2, c13, c0, 3
    str     r2, [sp, #0]
    ldr     r2, [sp, #60]
    str     r2, [sp, #4]
    ldr     r2, [sp, #64]
    str     r2, [sp, #56]
    mrs     r2, ELR_hyp
    str     r2, [sp, #60]
    mrs     r2, SPSR_hyp
    str     r2, [sp, #64]
    // The frame: r0 to r12 at 0 to 48, sp at 52, lr at 56, the program counter and status after them.
    mov     r2, sp
    mov     r0, r1
    mov     r1, #0
    bic     sp, sp, #7
    mov     r11, #0
    bl      hanok_on_el2_fault
    b       .

    // r0: a stack's top, r1: its argument, r2: where to go, for good.
    .global hanok_go_on_stack
    .type   hanok_go_on_stack, %function
hanok_go_on_stack:
    mov     sp, r0
    mov     r0, r1
    mov     r11, #0
    mov     lr, #0
    bx      r2
"#,
    stack = const offset_of!(Vcpu, context) + offset_of!(HostContext, stack),
    emergency = const offset_of!(Cpu<Host>, emergency_stack),
    current = const offset_of!(Cpu<Host>, current),
    data_abort = const Class::DataAbortLower as u32,
    hypercall = const Class::Hvc32 as u32,
    distributor = const platform::GIC_DIST.get() >> 12 << 4,
    // HSR.ISS.WnR of a data abort.
    write = const 1 << 6,
);

const _: () = assert!(offset_of!(Vcpu, context) + offset_of!(HostContext, frame) == 0);

/// The registers at a fault of the hypervisor itself, in Hyp mode or at PL1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FaultFrame {
    /// R0 to R12.
    pub r: [u32; 13],
    /// The stack pointer.
    pub sp: u32,
    /// The link register.
    pub lr: u32,
    /// The return address: where it happened, or near it (DDI 0406C, B1.8.3).
    pub pc: u32,
    /// The status of then.
    pub psr: u32,
}

unsafe extern "C" {
    static hanok_vectors: u8;
    static hanok_tracing_vectors: u8;
    fn hanok_enter(vcpu: *mut u8) -> !;
    fn hanok_go_on_stack(stack: usize, argument: *mut u8, next: usize) -> !;
}

/// Points this CPU at the vectors.
pub fn install() {
    if is_deprivileged() {
        return crate::supervisor::install();
    }
    // SAFETY: the linked address of a table that is 32-byte aligned and never freed.
    unsafe { crate::write_own!("vbar_el2", &raw const hanok_vectors as u64) };
    hanok_arm_common::sysreg::isb();
}

/// Changes to the vectors that record exits and entries in Hyp mode, or back.
pub(crate) fn select(tracing: bool) {
    let table = if tracing {
        &raw const hanok_tracing_vectors
    } else {
        &raw const hanok_vectors
    };
    // SAFETY: as in `install`; both tables do the same for a guest.
    unsafe { crate::write_own!("vbar_el2", table as u64) };
    hanok_arm_common::sysreg::isb();
}

/// Leaves for the guest of `vcpu`, for the first time on this stack.
///
/// # Safety
/// `vcpu` is the last answer of `Cpu::begin` or `Cpu::finish`; no data on the caller's stack is needed
/// again.
pub unsafe fn enter(vcpu: *mut Vcpu) -> ! {
    if is_deprivileged() {
        // SAFETY: by this function's contract.
        unsafe { crate::deprivileged::enter(vcpu) }
    }
    // SAFETY: by this function's contract.
    unsafe { hanok_enter(vcpu.cast()) }
}

/// Goes on at `next`, on another stack.
///
/// # Safety
/// `stack` is the top of a mapped stack, and this CPU's; no data on the caller's stack is needed again.
pub unsafe fn go_on_stack<T>(stack: u64, argument: *mut T, next: extern "C" fn(*mut T) -> !) -> ! {
    // SAFETY: by this function's contract.
    unsafe { hanok_go_on_stack(stack as usize, argument.cast(), next as usize) }
}
