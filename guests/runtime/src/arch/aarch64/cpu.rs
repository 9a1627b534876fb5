//! The interrupt mask.

/// Enables interrupts.
pub fn unmask() {
    // SAFETY: the handler keeps all registers.
    unsafe { core::arch::asm!("msr daifclr, #2", "isb") };
}

/// Keeps interrupts out, and gives what [`restore`] takes.
pub fn save_and_mask() -> usize {
    let before = read_sysreg!("daif");
    mask();
    before as usize
}

/// Lets interrupts in or not, as before [`save_and_mask`].
pub fn restore(before: usize) {
    write_sysreg!("daif", before as u64);
}

/// Keeps interrupts out.
pub fn mask() {
    // SAFETY: masking an interrupt changes nothing else.
    unsafe { core::arch::asm!("msr daifset, #2") };
}
