//! The interrupt mask.

/// Enables interrupts.
pub fn unmask() {
    // SAFETY: the handler keeps all registers.
    unsafe { core::arch::asm!("cpsie i", "isb") };
}

/// Masks interrupts.
pub fn mask() {
    // SAFETY: masking an interrupt changes nothing else.
    unsafe { core::arch::asm!("cpsid i") };
}
