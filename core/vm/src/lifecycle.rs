//! A VM's lifecycle: each boot of a VM loads, runs, is asked to end, and has ended.
//!
//! | event \ state | `ENDED` | `LOADING` | `RUNNING` | `RESET` | `OFF` | `STOPPED` |
//! |---|---|---|---|---|---|---|
//! | [`begin`](Lifecycle::begin) | `LOADING` | - | - | - | - | - |
//! | [`run`](Lifecycle::run) | - | `RUNNING` | - | - | - | - |
//! | [`give_up`](Lifecycle::give_up) | - | `ENDED` | - | - | - | - |
//! | [`load_after_reset`](Lifecycle::load_after_reset) | - | - | - | `LOADING` | - | - |
//! | [`enter`](Lifecycle::enter) | - | - | `RUNNING` | - | - | - |
//! | [`begin_end`](Lifecycle::begin_end) | - | - | `RESET`, `OFF` or `STOPPED`, as asked | - | - | - |
//! | [`turn_off`](Lifecycle::turn_off) | - | `OFF` | `OFF` | `OFF` | - | - |
//! | [`start_anew`](Lifecycle::start_anew), a vCPU is in | - | - | `RESET` | `RESET` | `RESET` | - |
//! | [`start_anew`](Lifecycle::start_anew), none is in | `LOADING` | - | `LOADING` | `RESET` | - | - |
//! | [`stop_deserted`](Lifecycle::stop_deserted), none is in | - | - | `STOPPED` | - | - | - |
//! | [`end`](Lifecycle::end) | `ENDED` | `ENDED` | `ENDED` | `ENDED` | `ENDED` | `ENDED` |
//!
//! `-`: the event is refused and the state stays. [`leave`](Lifecycle::leave) changes no state.
//!
//! Who may cause which event: the pCPU of the first vCPU calls `run` after it has loaded the memory. A
//! guest, or a fault of it, causes `begin_end`; a command at the prompt causes `turn_off` and `start_anew`.
//! A vCPU's own pCPU calls `enter` and `leave` for that vCPU. The pCPU whose vCPU left last, or the caller
//! whose `begin_end` or `turn_off` was answered with [`Wish::Deserted`], carries the ending out: only it
//! calls `load_after_reset` and `end`.
//!
//! The number of vCPUs in the VM and the state share one word, so that no vCPU can enter while the
//! last one leaves. The word also counts the entries of vCPUs: a caller that reads the vCPUs' power
//! states one by one can thereby see whether a vCPU entered meanwhile and may have changed them.

use hanok_hal::sync::atomic::{AtomicU32, Ordering};

/// What happens to a VM once its last vCPU has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It boots again.
    Reset,
    /// It is off, because the guest asked for that.
    Off,
    /// It is stopped, because of a fault of the guest or in its memory.
    Stopped,
}

/// The answer to an event of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Transition {
    /// The event has happened.
    Made,
    /// The event was refused, and the state is as before.
    Refused,
}

impl Transition {
    #[inline(always)]
    fn made(made: bool) -> Self {
        if made { Self::Made } else { Self::Refused }
    }

    /// Whether the event has happened.
    #[inline(always)]
    pub fn is_made(self) -> bool {
        self == Self::Made
    }
}

/// The outcome of a wish that the VM ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing changes: another ending is under way, or no boot is there to end.
    Refused,
    /// The vCPUs that are in the VM leave, and the last one carries the ending out. Or the last one
    /// is about to carry out a reset, and finds in [`Lifecycle::load_after_reset`] that it must
    /// carry out an end.
    Taken,
    /// No vCPU is in the VM, and none can enter any more: the caller carries the ending out.
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

/// The state of a VM, and the number of vCPUs in it.
#[derive(Debug)]
pub struct Lifecycle {
    word: AtomicU32,
    /// The number of boots that were begun, including one that is still loading.
    number: AtomicU32,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

impl Lifecycle {
    /// The lifecycle of a VM that never booted.
    pub const fn new() -> Self {
        Self {
            word: AtomicU32::new(ENDED),
            number: AtomicU32::new(0),
        }
    }

