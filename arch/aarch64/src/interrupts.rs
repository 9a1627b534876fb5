//! This CPU's physical interrupts, by the GICv3 system registers.
//!
//! EOI mode 1: ending an interrupt drops its priority, deactivating it is a step of its own,
//! so that a guest can do it for the interrupts it was handed (IHI 0069H, 4.8.1).

use crate::{read, write};
use hanok_types::IntId;

/// The SGI by which one pCPU makes another look up.
pub const KICK: IntId = IntId::new(0);

/// Turns the interface on: all priorities, group 1, EOI mode 1.
pub fn init_cpu_interface() {
    // SRE, no bypass, EL1 may use the (virtual) interface.
    write!("icc_sre_el2", 0b1111);
    crate::sysreg::isb();
    write!("icc_ctlr_el1", 1 << 1);
    write!("icc_pmr_el1", 0xff);
    write!("icc_bpr1_el1", 0);
    write!("icc_igrpen1_el1", 1);
    crate::sysreg::isb();
}

/// Takes the pending interrupt of the highest priority, if there is one.
#[inline(always)]
pub fn acknowledge() -> Option<IntId> {
    let id = read!("icc_iar1_el1") as u32;
    (id < 1020).then(|| IntId::new(id))
}

/// Drops its priority.
#[inline(always)]
pub fn drop_priority(interrupt: IntId) {
    write!("icc_eoir1_el1", u64::from(interrupt.get()));
}

/// Deactivates it, so that it can come again.
#[inline(always)]
pub fn deactivate(interrupt: IntId) {
    write!("icc_dir_el1", u64::from(interrupt.get()));
}

/// Sends the kick to the CPU with `mpidr`.
pub fn kick(mpidr: u64) {
    let affinity = |level: u32| mpidr >> level & 0xff;
    let (aff0, aff1, aff2, aff3) = (affinity(0), affinity(8), affinity(16), affinity(32));
    let value = aff3 << 48
        | (aff0 >> 4) << 44
        | aff2 << 32
        | u64::from(KICK.get()) << 24
        | aff1 << 16
        | 1 << (aff0 & 0xf);
    // What was written for the other CPU is visible before it is woken.
    crate::sysreg::dsb_ish();
    write!("icc_sgi1r_el1", value);
    crate::sysreg::isb();
}
