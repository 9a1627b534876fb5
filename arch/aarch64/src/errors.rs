//! Errors that arrive late, and the vCPU to which each belongs.
//!
//! A guest's store to a device may be answered with an error when the store is long done; that error is an
//! SError, taken when nothing masks it. EL2 masks SErrors, so one that comes after a guest's last
//! instruction would be taken by the next guest. So before another guest's turn SErrors are unmasked for a
//! moment, and an SError that is taken then is given to the guest that leaves.

use core::arch::asm;
use hanok_hal::LateError;

/// Waits until all stores of this CPU have been answered, and takes a pending SError, if there is one.
/// `planted` makes a test's SError pending before.
///
/// An answer that a bus gives to no barrier (a store that was acknowledged on its way,
/// Device-nGnRE) can still come later (docs/architecture-review.md).
#[inline(always)]
pub fn take(planted: bool) -> LateError {
    let seen: u64;
    // SAFETY: an SError is taken to the vector of SP_EL0 (`vectors.rs`, `expected`), which changes
    // X16 and X17 and goes on at label 2. ELR_EL2 and SPSR_EL2 hold nothing of value meanwhile: the
    // guest's are kept in its vCPU by now. The stack pointer is not used, and is EL2's own again
    // at the end. ESB (HINT #16) is a NOP on a CPU without FEAT_RAS; on others it is what makes
    // an error pending that the CPU has found and not reported yet (DDI 0487, D1.3.6, C6.2 "ESB").
    unsafe {
        asm!(
            "adr x16, 2f",
            "dsb sy",
            "msr spsel, #0",
            "msr daifclr, #4",
            "hint #16",
            "isb",
            "2:",
            "msr daifset, #4",
            "msr spsel, #1",
            inout("x17") u64::from(planted) => seen,
            out("x16") _,
            options(nostack, preserves_flags)
        );
    }
    if seen != 0 {
        LateError::Pending
    } else {
        LateError::None
    }
}
