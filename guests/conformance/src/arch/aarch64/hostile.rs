//! What takes instructions of its own to harm others.

use core::arch::asm;

/// Masks everything that can be masked, and never looks again.
pub fn mask() -> ! {
    // SAFETY: nothing is awaited any more.
    unsafe { asm!("msr daifset, #0xf", "2: b 2b", options(noreturn)) }
}

/// Goes to `nowhere`, with the vectors there too. The MMU is off, so that it is not the guest's
/// own translation that stops it.
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

/// Makes its translation begin at `root`, and goes on as far as that leads.
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
