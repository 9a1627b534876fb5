//! The board's PL031 real-time clock, read once at boot.

use hanok_types::Hva;

/// Seconds since 1970 that the PL031 at `base` shows (RTCDR, DDI 0224, 3.3.1).
///
/// # Safety
/// `base` is a PL031's register frame, mapped as device memory.
pub unsafe fn seconds(base: Hva) -> u32 {
    // SAFETY: the data register is the frame's first word; reading it has no effect.
    unsafe { (base.get() as *const u32).read_volatile() }
}