    /// The number of this boot, counted from 1; 0 before the first. A loading that was given up
    /// counts, so that the pCPU that loads notices when another boot has begun.
    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Acquire)
    }

    /// Whether the VM's memory is being loaded.
    pub fn is_loading(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == LOADING
    }

    /// Begins a boot of a VM that has ended or never booted: its memory is to be loaded. Refused if
    /// a boot is under way.
    pub fn begin(&self) -> Transition {
        let begun = self.change(ENDED, LOADING);
        if begun.is_made() {
            self.number.fetch_add(1, Ordering::AcqRel);
        }
        begun
    }

    /// Begins the next boot; for the pCPU that carries a reset out. Refused if a command turned the VM off
    /// meanwhile: then the caller carries out the VM's end instead. The boot that was to begin counts.
    pub fn load_after_reset(&self) -> Transition {
        self.number.fetch_add(1, Ordering::AcqRel);
        self.change(RESET, LOADING)
    }

    /// The memory is loaded, and vCPUs may enter. Refused if the loading was given up.
    pub fn run(&self) -> Transition {
        self.change(LOADING, RUNNING)
    }

    /// Gives a loading up: the VM has ended. Refused if it is not loading.
    pub fn give_up(&self) -> Transition {
        self.change(LOADING, ENDED)
    }

    /// Changes the state from `from` to `to`. Refused if the state is not `from`.
    fn change(&self, from: u32, to: u32) -> Transition {
        let changed = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
                (word & STATE == from).then_some(word & !STATE | to)
            });
        Transition::made(changed.is_ok())
    }

    /// Whether the VM runs, and no end is asked for.
    pub fn is_running(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == RUNNING
    }

    /// Whether the VM has ended and no reset follows.
    pub fn is_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & STATE == ENDED
    }

    /// A vCPU enters. Refused if the VM does not run.
    pub fn enter(&self) -> Transition {
        let entered = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                (state & STATE == RUNNING).then_some((state + 1).wrapping_add(ENTRANCE))
            });
        Transition::made(entered.is_ok())
    }

    /// A guest, or a fault of it, asks for the end. The first one to ask decides.
    pub fn begin_end(&self, ending: Ending) -> Wish {
        let wanted = match ending {
            Ending::Reset => RESET,
            Ending::Off => OFF,
            Ending::Stopped => STOPPED,
        };
        self.ask(|state, _| (state == RUNNING).then_some(wanted))
    }

    /// A command turns the VM off. This overrules a reset and a loading, so that a guest that resets in a
    /// loop cannot avoid it.
    pub fn turn_off(&self) -> Wish {
        self.ask(|state, _| matches!(state, RUNNING | RESET | LOADING).then_some(OFF))
    }

    /// A command asks for a new boot. This overrules a power-off that is not carried out yet, but not a
    /// stop. After [`Wish::Deserted`] the VM is loading.
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

    /// Changes the state to the one that `next` makes of the current one, and of whether a vCPU is
    /// in the VM.
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

    /// Stops a VM that runs, if no vCPU is in it and `all_off` finds that none can enter any more.
    /// Then the caller carries the ending out. Refused if that is not so, or if a vCPU entered
    /// while `all_off` read the power states.
    pub fn stop_deserted(&self, all_off: impl FnOnce() -> bool) -> Transition {
        let state = self.word.load(Ordering::Acquire);
        let empty = state & (STATE | COUNT) == RUNNING;
        let stopped = empty
            && all_off()
            && self
                .word
                .compare_exchange(state, state | STOPPED, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        Transition::made(stopped)
    }

    /// A vCPU leaves. The answer is the number of vCPUs that are left, and the ending that is asked
    /// for, if there is one. The caller that gets `(0, Some(_))` carries it out.
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

    /// The VM has ended. For the pCPU that has carried the ending out.
    pub fn end(&self) {
        self.word.store(ENDED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Lifecycle {
        let lifecycle = Lifecycle::new();
        assert!(
            lifecycle.is_ended()
                && lifecycle.begin().is_made()
                && lifecycle.is_loading()
                && lifecycle.run().is_made()
        );
        lifecycle
    }

    #[test]
    fn the_last_vcpu_to_leave_carries_the_ending_out() {
        let lifecycle = running();
        assert!(lifecycle.enter().is_made() && lifecycle.enter().is_made());
        assert_eq!(lifecycle.begin_end(Ending::Reset), Wish::Taken);
        let second = lifecycle.begin_end(Ending::Off);
        assert_eq!(second, Wish::Refused, "the first to ask decides");
        assert!(
            !lifecycle.enter().is_made(),
            "nobody comes in while it ends"
        );
        assert_eq!(lifecycle.leave(), (1, Some(Ending::Reset)));
        assert_eq!(lifecycle.leave(), (0, Some(Ending::Reset)));
        assert!(lifecycle.load_after_reset().is_made());
        assert!(lifecycle.is_loading() && !lifecycle.enter().is_made() && lifecycle.number() == 2);
        assert!(lifecycle.run().is_made() && lifecycle.is_running() && lifecycle.enter().is_made());
    }

    #[test]
    fn the_caller_that_ends_an_empty_vm_carries_the_ending_out() {
        let lifecycle = running();
        assert_eq!(lifecycle.begin_end(Ending::Off), Wish::Deserted);
        assert!(!lifecycle.enter().is_made(), "nobody comes in who could");
        assert!(
            !lifecycle.stop_deserted(|| true).is_made(),
            "and nobody else does"
        );
    }

    #[test]
    fn turning_a_vm_off_overrules_a_reset_at_any_moment() {
        let lifecycle = running();
        assert!(lifecycle.enter().is_made());
        assert_eq!(lifecycle.begin_end(Ending::Reset), Wish::Taken);
        assert_eq!(lifecycle.turn_off(), Wish::Taken);
        assert_eq!(lifecycle.leave(), (0, Some(Ending::Off)));
        let lifecycle = running();
        assert!(lifecycle.enter().is_made() && lifecycle.begin_end(Ending::Reset) == Wish::Taken);
        assert_eq!(lifecycle.leave(), (0, Some(Ending::Reset)));
        let late = lifecycle.turn_off();
        assert_eq!(late, Wish::Taken, "who carries the reset out sees it");
        assert!(
            !lifecycle.load_after_reset().is_made() && !lifecycle.is_loading(),
            "as here"
        );
        lifecycle.end();
        assert!(lifecycle.is_ended() && !lifecycle.enter().is_made());
    }

    #[test]
    fn the_caller_that_turns_a_loading_vm_off_carries_the_ending_out() {
        let lifecycle = running();
        assert!(lifecycle.enter().is_made() && lifecycle.begin_end(Ending::Reset) == Wish::Taken);
        assert_eq!(lifecycle.leave(), (0, Some(Ending::Reset)));
        assert!(lifecycle.load_after_reset().is_made());
        assert_eq!(lifecycle.start_anew(), Wish::Refused);
        assert_eq!(lifecycle.turn_off(), Wish::Deserted);
        assert!(
            !lifecycle.run().is_made(),
            "its memory is of no use any more"
        );
    }

    #[test]
    fn leaving_a_running_vm_is_no_ending() {
        let lifecycle = running();
        assert!(lifecycle.enter().is_made());
        assert_eq!(lifecycle.leave(), (0, None));
        assert!(lifecycle.is_running());
    }

    #[test]
    fn a_vm_with_all_vcpus_off_is_stopped_only_while_it_is_empty() {
        let lifecycle = running();
        assert!(!lifecycle.stop_deserted(|| false).is_made());
        let meanwhile = || {
            // A vCPU enters, starts another one and leaves, while the power states are read.
            assert!(lifecycle.enter().is_made());
            lifecycle.leave();
            true
        };
        assert!(!lifecycle.stop_deserted(meanwhile).is_made());
        assert!(lifecycle.enter().is_made());
        assert!(
            !lifecycle.stop_deserted(|| true).is_made(),
            "somebody is in it"
        );
        lifecycle.leave();
        assert!(lifecycle.stop_deserted(|| true).is_made());
        assert!(
            !lifecycle.stop_deserted(|| true).is_made(),
            "once is enough"
        );
        assert!(!lifecycle.is_running() && !lifecycle.enter().is_made());
    }

    #[test]
    fn the_count_of_entries_wraps_without_changing_the_state() {
        let lifecycle = running();
        for _ in 0..0x1_0001 {
            assert!(lifecycle.enter().is_made());
            assert_eq!(lifecycle.leave(), (0, None));
        }
        assert!(lifecycle.is_running());
    }

    #[test]
    fn an_ended_vm_stays_ended_until_it_boots_again() {
        let lifecycle = running();
        assert!(!lifecycle.begin().is_made(), "a boot is under way");
        lifecycle.end();
        assert!(lifecycle.is_ended() && !lifecycle.enter().is_made());
        assert_eq!(lifecycle.begin_end(Ending::Reset), Wish::Refused);
        assert!(lifecycle.begin().is_made() && !lifecycle.enter().is_made());
        assert_eq!(lifecycle.begin_end(Ending::Off), Wish::Refused);
        assert!(
            lifecycle.give_up().is_made() && lifecycle.is_ended() && !lifecycle.run().is_made()
        );
        assert!(lifecycle.begin().is_made() && lifecycle.run().is_made());
        assert_eq!(lifecycle.number(), 3);
        assert!(!lifecycle.give_up().is_made() && lifecycle.is_running());
    }

    const STATES: [u32; 6] = [ENDED, LOADING, RUNNING, RESET, OFF, STOPPED];

    /// A row of the table in the module's documentation: an event, and the state after it for each
    /// of [`STATES`], first with no vCPU in the VM, then with one. `None` means that the state
    /// stays.
    type Row = (fn(&Lifecycle), [Option<u32>; 6], [Option<u32>; 6]);

    fn rows() -> [Row; 12] {
        let only = |from, to| STATES.map(|state| (state == from).then_some(to));
        let end = [Some(ENDED); 6];
        let off = STATES.map(|state| [LOADING, RUNNING, RESET].contains(&state).then_some(OFF));
        let (load, reset) = (Some(LOADING), Some(RESET));
        let empty = [load, None, load, reset, None, None];
        let inhabited = [None, None, reset, reset, reset, None];
        let same = |event: fn(&Lifecycle), row| (event, row, row);
        [
            same(|it| _ = it.begin(), only(ENDED, LOADING)),
            same(|it| _ = it.run(), only(LOADING, RUNNING)),
            same(|it| _ = it.give_up(), only(LOADING, ENDED)),
            same(|it| _ = it.load_after_reset(), only(RESET, LOADING)),
            same(|it| _ = it.enter(), only(RUNNING, RUNNING)),
            same(|it| _ = it.begin_end(Ending::Reset), only(RUNNING, RESET)),
            same(|it| _ = it.begin_end(Ending::Off), only(RUNNING, OFF)),
            same(
                |it| _ = it.begin_end(Ending::Stopped),
                only(RUNNING, STOPPED),
            ),
            same(|it| _ = it.turn_off(), off),
            (|it| _ = it.start_anew(), empty, inhabited),
            (
                |it| _ = it.stop_deserted(|| true),
                only(RUNNING, STOPPED),
                [None; 6],
            ),
            same(Lifecycle::end, end),
        ]
    }

    /// `end` alone clears the number of vCPUs in the VM: where it may be called, there is none.
    #[test]
    fn every_event_in_every_state_leads_where_the_table_says() {
        for (row, (event, empty, inhabited)) in rows().into_iter().enumerate() {
            for (inside, column) in [(0, empty), (1, inhabited)] {
                for (from, to) in STATES.into_iter().zip(column) {
                    let lifecycle = Lifecycle::new();
                    lifecycle.word.store(from | inside, Ordering::Relaxed);
                    event(&lifecycle);
                    let word = lifecycle.word.load(Ordering::Relaxed);
                    assert_eq!(word & STATE, to.unwrap_or(from), "row {row}: {from:#x}");
                }
            }
        }
    }
}
