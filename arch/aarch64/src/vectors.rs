//! Trap entry and return.
//!
//! While a guest runs, SP_EL2 points at its [`Vcpu`], whose first field is the register file: an exit
//! stores registers without needing a free one, then takes the pCPU's stack. A frequent exit is finished
//! before the whole file is saved (`fast.rs`). The answer of any other handler is the vCPU to resume; the
//! hypervisor keeps no registers between two exits, so there is nothing else to save.
//!
//! An exception taken from EL2 itself is the hypervisor's own fault and ends in a panic, on a stack of its
//! own, since the normal one may have overflowed. Code that may take an exception which a guest can cause
//! runs on SP_EL0 meanwhile, which has vectors of its own.

use crate::{Host, HostContext, Vcpu};
use core::mem::offset_of;
use hanok_arm_common::cpu::Cpu;

core::arch::global_asm!(
    r#"
    .section .text.vectors, "ax"

    // Returns to the guest of the vCPU at SP: restores the registers that a function may change.
    .macro leave
    ldr     x18, [sp, #144]
    ldp     x16, x17, [sp, #128]
    ldp     x14, x15, [sp, #112]
    ldp     x12, x13, [sp, #96]
    ldp     x10, x11, [sp, #80]
    ldp     x8, x9, [sp, #64]
    ldp     x6, x7, [sp, #48]
    ldp     x4, x5, [sp, #32]
    ldp     x2, x3, [sp, #16]
    ldp     x0, x1, [sp, #0]
    eret
    // Nothing may be speculated past the return (straight-line speculation).
    dsb     nsh
    isb
    .endm

    // From the guest: saves the registers that a function may change in the vCPU, and calls \fast, on the
    // pCPU's stack. Its answer is the vCPU if it has handled the exit, which then returns at once, or else
    // zero. \traced records that the guest was left, if something does.
    .macro from_guest fast, handler, traced
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    str     x18, [sp, #144]
    str     x30, [sp, #240]
    mov     x0, sp
    ldr     x1, [x0, #{stack}]
    mov     sp, x1
    .ifnb \traced
    bl      \traced
    mrs     x0, tpidr_el2
    ldr     x0, [x0, #{current}]
    .endif
    .ifnb \fast
    bl      \fast
    cbz     x0, 1f
    .ifnb \traced
    bl      hanok_trace_enter
    mrs     x0, tpidr_el2
    ldr     x0, [x0, #{current}]
    .endif
    mov     sp, x0
    ldr     x30, [sp, #240]
    leave
1:
    mrs     x0, tpidr_el2
    ldr     x0, [x0, #{current}]
    .endif
    stp     x19, x20, [x0, #152]
    stp     x21, x22, [x0, #168]
    stp     x23, x24, [x0, #184]
    stp     x25, x26, [x0, #200]
    stp     x27, x28, [x0, #216]
    str     x29, [x0, #232]
    mrs     x1, elr_el2
    mrs     x2, spsr_el2
    stp     x1, x2, [x0, #248]
    mov     x29, xzr
    mov     x30, xzr
    bl      \handler
    .ifnb \traced
    bl      hanok_trace_return
    mrs     x0, tpidr_el2
    ldr     x0, [x0, #{current}]
    .endif
    b       hanok_enter
    .endm

    // From EL2: everything to the emergency stack, then the panic that shows it.
    .macro from_hypervisor kind
    msr     tpidrro_el0, x0
    mrs     x0, tpidr_el2
    ldr     x0, [x0, #{emergency}]
    stp     x1, x2, [x0, #-16]!
    mov     x1, sp
    mov     sp, x0
    mov     x0, #\kind
    b       hanok_el2_fault_entry
    .endm

    // From EL2 on SP_EL0, where it runs two pieces of code that expect an exception: the AT instruction
    // (`stage1.rs`), and the moment in which SErrors are let through (`errors.rs`). Goes on at X16, with
    // X17 not zero and SErrors masked. Both pieces of code may lose X16 and X17.
    .macro expected
    mrs     x17, spsr_el2
    orr     x17, x17, #(1 << 8)
    msr     spsr_el2, x17
    msr     elr_el2, x16
    eret
    dsb     nsh
    isb
    .endm

    .macro vector code:vararg
    .balign 128
    \code
    .endm

    // All vectors, with these ways from a guest.
    .macro table sync, sync_aarch32, irq, serror
    // Current EL with SP0: interrupts are masked.
    vector expected
    vector from_hypervisor 1
    vector from_hypervisor 2
    vector expected
    // Current EL with SPx.
    vector from_hypervisor 4
    vector from_hypervisor 5
    vector from_hypervisor 6
    vector from_hypervisor 7
    // Lower EL, AArch64.
    vector b \sync
    vector b \irq
    vector b \irq
    vector b \serror
    // Lower EL, AArch32: a 32-bit guest, or a 32-bit program under a 64-bit kernel.
    vector b \sync_aarch32
    vector b \irq
    vector b \irq
    vector b \serror
    .endm

    .balign 2048
    .global hanok_vectors
hanok_vectors:
    table guest_sync, guest_sync_aarch32, guest_irq, guest_serror
    // The same for a CPU whose exits are traced.
    .balign 2048
    .global hanok_tracing_vectors
hanok_tracing_vectors:
    table traced_sync, traced_sync_aarch32, traced_irq, traced_serror

traced_sync:
    from_guest hanok_fast_sync, hanok_on_sync, hanok_trace_sync
traced_sync_aarch32:
    from_guest hanok_fast_sync_aarch32, hanok_on_sync, hanok_trace_sync
traced_irq:
    from_guest hanok_fast_irq, hanok_on_irq, hanok_trace_irq
traced_serror:
    from_guest , hanok_on_serror, hanok_trace_serror
guest_sync:
    from_guest hanok_fast_sync, hanok_on_sync
guest_sync_aarch32:
    from_guest hanok_fast_sync_aarch32, hanok_on_sync
guest_irq:
    from_guest hanok_fast_irq, hanok_on_irq
guest_serror:
    from_guest , hanok_on_serror

    // To the guest: x0 = the vCPU.
    .global hanok_enter
hanok_enter:
    mov     sp, x0
    ldp     x30, x1, [sp, #240]
    ldr     x2, [sp, #256]
    msr     elr_el2, x1
    msr     spsr_el2, x2
    ldp     x19, x20, [sp, #152]
    ldp     x21, x22, [sp, #168]
    ldp     x23, x24, [sp, #184]
    ldp     x25, x26, [sp, #200]
    ldp     x27, x28, [sp, #216]
    ldr     x29, [sp, #232]
    leave

    // x0 = vector, x1 = the stack pointer then, x0 of then in TPIDRRO_EL0 (the guest's
    // value is lost: this never returns), x1 and x2 of then on top of the stack.
hanok_el2_fault_entry:
    sub     sp, sp, #256
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x16, x17, [sp, #128]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    str     x30, [sp, #240]
    str     x1, [sp, #248]
    ldp     x3, x4, [sp, #256]
    mrs     x2, tpidrro_el0
    stp     x2, x3, [sp, #0]
    str     x4, [sp, #16]
    mov     x1, sp
    mov     x29, xzr
    mov     x30, xzr
    bl      hanok_on_el2_fault
    b       .
"#,
    stack = const offset_of!(Vcpu, context) + offset_of!(HostContext, stack),
    emergency = const offset_of!(Cpu<Host>, emergency_stack),
    current = const offset_of!(Cpu<Host>, current),
);

const _: () = assert!(offset_of!(Vcpu, context) + offset_of!(HostContext, regs) == 0);

/// The registers at a fault of EL2 itself.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FaultFrame {
    /// X0 to X30.
    pub x: [u64; 31],
    /// The stack pointer.
    pub sp: u64,
}

unsafe extern "C" {
    static hanok_vectors: u8;
    static hanok_tracing_vectors: u8;
    fn hanok_enter(vcpu: *mut u8) -> !;
}

/// Points this CPU at the vectors.
pub fn install() {
    // SAFETY: the linked address of a table that is 2 KiB aligned and never freed.
    unsafe { crate::write_own!("vbar_el2", &raw const hanok_vectors as u64) };
    hanok_arm_common::sysreg::isb();
}

/// Changes to the vectors that record exits and entries, or back.
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
    // SAFETY: by this function's contract.
    unsafe { hanok_enter(vcpu.cast()) }
}
