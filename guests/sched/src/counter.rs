//! Counts instructions.

/// INST_RETIRED: an instruction that was architecturally executed (DDI 0487, D14.11).
const INST_RETIRED: u64 = 0x08;
/// PMCR_EL0.E: the counters count.
const ENABLE: u64 = 1;

/// Whether this CPU counts instructions.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// It counts, and equal code gives equal counts.
    Exact,
    /// It does not count.
    Absent,
}

/// Enables the first event counter.
pub fn start() -> Counting {
    write_sysreg!("pmcr_el0", ENABLE);
    write_sysreg!("pmevtyper0_el0", INST_RETIRED);
    write_sysreg!("pmcntenset_el0", 1);
    let first = empty();
    // The count of nothing must be small, not zero, and always the same.
    if first > 0 && first < 32 && first == empty() {
        Counting::Exact
    } else {
        Counting::Absent
    }
}

#[inline(always)]
fn read() -> u64 {
    // SAFETY: a barrier; what comes before it is counted before, what comes after it after.
    unsafe { core::arch::asm!("isb") };
    read_sysreg!("pmevcntr0_el0")
}

fn empty() -> u64 {
    let start = read();
    read().wrapping_sub(start) & u64::from(u32::MAX)
}

/// The instructions of `what`, without those of counting.
#[inline(always)]
pub fn count<T>(what: impl FnOnce() -> T) -> (T, u64) {
    let start = read();
    let result = what();
    let counted = read().wrapping_sub(start) & u64::from(u32::MAX);
    (result, counted.saturating_sub(empty()))
}
