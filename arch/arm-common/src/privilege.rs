//! Where the hypervisor runs: in Hyp mode, or at PL1 of a CPU without virtualization extensions; and whether that
//! CPU can have others beside it.
//!
//! One 32-bit image serves both, so code that differs asks at run time. The frequent paths of Hyp mode do
//! not ask: each backend has trap entries of its own, and what only these call knows where it is.

/// Whether this CPU runs the hypervisor at PL1, in Supervisor mode. It never changes: no other mode but
/// that one and Hyp mode runs Rust code. (CPSR.M, DDI 0406C, B1.3.1; the two differ in bit 0.)
#[cfg(target_arch = "arm")]
#[inline(always)]
pub fn is_deprivileged() -> bool {
    let cpsr: u32;
    // SAFETY: reads the mode, which is the same in all Rust code.
    unsafe {
        core::arch::asm!("mrs {}, cpsr", out(reg) cpsr, options(pure, nomem, nostack, preserves_flags));
    }
    cpsr & 1 != 0
}

/// A 64-bit hypervisor runs at EL2.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub const fn is_deprivileged() -> bool {
    false
}

/// Whether this CPU has the Multiprocessing Extensions: operations that reach other CPUs' TLBs and instruction
/// caches, and MPIDR (bit 31, DDI 0406C, B4.1.106). Where it has neither, MPIDR's encoding reads as MIDR, which has
/// that bit clear on a CPU of Arm's.
#[cfg(target_arch = "arm")]
#[inline(always)]
pub fn has_multiprocessing() -> bool {
    crate::read!("mpidr_el1") >> 31 & 1 != 0
}

/// All CPUs of Armv8 have what these extensions were.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub const fn has_multiprocessing() -> bool {
    true
}
