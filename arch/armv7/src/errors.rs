//! Asynchronous aborts that arrive late, and the vCPU to which each belongs: see the 64-bit backend.

use core::arch::asm;
use hanok_hal::LateError;

/// Waits until all stores of this CPU have been answered, and takes a pending asynchronous abort,
/// if there is one. `planted` makes a test's abort pending before.
#[inline(always)]
pub fn take(planted: bool) -> LateError {
    let seen: u32;
    // SAFETY: an abort of Hyp mode while its stack pointer is zero (`vectors.rs`, `hyp_expected`)
    // changes R0 and goes on behind the instructions that let it through. ELR_hyp and SPSR_hyp hold
    // nothing of value meanwhile: the guest's are kept in its vCPU by now. The stack is not used, and
    // its pointer is as it was at the end.
    unsafe {
        asm!(
            "adr r1, 2f",
            "mov r3, sp",
            "dsb sy",
            "mov sp, {zero}",
            "cpsie a",
            "isb",
            "2:",
            "cpsid a",
            "mov sp, r3",
            inout("r0") u32::from(planted) => seen,
            out("r1") _,
            out("r3") _,
            zero = in(reg) 0,
            options(nostack)
        );
    }
    if seen != 0 {
        LateError::Pending
    } else {
        LateError::None
    }
}
