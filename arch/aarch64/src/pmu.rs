//! The CPU's counter of the hypervisor's own instructions.
//!
//! The highest event counter is EL2's (MDCR_EL2.HPMN leaves it out of the guest's part, and
//! guests have no PMU at all): INST_RETIRED, filtered to EL2 (DDI 0487, D13.11 and
//! "PMEVTYPER<n>_EL0"). A CPU without a PMU or without that event counts nothing.

use crate::{read, write};

/// INST_RETIRED.
const EVENT: u64 = 0x08;
/// Not in EL1, not in EL0, but in EL2 (P, U, NSH).
const EL2_ALONE: u64 = 1 << 31 | 1 << 30 | 1 << 27;

/// The number of event counters (PMCR_EL0.N), where there is a PMU.
pub fn event_counters() -> u64 {
    let version = read!("id_aa64dfr0_el1") >> 8 & 0xf;
    if version == 0 || version == 0xf {
        0
    } else {
        read!("pmcr_el0") >> 11 & 0x1f
    }
}

/// Whether this CPU counts instructions.
pub fn counts() -> bool {
    event_counters() > 0 && read!("pmceid0_el0") >> EVENT & 1 != 0
}

/// Starts EL2's counter on this CPU; MDCR_EL2 has been set.
pub fn start() {
    let Some(ours) = event_counters().checked_sub(1) else {
        return;
    };
    write!("pmselr_el0", ours);
    crate::sysreg::isb();
    write!("pmxevtyper_el0", EVENT | EL2_ALONE);
    write!("pmxevcntr_el0", 0);
    write!("pmintenclr_el1", u64::MAX >> 32);
    write!("pmcntenset_el0", 1 << ours);
    crate::sysreg::isb();
}

/// What it shows, modulo 2^32. PMSELR_EL0 stays as [`start`] left it, as guests' accesses
/// to it exit.
#[inline(always)]
pub fn read_instructions() -> u32 {
    read!("pmxevcntr_el0") as u32
}
