//! What takes instructions of its own to harm others.

use core::arch::asm;

/// Masks everything that can be masked, and never looks again.
pub fn mask() -> ! {
    // SAFETY: nothing is awaited any more.
    unsafe { asm!("cpsid aif", "2: b 2b", options(noreturn)) }
}

/// Goes to `nowhere`, with the vectors there too. The MMU is off, so that it is not the guest's
/// own translation that stops it.
pub fn crash(nowhere: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "mcr p15, 0, {nowhere}, c12, c0, 0", // VBAR
            "mrc p15, 0, r0, c1, c0, 0",         // SCTLR
            "bic r0, r0, #1",
            "mcr p15, 0, r0, c1, c0, 0",
            "isb",
            "bx {nowhere}",
            nowhere = in(reg) nowhere as u32,
            options(noreturn)
        )
    }
}

/// Makes its translation begin at `root`, and goes on as far as that leads.
pub fn garble(root: u64) -> ! {
    // SAFETY: there is no way back.
    unsafe {
        asm!(
            "cpsid aif",
            "mcrr p15, 0, {low}, {high}, c2",   // TTBR0
            "isb",
            "mcr p15, 0, {low}, c8, c7, 0",     // TLBIALL
            "dsb",
            "isb",
            "2: b 2b",
            low = in(reg) root as u32,
            high = in(reg) (root >> 32) as u32,
            options(noreturn)
        )
    }
}
