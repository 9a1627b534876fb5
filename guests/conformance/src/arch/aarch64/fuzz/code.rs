//! Code that is made for one step.

use super::space::CODE;
use super::trip::SVC;
use core::sync::atomic::Ordering::Relaxed;

/// Puts these words where EL1 and EL0 can run them, with the way back behind them.
pub fn put(words: impl IntoIterator<Item = u32>) {
    let mut words = words.into_iter().chain([SVC, SVC, SVC]);
    for cell in &CODE.0 {
        let Some(low) = words.next() else { break };
        let high = words.next().unwrap_or(SVC);
        cell.store(u64::from(high) << 32 | u64::from(low), Relaxed);
    }
    synchronize_all();
}

/// Makes new instructions visible (DDI 0487, B2.4.4), whatever CTR_EL0 says of the lines: this is
/// about little code, and instructions of all of it.
pub fn synchronize_all() {
    for line in (CODE.address()..CODE.address() + 4096).step_by(64) {
        // SAFETY: cleaning loses nothing.
        unsafe { core::arch::asm!("dc cvau, {0}", in(reg) line, options(nostack)) };
    }
    // SAFETY: maintenance changes no instruction.
    unsafe { core::arch::asm!("dsb ish", "ic ialluis", "dsb ish", "isb", options(nostack)) };
}
