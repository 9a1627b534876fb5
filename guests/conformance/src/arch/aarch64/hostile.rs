//! Attacks on other VMs that need instructions of the architecture.

use core::arch::asm;

/// Masks every interrupt that can be masked, and loops for ever.
pub fn mask() -> ! {
    // SAFETY: nothing is awaited any more.
    unsafe { asm!("msr daifset, #0xf", "2: b 2b", options(noreturn)) }
}

/// Invalidates all that the CPUs cache of instructions, and cleans a line of data by its set. (TLBs are left alone: an
/// emulator that counts instructions takes minutes for that.)
pub fn empty_caches() {
    // SAFETY: nothing that is in memory is lost.
    unsafe {
        asm!(
            "ic ialluis",
            "dc cisw, xzr",
            "dsb ish",
            "isb",
            options(nostack)
        )
    }
}

/// Jumps to `nowhere`, and sets the vectors to the same address. The MMU is off, so that the
/// guest's own translation does not stop the access.
pub fn crash(nowhere: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "msr vbar_el1, {nowhere}",
            "mrs x0, sctlr_el1",
            "bic x0, x0, #1",
            "msr sctlr_el1, x0",
            "isb",
            "br {nowhere}",
            nowhere = in(reg) nowhere,
            options(noreturn)
        )
    }
}

/// Sets the root of the guest's translation to `root`, and continues as far as that translation
/// leads.
pub fn garble(root: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "msr daifset, #0xf",
            "msr ttbr0_el1, {root}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            "2: b 2b",
            root = in(reg) root,
            options(noreturn)
        )
    }
}
