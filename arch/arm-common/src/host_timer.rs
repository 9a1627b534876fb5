//! What a board has in place of generic timers.

use crate::{AllwinnerTimer, GlobalTimer};
use core::arch::{asm, naked_asm};
use hanok_types::Deadline;

/// A counter, and a timer that interrupts each CPU when something is due there.
#[derive(Debug)]
pub enum HostTimer {
    /// The global timer of Cortex-A5 and A9.
    Global(GlobalTimer),
    /// An Allwinner A10's timers.
    Allwinner(AllwinnerTimer),
}

impl HostTimer {
    /// The counter's value.
    ///
    /// A usual call would make its callers save registers, also where there is no such timer; and there are some
    /// forty of them, too many for the code in line.
    #[inline(always)]
    pub fn counter(&self) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: `saving_counter` keeps all registers but those named or saved here, and uses a few words of the stack.
        unsafe {
            asm!(
                "push {{r2, lr}}",
                "bl {counter}",
                "pop {{r2, lr}}",
                counter = sym saving_counter,
                inlateout("r0") core::ptr::from_ref(self) => low,
                lateout("r1") high,
            );
        }
        u64::from(high) << 32 | u64::from(low)
    }

    /// Raises this CPU's interrupt when the counter reaches `due`, maybe earlier if that is far ahead.
    pub fn set(&self, due: Deadline) {
        match self {
            Self::Global(timer) => timer.set(due),
            Self::Allwinner(timer) => timer.set(due),
        }
    }
}

/// [`read`], which keeps the registers that a call may change but for R0, R1, R2 and LR.
///
/// # Safety
/// As for a reference.
#[unsafe(naked)]
unsafe extern "C" fn saving_counter(timer: *const HostTimer) -> u64 {
    naked_asm!(
        "push {{r3, r4, r12, lr}}",
        "bl {read}",
        "pop {{r3, r4, r12, pc}}",
        read = sym read,
    );
}

extern "C" fn read(timer: &HostTimer) -> u64 {
    match timer {
        HostTimer::Global(timer) => timer.counter(),
        HostTimer::Allwinner(timer) => timer.counter(),
    }
}
