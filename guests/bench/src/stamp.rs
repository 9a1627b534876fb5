//! A guest that tells the hypervisor what time it has, so that who records its exits can hold both clocks against each other.
//!
//! It reads the counter right before and right after a call, and says each by the argument of a call that nobody knows. If
//! both have the same clock, the hypervisor takes the first of two calls after the first value and gives it back before the
//! second one.

use crate::arch::hvc;
use hanok_guest_runtime::timer;

/// No hypervisor has such a call: the range of numbers is that of services which do not exist (DEN0028, table 6-1). Bit 24 says that
/// it is the value after the call before, and the lower 24 bits are those of the counter.
const CALL: u64 = 0x4400_0000;
const AFTER: u64 = 1 << 24;
const BITS: u64 = AFTER - 1;
/// Ticks between two pairs.
const PAUSE: u64 = 10_000;

/// Tells pairs of values.
pub fn for_ever() -> ! {
    loop {
        let before = timer::now();
        hvc(1, CALL | before & BITS, 0);
        let after = timer::now();
        hvc(1, CALL | AFTER | after & BITS, 0);
        while timer::now().wrapping_sub(after) < PAUSE {
            core::hint::spin_loop();
        }
    }
}
