//! The CPU's counter of the hypervisor's own instructions.
//!
//! As in the 64-bit backend: the highest event counter is Hyp mode's (HDCR.HPMN leaves it out
//! of the guest's part), INST_RETIRED, filtered to Hyp mode (DDI 0406C, C12.8 and "PMXEVTYPER").
//! A CPU without a PMUv2 or without that event counts nothing.

use crate::{read, write};

/// INST_RETIRED.
const EVENT: u64 = 0x08;
/// Not at PL1, not at PL0, but in Hyp mode (P, U, NSH).
const HYP_ALONE: u64 = 1 << 31 | 1 << 30 | 1 << 27;

/// The number of event counters (PMCR.N), where there is a PMU that filters (PMUv2).
pub fn event_counters() -> u64 {
    let version = read!("id_dfr0_el1") >> 24 & 0xf;
    if (2..0xf).contains(&version) {
        read!("pmcr_el0") >> 11 & 0x1f
    } else {
        0
    }
}

/// Whether this CPU counts instructions: found by trying, as not every CPU with a PMU has
/// PMCEID0, which tells of the event (QEMU's models of Cortex-A7 and A15 do not).
pub fn counts() -> bool {
    if event_counters() == 0 {
        return false;
    }
    write!("mdcr_el2", crate::traps::Features::detect().mdcr());
    start();
    let before = read_instructions();
    crate::sysreg::isb();
    before != read_instructions()
}

/// Starts Hyp mode's counter on this CPU; HDCR has been set.
pub fn start() {
    let Some(ours) = event_counters().checked_sub(1) else {
        return;
    };
    write!("pmselr_el0", ours);
    crate::sysreg::isb();
    write!("pmxevtyper_el0", EVENT | HYP_ALONE);
    write!("pmxevcntr_el0", 0);
    write!("pmintenclr_el1", u64::MAX >> 32);
    write!("pmcntenset_el0", 1 << ours);
    crate::sysreg::isb();
}

/// What it shows, modulo 2^32. PMSELR stays as [`start`] left it, as guests' accesses to it
/// exit. A CPU without a counter has no such register either, and nobody asks there.
#[inline(always)]
pub fn read_instructions() -> u32 {
    read!("pmxevcntr_el0") as u32
}
