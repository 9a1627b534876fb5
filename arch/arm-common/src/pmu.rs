//! The CPU's counter of the hypervisor's own instructions.
//!
//! The highest event counter is EL2's, or Hyp mode's: MDCR_EL2.HPMN leaves it out of the guest's
//! part, and guests have no PMU at all. It counts INST_RETIRED there alone (DDI 0487, D13.11 and
//! "PMEVTYPER<n>_EL0"; DDI 0406C, C12.8 and "PMXEVTYPER"). A CPU without a PMU, with a single
//! counter or without that event counts nothing. Neither does one whose hypervisor runs at PL1: its counters are
//! not split, and ARMv7's Cortex-A9 could not tell PL1 from User mode.

use crate::controls::Mdcr;
use crate::privilege::is_deprivileged;
use crate::{read, write};

/// INST_RETIRED.
const EVENT: u64 = 0x08;
/// Not in EL1, not in EL0, but in EL2 (P, U, NSH).
const EL2_ALONE: u64 = 1 << 31 | 1 << 30 | 1 << 27;

/// Whether the CPU has a PMU of the architecture (ID_AA64DFR0_EL1.PMUVer).
#[cfg(target_arch = "aarch64")]
fn has_pmu() -> bool {
    !matches!(read!("id_aa64dfr0_el1") >> 8 & 0xf, 0 | 0xf)
}

/// Whether it has a PMU that filters: PMUv2 or later (ID_DFR0.PerfMon).
#[cfg(target_arch = "arm")]
fn has_pmu() -> bool {
    (2..0xf).contains(&(read!("id_dfr0_el1") >> 24 & 0xf))
}

/// The number of event counters (PMCR_EL0.N), where there is a PMU.
fn event_counters() -> u64 {
    if has_pmu() {
        read!("pmcr_el0") >> 11 & 0x1f
    } else {
        0
    }
}

/// The number of the hypervisor's own counter, if the CPU has so many. A single counter cannot be used, as
/// the guest's part must have at least one.
const fn own_of(counters: u64) -> Option<u64> {
    match counters {
        0 | 1 => None,
        _ => Some(counters - 1),
    }
}

/// MDCR_EL2 with the counters below HPMN in the guest's part, and the hypervisor's enabled. HPMN zero is
/// reserved (without FEAT_HPMN0; DDI 0406C, B4.1.66), so on a CPU with one counter that one is the guest's.
const fn fence_of(counters: u64) -> Mdcr {
    match own_of(counters) {
        Some(ours) => Mdcr::HPME.union(Mdcr::from_bits_retain(ours)),
        None => Mdcr::from_bits_retain(counters),
    }
}
const _: () = {
    const HPMN: u64 = 0x1f;
    assert!(fence_of(1).bits() & HPMN == 1 && fence_of(2).bits() & HPMN == 1);
    assert!(fence_of(31).bits() & HPMN == 30 && fence_of(31).contains(Mdcr::HPME));
};

/// The fields of MDCR_EL2 for this CPU's counters.
pub fn fence() -> Mdcr {
    fence_of(event_counters())
}

/// Whether this CPU counts instructions. It is found by a trial, as not every CPU with a PMU has PMCEID0,
/// which says whether the event exists (QEMU's models of Cortex-A7 and A15 do not).
pub fn counts() -> bool {
    if is_deprivileged() || own_of(event_counters()).is_none() {
        return false;
    }
    write!("mdcr_el2", fence().bits());
    start();
    let before = read_instructions();
    crate::sysreg::isb();
    before != read_instructions()
}

/// Starts the counter on this CPU; MDCR_EL2 has been set.
pub fn start() {
    let Some(ours) = own_of(event_counters()) else {
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

/// The value of the counter, modulo 2^32. PMSELR_EL0 stays as [`start`] left it, as guests' accesses to it
/// exit. A CPU without a counter has no such register either, and it is not accessed there.
#[inline(always)]
pub fn read_instructions() -> u32 {
    read!("pmxevcntr_el0") as u32
}
