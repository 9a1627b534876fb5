//! The generic timer.

/// CNTx_CTL: enabled.
pub const ENABLE: u64 = 1;
/// CNTx_CTL: the interrupt is masked.
pub const IMASK: u64 = 2;
/// CNTx_CTL: the condition is met.
pub const ISTATUS: u64 = 4;

/// The time in milliseconds after which an event counts as lost. It is long, because an emulator
/// may stand still for a while.
pub const PATIENCE_MS: u64 = 10_000;

/// The virtual counter.
pub fn now() -> u64 {
    // SAFETY: a barrier, so that the counter is not read too early.
    unsafe { core::arch::asm!("isb", options(nostack)) };
    read_sysreg!("cntvct_el0")
}

/// Ticks of the counter in a second.
pub fn frequency() -> u64 {
    read_sysreg!("cntfrq_el0")
}

/// Ticks in so many microseconds.
pub fn microseconds(count: u64) -> u64 {
    frequency().saturating_mul(count) / 1_000_000
}

/// The virtual timer fires when the counter reaches `at`.
pub fn fire_at(at: u64) {
    write_sysreg!("cntv_cval_el0", at);
    write_sysreg!("cntv_ctl_el0", ENABLE);
}

/// The virtual timer never fires.
pub fn stop() {
    write_sysreg!("cntv_ctl_el0", 0);
}

/// How often a waiting CPU checks before it reads the clock: on an emulator the clock may be behind
/// a lock that the awaited CPU needs.
const LOOKS: usize = 64;

/// Waits until `done`, for at most [`PATIENCE_MS`]. Returns whether it is done.
pub fn wait_until(done: impl FnMut() -> bool) -> bool {
    wait_until_us(PATIENCE_MS * 1000, done)
}

/// Waits until `done`, for at most `count` microseconds. Returns whether it is done.
pub fn wait_until_us(count: u64, mut done: impl FnMut() -> bool) -> bool {
    let end = now() + microseconds(count);
    while now() <= end {
        for _ in 0..LOOKS {
            if done() {
                return true;
            }
            relax();
        }
    }
    false
}

/// Lets other CPUs run first: YIELD, which an emulator obeys, unlike the ISB of
/// `core::hint::spin_loop`.
pub fn relax() {
    // SAFETY: a hint.
    unsafe { core::arch::asm!("yield", options(nostack)) };
}

/// Waits for `count` microseconds.
pub fn spin(count: u64) {
    let end = now() + microseconds(count);
    while now() < end {
        relax();
    }
}
