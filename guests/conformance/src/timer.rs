//! The generic timer.

/// CNTx_CTL: enabled.
pub const ENABLE: u64 = 1;
/// CNTx_CTL: the interrupt is masked.
pub const IMASK: u64 = 2;
/// CNTx_CTL: the condition is met.
pub const ISTATUS: u64 = 4;

/// How long anything may take before it counts as lost. Long: an emulator may stand still
/// for a while.
const PATIENCE_MS: u64 = 10_000;

/// The virtual counter.
pub fn now() -> u64 {
    // SAFETY: a barrier, so that the counter is not read too early.
    unsafe { core::arch::asm!("isb", options(nostack)) };
    read_sysreg!("cntvct_el0")
}

/// Ticks in so many microseconds.
pub fn microseconds(count: u64) -> u64 {
    read_sysreg!("cntfrq_el0").saturating_mul(count) / 1_000_000
}

/// Waits until `done`; `false` when patience is at its end.
pub fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let end = now() + microseconds(PATIENCE_MS * 1000);
    loop {
        if done() {
            return true;
        }
        if now() > end {
            return false;
        }
        core::hint::spin_loop();
    }
}

/// Lets so many microseconds pass.
pub fn spin(count: u64) {
    let end = now() + microseconds(count);
    while now() < end {
        core::hint::spin_loop();
    }
}
