//! What a board has in place of generic timers.

use crate::{AllwinnerTimer, GlobalTimer};
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
    #[inline(always)]
    pub fn counter(&self) -> u64 {
        match self {
            // In line: a call would make its callers save registers, also where there is no such timer.
            Self::Global(timer) => timer.counter(),
            Self::Allwinner(timer) => timer.counter(),
        }
    }

    /// Raises this CPU's interrupt when the counter reaches `due`, maybe earlier if that is far ahead.
    pub fn set(&self, due: Deadline) {
        match self {
            Self::Global(timer) => timer.set(due),
            Self::Allwinner(timer) => timer.set(due),
        }
    }
}
