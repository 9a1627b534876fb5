//! Instructions that do nothing, for whoever counts instructions from outside: between them is what is to be counted.

/// The measured stretch begins.
pub fn begin() {
    // SAFETY: it does nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("hint #0x40");
    }
    // SAFETY: it does nothing: NOP-compatible hint 0x40, which the assembler has no name for.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!(".inst 0xe320f040");
    }
}

/// The measured stretch is over.
pub fn end() {
    // SAFETY: it does nothing.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("hint #0x41");
    }
    // SAFETY: it does nothing: NOP-compatible hint 0x41, which the assembler has no name for.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!(".inst 0xe320f041");
    }
}
