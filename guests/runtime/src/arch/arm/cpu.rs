//! The interrupt mask.

/// Enables interrupts.
pub fn unmask() {
    // SAFETY: the handler keeps all registers.
    unsafe { core::arch::asm!("cpsie i", "isb") };
}

/// Keeps interrupts out, and gives what [`restore`] takes.
pub fn save_and_mask() -> usize {
    let before: usize;
    // SAFETY: masking an interrupt changes nothing else.
    unsafe { core::arch::asm!("mrs {}, cpsr", "cpsid i", out(reg) before, options(nostack)) };
    before
}

/// Lets interrupts in or not, as before [`save_and_mask`].
pub fn restore(before: usize) {
    // SAFETY: the control field, of the same mode.
    unsafe { core::arch::asm!("msr cpsr_c, {}", in(reg) before, options(nostack)) };
}

/// Keeps interrupts out.
pub fn mask() {
    // SAFETY: masking an interrupt changes nothing else.
    unsafe { core::arch::asm!("cpsid i") };
}
