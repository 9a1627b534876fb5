//! Barriers and hints, which both instruction sets have by the same names.

/// Instruction synchronization barrier (DDI 0487, C6.2 "ISB"; DDI 0406C, A8.8.53).
#[inline(always)]
pub fn isb() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("isb", options(nostack, preserves_flags)) };
}

/// Data synchronization barrier, full system.
#[inline(always)]
pub fn dsb_sy() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Data synchronization barrier, inner shareable.
#[inline(always)]
pub fn dsb_ish() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// Says that this CPU waits for another one (DDI 0487, C6.2 "YIELD"; DDI 0406C, A8.8.426): an emulator that runs
/// them in turn goes on with the next.
pub fn pause() {
    // SAFETY: a hint.
    unsafe { core::arch::asm!("yield", options(nostack, preserves_flags)) };
}

/// Sleeps until an interrupt is pending for this CPU, masked or not.
pub fn wait_for_interrupt() {
    dsb_sy();
    // SAFETY: a hint; the CPU goes on by itself at the next interrupt.
    unsafe { core::arch::asm!("wfi", options(nostack, preserves_flags)) };
}

/// Wakes every CPU that waits for an event, after what was written before it is visible.
pub fn wake_all() {
    dsb_sy();
    // SAFETY: a hint.
    unsafe { core::arch::asm!("sev", options(nostack, preserves_flags)) };
}

/// Tells the CPU, and an emulator beneath it, that this loop waits for another CPU.
pub fn yield_now() {
    // SAFETY: a hint.
    unsafe { core::arch::asm!("yield", options(nostack, preserves_flags, nomem)) };
}
