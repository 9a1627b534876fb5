//! Invalidation of the TLBs, whichever descriptors are used.

/// Makes what was written to tables true.
pub fn flush() {
    // SAFETY: what the translation of used memory says did not change. TLBIALLIS.
    unsafe {
        core::arch::asm!(
            "dsb ishst",
            "mcr p15, 0, {zero}, c8, c3, 0",
            "dsb ish",
            "isb",
            zero = in(reg) 0,
            options(nostack)
        )
    };
}
