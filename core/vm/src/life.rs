//! A VM's life: loading, running, on its way to an end, ended, and round again.
//!
//! The number of vCPUs that are in the VM and the reason why it is to end share one word,
//! so that a vCPU can never come in while the last one leaves. The number of times that one
//! came in is in it too: who looks at the vCPUs' power states one by one can so tell that
//! nobody was there meanwhile to change them.

use hanok_hal::sync::atomic::{AtomicU32, Ordering};

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

/// What came of a wish for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: another one is under way, or there is no life to end.
    Refused,
    /// The vCPUs that are in the VM leave, and the last one carries it out. Or that one is about to
    /// carry out a reset, and finds in [`Life::begin_again`] that it is to be an end.
    Taken,
    /// Nobody is in the VM, and nobody comes in any more: who asked carries it out.
    Deserted,
}

const COUNT: u32 = 0xff;
const RUNNING: u32 = 0;
const RESET: u32 = 1 << 8;
const OFF: u32 = 2 << 8;
const STOPPED: u32 = 3 << 8;
const ENDED: u32 = 4 << 8;
const LOADING: u32 = 5 << 8;
const STATE: u32 = 0xff00;
const ENTRANCE: u32 = 1 << 16;

/// The state of a VM's life and how many vCPUs are in it.
#[derive(Debug)]
pub struct Life {
    word: AtomicU32,
    /// How many lives were begun, one that still loads included.
    number: AtomicU32,
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

impl Life {
    /// Not begun.
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(ENDED),
            number: AtomicU32::new(0),
        }
    }

    /// Which life this is, counted from 1; 0 before the first. A loading that was given up
    /// counts, so that who loads notices that another one was begun.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Acquire)
    }

    /// Whether its memory is being made.
    pub fn is_loading(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == LOADING
    }

    /// A life is to begin, in a VM that is over or was never begun: its memory is to be
    /// made. `false` where it has one.
    pub fn begin(&self) -> bool {
        let begun = self.turn(ENDED, LOADING);
        if begun {
            self.number.fetch_add(1, Ordering::AcqRel);
        }
        begun
    }

    /// The next life is to begin; for who carries a reset out. `false` where somebody turned the VM
    /// off meanwhile: then its end is to be carried out instead. The life that was to begin counts.
    #[must_use]
    pub fn begin_again(&self) -> bool {
        self.number.fetch_add(1, Ordering::AcqRel);
        self.turn(RESET, LOADING)
    }

    /// The memory is made: vCPUs may come in. `false` where the loading was given up.
    pub fn run(&self) -> bool {
        self.turn(LOADING, RUNNING)
    }

    /// Gives a loading up: the VM is over. `false` where it does not load.
    pub fn give_up(&self) -> bool {
        self.turn(LOADING, ENDED)
    }

    /// From one state to another; `false` where it is not in the first.
    fn turn(&self, from: u32, to: u32) -> bool {
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word & STATE == from).then_some(word & !STATE | to)
            })
            .is_ok()
    }

    /// Whether it runs: no end asked for.
    pub fn is_running(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == RUNNING
    }

    /// Whether it is over for good.
    pub fn is_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == ENDED
    }

    /// A vCPU comes in; `false` where the VM is ending or ended.
    pub fn enter(&self) -> bool {
        self.word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & STATE == RUNNING).then_some((state + 1).wrapping_add(ENTRANCE))
            })
            .is_ok()
    }

    /// A guest, or what befell it, asks for the end; the first to ask decides.
    pub fn begin_end(&self, ending: Ending) -> Wish {
        let wanted = match ending {
            Ending::Reset => RESET,
            Ending::Off => OFF,
            Ending::Stopped => STOPPED,
        };
        self.ask(|state, _| (state == RUNNING).then_some(wanted))
    }

    /// A person wants it off, which overrules a reset and a loading: a guest that resets in a loop
    /// cannot hide in its resets.
    pub fn turn_off(&self) -> Wish {
        self.ask(|state, _| matches!(state, RUNNING | RESET | LOADING).then_some(OFF))
    }

    /// A person wants a new life, which overrules a power-off that is not carried out yet, and
    /// nothing that stopped the VM. [`Wish::Deserted`]: it loads.
    pub fn start_anew(&self) -> Wish {
        let wish = self.ask(|state, somebody| match (state, somebody) {
            (RUNNING | OFF, true) | (RESET, _) => Some(RESET),
            (RUNNING | ENDED, false) => Some(LOADING),
            _ => None,
        });
        if wish == Wish::Deserted {
            self.number.fetch_add(1, Ordering::AcqRel);
        }
        wish
    }

    /// Goes to the state that `next` makes of the one that it is in, and of whether somebody is in
    /// the VM.
    fn ask(&self, next: impl Fn(u32, bool) -> Option<u32>) -> Wish {
        let asked = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                let next = next(word & STATE, word & COUNT > 0)?;
                Some(word & !STATE | next)
            });
        match asked {
            Err(_) => Wish::Refused,
            Ok(word) if word & COUNT == 0 && word & STATE != RESET => Wish::Deserted,
            Ok(_) => Wish::Taken,
        }
    }

    /// Stops a VM that is deserted: it runs, nobody is in it, and `all_off` finds that nobody
    /// can come in any more. Returns whether it was so, and the caller carries the ending
    /// out. If somebody came in while `all_off` looked, it was not.
    pub fn stop_deserted(&self, all_off: impl FnOnce() -> bool) -> bool {
        let state = self.word.load(Ordering::Acquire);
        let empty = state & (STATE | COUNT) == RUNNING;
        empty
            && all_off()
            && self
                .word
                .compare_exchange(state, state | STOPPED, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
    }

    /// A vCPU that was in leaves. Answers with how many are left, and the ending that is
    /// asked for, if any: who gets `(0, Some(_))` carries it out.
    pub fn leave(&self) -> (u32, Option<Ending>) {
        let state = self.word.fetch_sub(1, Ordering::AcqRel) - 1;
        let ending = match state & STATE {
            RESET => Some(Ending::Reset),
            OFF => Some(Ending::Off),
            STOPPED => Some(Ending::Stopped),
            _ => None,
        };
        (state & COUNT, ending)
    }

    /// It is over; for who carried the ending out.
    pub fn end(&self) {
        self.word.store(ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Life {
        let life = Life::new();
        assert!(life.is_ended() && life.begin() && life.is_loading() && life.run());
        life
    }

    #[test]
    fn the_last_to_leave_carries_the_ending_out() {
        let life = running();
        assert!(life.enter() && life.enter());
        assert_eq!(life.begin_end(Ending::Reset), Wish::Taken);
        let second = life.begin_end(Ending::Off);
        assert_eq!(second, Wish::Refused, "the first to ask decides");
        assert!(!life.enter(), "nobody comes in while it ends");
        assert_eq!(life.leave(), (1, Some(Ending::Reset)));
        assert_eq!(life.leave(), (0, Some(Ending::Reset)));
        assert!(life.begin_again());
        assert!(life.is_loading() && !life.enter() && life.number() == 2);
        assert!(life.run() && life.is_running() && life.enter());
    }

    #[test]
    fn who_ends_a_vm_that_nobody_is_in_carries_it_out() {
        let life = running();
        assert_eq!(life.begin_end(Ending::Off), Wish::Deserted);
        assert!(!life.enter(), "nobody comes in who could");
        assert!(!life.stop_deserted(|| true), "and nobody else does");
    }

    #[test]
    fn a_wish_that_insists_overrules_a_reset_at_any_moment() {
        let life = running();
        assert!(life.enter());
        assert_eq!(life.begin_end(Ending::Reset), Wish::Taken);
        assert_eq!(life.turn_off(), Wish::Taken);
        assert_eq!(life.leave(), (0, Some(Ending::Off)));
        let life = running();
        assert!(life.enter() && life.begin_end(Ending::Reset) == Wish::Taken);
        assert_eq!(life.leave(), (0, Some(Ending::Reset)));
        let late = life.turn_off();
        assert_eq!(late, Wish::Taken, "who carries the reset out sees it");
        assert!(!life.begin_again() && !life.is_loading(), "as here");
        life.end();
        assert!(life.is_ended() && !life.enter());
    }

    #[test]
    fn a_loading_is_turned_off_by_who_asks() {
        let life = running();
        assert!(life.enter() && life.begin_end(Ending::Reset) == Wish::Taken);
        assert_eq!(life.leave(), (0, Some(Ending::Reset)));
        assert!(life.begin_again());
        assert_eq!(life.start_anew(), Wish::Refused);
        assert_eq!(life.turn_off(), Wish::Deserted);
        assert!(!life.run(), "its memory is of no use any more");
    }

    #[test]
    fn leaving_a_running_vm_is_no_ending() {
        let life = running();
        life.enter();
        assert_eq!(life.leave(), (0, None));
        assert!(life.is_running());
    }

    #[test]
    fn only_a_deserted_vm_is_stopped_for_that() {
        let life = running();
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
        let life = running();
        for _ in 0..0x1_0001 {
            assert!(life.enter());
            assert_eq!(life.leave(), (0, None));
        }
        assert!(life.is_running());
    }

    #[test]
    fn what_ended_stays_ended_until_it_begins_again() {
        let life = running();
        assert!(!life.begin(), "it has a life");
        life.end();
        assert!(life.is_ended() && !life.enter());
        assert_eq!(life.begin_end(Ending::Reset), Wish::Refused);
        assert!(life.begin() && !life.enter());
        assert_eq!(life.begin_end(Ending::Off), Wish::Refused);
        assert!(life.give_up() && life.is_ended() && !life.run());
        assert!(life.begin() && life.run());
        assert_eq!(life.number(), 3);
        assert!(!life.give_up() && life.is_running());
    }
}
