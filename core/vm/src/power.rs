//! The power states of vCPUs (PSCI's view of CPUs, DEN0022F 5).

use hanok_hal::Entry;
use hanok_hal::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const OFF: u8 = 0;
const CLAIMED: u8 = 1;
const PENDING: u8 = 2;
const ON: u8 = 3;

/// The reason why a vCPU is not started.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRefused {
    /// The vCPU is on (PSCI's ALREADY_ON).
    AlreadyOn,
    /// Another start of the vCPU is under way (PSCI's ON_PENDING).
    OnPending,
}

/// The power state of one vCPU, which any pCPU may read and change.
///
/// Off -> claimed (by a CPU_ON that writes the entry) -> pending (the entry is valid) -> on (the
/// vCPU's own pCPU took the entry) -> off (by the vCPU's own CPU_OFF, or the VM's end).
#[derive(Debug)]
pub struct Power {
    state: AtomicU8,
    pc: AtomicU64,
    argument: AtomicU64,
}

impl Power {
    /// The state off.
    pub const fn new() -> Self {
        Self {
            state: AtomicU8::new(OFF),
            pc: AtomicU64::new(0),
            argument: AtomicU64::new(0),
        }
    }

    /// Asks the vCPU's own pCPU to start the vCPU at `entry`. Refused if the vCPU is not off.
    pub fn start(&self, entry: Entry) -> Result<(), StartRefused> {
        let claim = self
            .state
            .compare_exchange(OFF, CLAIMED, Ordering::Acquire, Ordering::Acquire);
        if let Err(state) = claim {
            return Err(if state == ON {
                StartRefused::AlreadyOn
            } else {
                StartRefused::OnPending
            });
        }
        self.pc.store(entry.pc, Ordering::Relaxed);
        self.argument.store(entry.argument, Ordering::Relaxed);
        self.state.store(PENDING, Ordering::Release);
        Ok(())
    }

    /// Takes the entry of a requested start. The vCPU is on from then. For the vCPU's own pCPU.
    pub fn take_start(&self) -> Option<Entry> {
        if self.state.load(Ordering::Acquire) != PENDING {
            return None;
        }
        let entry = Entry {
            pc: self.pc.load(Ordering::Relaxed),
            argument: self.argument.load(Ordering::Relaxed),
        };
        self.state.store(ON, Ordering::Release);
        Some(entry)
    }

    /// Turns the vCPU off, whatever its state.
    pub fn turn_off(&self) {
        self.state.store(OFF, Ordering::Release);
    }

    /// Whether the vCPU is on.
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) == ON
    }

    /// Whether a start was requested that the vCPU's pCPU has not taken yet.
    pub fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == PENDING
    }

    /// Whether the vCPU is off and no start is under way.
    pub fn is_off(&self) -> bool {
        self.state.load(Ordering::Acquire) == OFF
    }

    /// AFFINITY_INFO's answer: 0 on, 1 off, 2 on pending.
    pub fn affinity_info(&self) -> i64 {
        match self.state.load(Ordering::Acquire) {
            ON => 0,
            OFF => 1,
            _ => 2,
        }
    }
}

impl Default for Power {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry = Entry {
        pc: 0x4000_0000,
        argument: 7,
    };

    /// AFFINITY_INFO's answers are those of DEN0022F 5.7: 0 on, 1 off, 2 on pending.
    #[test]
    fn it_is_in_one_state_at_a_time() {
        let power = Power::new();
        let states = |power: &Power| {
            let each = [power.is_on(), power.is_off(), power.is_pending()];
            (each, power.affinity_info())
        };
        assert_eq!(states(&power), ([false, true, false], 1));
        power.start(ENTRY).unwrap();
        assert_eq!(states(&power), ([false, false, true], 2));
        power.take_start().unwrap();
        assert_eq!(states(&power), ([true, false, false], 0));
        power.turn_off();
        assert_eq!(states(&power), ([false, true, false], 1));
        // Another vCPU is still writing its entry: this start cannot be taken yet.
        power.state.store(CLAIMED, Ordering::Relaxed);
        assert_eq!(states(&power), ([false; 3], 2));
        assert_eq!(power.take_start(), None);
    }

    #[test]
    fn a_second_start_is_refused_until_it_is_off_again() {
        let power = Power::new();
        assert_eq!(power.start(ENTRY), Ok(()));
        let pending = Err(StartRefused::OnPending);
        assert_eq!((power.start(ENTRY), power.affinity_info()), (pending, 2));
        assert_eq!(power.take_start(), Some(ENTRY));
        let on = Err(StartRefused::AlreadyOn);
        assert_eq!((power.start(ENTRY), power.affinity_info()), (on, 0));
        assert_eq!(power.take_start(), None);
        power.turn_off();
        assert_eq!((power.start(ENTRY), power.is_on()), (Ok(()), false));
    }
}
