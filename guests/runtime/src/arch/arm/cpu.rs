//! The interrupt mask.

/// Lets interrupts in.
pub fn unmask() {
    // SAFETY: the handler keeps all registers.
    unsafe { core::arch::asm!("cpsie i", "isb") };
}

/// Keeps interrupts out.
pub fn mask() {
    // SAFETY: masking an interrupt changes nothing else.
    unsafe { core::arch::asm!("cpsid i") };
}
