//! Asynchronous aborts that arrive late: whose they are. As in the 64-bit backend.

use core::arch::asm;

/// Waits until what was stored here has been answered, and takes an asynchronous abort that is
/// pending: whether there was one. `planted` stands for one, for a test.
#[inline(always)]
pub fn take(planted: bool) -> bool {
    let seen: u32;
    // SAFETY: an abort of Hyp mode while its stack pointer is zero (`vectors.rs`, `hyp_expected`)
    // changes R0 and goes on behind the moment. ELR_hyp and SPSR_hyp hold nothing meanwhile:
    // callers have the guest's in its vCPU. The stack is not used, and its pointer is as it was at
    // the end.
    unsafe {
        asm!(
            "adr r1, 2f",
            "mov r3, sp",
            "dsb sy",
            "mov sp, #0",
            "cpsie a",
            "isb",
            "2:",
            "cpsid a",
            "mov sp, r3",
            inout("r0") u32::from(planted) => seen,
            out("r1") _,
            out("r3") _,
            options(nostack)
        );
    }
    seen != 0
}
