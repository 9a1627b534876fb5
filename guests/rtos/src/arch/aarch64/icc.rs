//! GICv3's CPU interface (IHI 0069H, 12.2).

/// ICC_SRE_EL1.
pub fn enable_system_registers() {
    write_sysreg!("icc_sre_el1", 7);
}

/// ICC_PMR_EL1.
pub fn set_priority_mask(mask: u32) {
    write_sysreg!("icc_pmr_el1", u64::from(mask));
}

/// ICC_IGRPEN1_EL1.
pub fn enable_group_1() {
    write_sysreg!("icc_igrpen1_el1", 1);
}

/// ICC_IAR1_EL1.
pub fn acknowledge() -> u32 {
    let id = read_sysreg!("icc_iar1_el1") as u32;
    // SAFETY: a barrier: the interface's state is to be up to date (IHI 0069H, 4.1).
    unsafe { core::arch::asm!("dsb sy", options(nostack)) };
    id
}

/// ICC_EOIR1_EL1.
pub fn end(id: u32) {
    write_sysreg!("icc_eoir1_el1", u64::from(id));
}
