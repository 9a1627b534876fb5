//! The moments at which a VM's devices change their interrupt lines by themselves.
//!
//! Each device says when it is next due. The earliest of these moments is one atomic word, since
//! the pCPU reads it whenever it sets the hypervisor's timer. The first vCPU's pCPU is responsible
//! for it.

use hanok_config::MAX_SLOTS;
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::{AtomicU64, Ordering};
use hanok_types::Deadline;

/// Never: later than any value of the counter.
const NEVER: u64 = u64::MAX;

/// The moments, in counter ticks, at which a VM's devices are due.
#[derive(Debug)]
pub(crate) struct Alarms {
    /// The moment of each slot's device.
    each: Mutex<[u64; MAX_SLOTS]>,
    earliest: AtomicU64,
}

impl Alarms {
    /// No device is due.
    pub const fn new() -> Self {
        Self {
            each: Mutex::new([NEVER; MAX_SLOTS]),
            earliest: AtomicU64::new(NEVER),
        }
    }

    /// Clears all alarms.
    pub fn clear(&self) {
        let mut each = self.each.lock();
        *each = [NEVER; MAX_SLOTS];
        self.earliest.store(NEVER, Ordering::Relaxed);
    }

    /// Sets the alarm of the device in slot `index` to `due`. The caller holds the lock of that
    /// device, so that the last call is about its last state.
    pub fn set(&self, index: usize, due: Option<u64>) {
        let mut each = self.each.lock();
        if let Some(own) = each.get_mut(index) {
            *own = due.unwrap_or(NEVER);
        }
        let earliest = each.iter().copied().min().unwrap_or(NEVER);
        self.earliest.store(earliest, Ordering::Relaxed);
    }

    /// The moment at which the first device is due.
    #[inline]
    pub fn earliest(&self) -> Deadline {
        Deadline::at(self.earliest.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_of_all_devices_counts() {
        let alarms = Alarms::new();
        assert_eq!(alarms.earliest(), Deadline::NEVER);
        alarms.set(1, Some(500));
        alarms.set(3, Some(200));
        assert_eq!(alarms.earliest(), Deadline::at(200));
        alarms.set(3, None);
        assert_eq!(alarms.earliest(), Deadline::at(500));
        alarms.set(MAX_SLOTS, Some(1));
        assert_eq!(alarms.earliest(), Deadline::at(500));
        alarms.clear();
        assert_eq!(alarms.earliest(), Deadline::NEVER);
    }
}
