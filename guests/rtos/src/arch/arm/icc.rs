//! GICv3's CPU interface (IHI 0069H, 12.5).

use core::arch::asm;

/// ICC_SRE.
pub fn enable_system_registers() {
    // SAFETY: the interface's own register.
    unsafe { asm!("mcr p15, 0, {}, c12, c12, 5", "isb", in(reg) 7, options(nostack)) };
}

/// ICC_PMR.
pub fn set_priority_mask(mask: u32) {
    // SAFETY: the interface's own register.
    unsafe { asm!("mcr p15, 0, {}, c4, c6, 0", "isb", in(reg) mask, options(nostack)) };
}

/// ICC_IGRPEN1.
pub fn enable_group_1() {
    // SAFETY: the interface's own register.
    unsafe { asm!("mcr p15, 0, {}, c12, c12, 7", "isb", in(reg) 1, options(nostack)) };
}

/// ICC_IAR1.
pub fn acknowledge() -> u32 {
    let id: u32;
    // SAFETY: the interface's own register; the barrier brings its state up to date
    // (IHI 0069H, 4.1).
    unsafe { asm!("mrc p15, 0, {}, c12, c12, 0", "dsb", out(reg) id, options(nostack)) };
    id
}

/// ICC_EOIR1.
pub fn end(id: u32) {
    // SAFETY: the interface's own register.
    unsafe { asm!("mcr p15, 0, {}, c12, c12, 1", "isb", in(reg) id, options(nostack)) };
}
