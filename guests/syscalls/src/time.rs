//! Clocks.

use crate::error::{Errno, Result};
use crate::raw;

/// CLOCK_MONOTONIC.
const MONOTONIC: usize = 1;
/// CLOCK_THREAD_CPUTIME_ID.
const THREAD: usize = 3;
/// TIMER_ABSTIME.
const ABSOLUTE: usize = 1;
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the kernel's monotonic clock, if there is one.
pub fn monotonic() -> Option<u64> {
    clock(MONOTONIC)
}

/// The CPU time of the calling thread in nanoseconds, as Linux sees it: time for which the hypervisor ran others
/// instead is in it.
pub fn of_thread() -> Option<u64> {
    clock(THREAD)
}

fn clock(number: usize) -> Option<u64> {
    let mut time = [0_u64; 2];
    let arguments = [number, time.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: it writes seconds and nanoseconds, of 64 bits both.
    let answer = unsafe { raw::call(raw::CLOCK_GETTIME, arguments) };
    (answer == 0).then(|| time[0] * SECOND + time[1])
}

/// Sleeps until an instant of [`monotonic`].
pub fn sleep_until(instant: u64) -> Result<()> {
    let time = [instant / SECOND, instant % SECOND];
    let arguments = [MONOTONIC, ABSOLUTE, time.as_ptr() as usize, 0, 0, 0];
    loop {
        // SAFETY: it reads the time.
        match unsafe { raw::checked(raw::CLOCK_NANOSLEEP, arguments) } {
            Err(Errno::INTR) => {}
            answer => return answer.map(|_| ()),
        }
    }
}
