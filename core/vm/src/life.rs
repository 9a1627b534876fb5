//! A VM's life: running, on its way to an end, ended.
//!
//! The number of vCPUs that are in the VM and the reason why it is to end share one word,
//! so that a vCPU can never come in while the last one leaves. The number of times that one
//! came in is in it too: who looks at the vCPUs' power states one by one can so tell that
//! nobody was there meanwhile to change them.

use core::sync::atomic::{AtomicU32, Ordering};

/// What becomes of a VM once its last vCPU has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It starts afresh.
    Reset,
    /// It is off (the guest's own wish).
    Off,
    /// It is stopped for what it did, or for what befell it.
    Stopped,
}

const COUNT: u32 = 0xff;
const RUNNING: u32 = 0;
const RESET: u32 = 1 << 8;
const OFF: u32 = 2 << 8;
const STOPPED: u32 = 3 << 8;
const ENDED: u32 = 4 << 8;
const STATE: u32 = 0xff00;
const ENTRANCE: u32 = 1 << 16;

/// The state of a VM's life and how many vCPUs are in it.
#[derive(Debug, Default)]
pub struct Life(AtomicU32);

impl Life {
    /// Running, nobody in it yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(RUNNING))
    }

    /// Whether it runs: no end asked for.
    pub fn is_running(&self) -> bool {
        self.0.load(Ordering::Acquire) & STATE == RUNNING
    }

    /// Whether it is over for good.
    pub fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire) & STATE == ENDED
    }

    /// A vCPU comes in; `false` where the VM is ending or ended.
    pub fn enter(&self) -> bool {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & STATE == RUNNING).then_some((state + 1).wrapping_add(ENTRANCE))
            })
            .is_ok()
    }

    /// Asks for the end; the first to ask decides. Returns whether that was this call.
    pub fn begin_end(&self, ending: Ending) -> bool {
        let wanted = match ending {
            Ending::Reset => RESET,
            Ending::Off => OFF,
            Ending::Stopped => STOPPED,
        };
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & STATE == RUNNING).then_some(state | wanted)
            })
            .is_ok()
    }

    /// Stops a VM that is deserted: it runs, nobody is in it, and `all_off` finds that nobody
    /// can come in any more. Returns whether it was so, and the caller carries the ending
    /// out. If somebody came in while `all_off` looked, it was not.
    pub fn stop_deserted(&self, all_off: impl FnOnce() -> bool) -> bool {
        let state = self.0.load(Ordering::Acquire);
        let empty = state & (STATE | COUNT) == RUNNING;
        empty
            && all_off()
            && self
                .0
                .compare_exchange(state, state | STOPPED, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// A vCPU that was in leaves. Answers with how many are left, and the ending that is
    /// asked for, if any: who gets `(0, Some(_))` carries it out.
    pub fn leave(&self) -> (u32, Option<Ending>) {
        let state = self.0.fetch_sub(1, Ordering::AcqRel) - 1;
        let ending = match state & STATE {
            RESET => Some(Ending::Reset),
            OFF => Some(Ending::Off),
            STOPPED => Some(Ending::Stopped),
            _ => None,
        };
        (state & COUNT, ending)
    }

    /// A new life begins; for who carried a reset out.
    pub fn restart(&self) {
        self.0.store(RUNNING, Ordering::Release);
    }

    /// It is over; for who carried the ending out.
    pub fn end(&self) {
        self.0.store(ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_leave_carries_the_ending_out() {
        let life = Life::new();
        assert!(life.enter() && life.enter());
        assert!(life.begin_end(Ending::Reset));
        assert!(!life.begin_end(Ending::Off), "the first to ask decides");
        assert!(!life.enter(), "nobody comes in while it ends");
        assert_eq!(life.leave(), (1, Some(Ending::Reset)));
        assert_eq!(life.leave(), (0, Some(Ending::Reset)));
        life.restart();
        assert!(life.is_running() && life.enter());
    }

    #[test]
    fn leaving_a_running_vm_is_no_ending() {
        let life = Life::new();
        life.enter();
        assert_eq!(life.leave(), (0, None));
        assert!(life.is_running());
    }

    #[test]
    fn only_a_deserted_vm_is_stopped_for_that() {
        let life = Life::new();
        assert!(!life.stop_deserted(|| false));
        let meanwhile = || {
            // Somebody comes, starts another and goes, while the power states are looked at.
            assert!(life.enter());
            life.leave();
            true
        };
        assert!(!life.stop_deserted(meanwhile));
        life.enter();
        assert!(!life.stop_deserted(|| true), "somebody is in it");
        life.leave();
        assert!(life.stop_deserted(|| true));
        assert!(!life.stop_deserted(|| true), "once is enough");
        assert!(!life.is_running() && !life.enter());
    }

    #[test]
    fn coming_in_without_end_wraps_nothing_else() {
        let life = Life::new();
        for _ in 0..0x1_0001 {
            assert!(life.enter());
            assert_eq!(life.leave(), (0, None));
        }
        assert!(life.is_running());
    }

    #[test]
    fn what_ended_stays_ended() {
        let life = Life::new();
        life.end();
        assert!(life.is_ended() && !life.enter() && !life.begin_end(Ending::Reset));
    }
}
