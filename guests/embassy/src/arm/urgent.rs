//! A second executor, whose tasks run in interrupts: at once, whatever the other tasks do.
//!
//! embassy-executor has one that an interrupt of its own runs, but not for this architecture. So
//! this module does what its documentation offers instead, with the bare executor: the timer's
//! interrupt polls it after waking the tasks whose time has come. Interrupts are open meanwhile.
//! Code that wakes one of its tasks from elsewhere calls [`poll`] itself: the platform's own
//! notification, SEV, only reaches the executor that waits by WFE.

use core::cell::Cell;

use aarch32_cpu::interrupt;
use aarch32_cpu::register::Cpsr;
use critical_section::Mutex;
use embassy_executor::Spawner;
use embassy_executor::raw::Executor;
use static_cell::StaticCell;

static STORAGE: StaticCell<Executor> = StaticCell::new();
static EXECUTOR: Mutex<Cell<Option<Shared>>> = Mutex::new(Cell::new(None));
static STATE: Mutex<Cell<State>> = Mutex::new(Cell::new(State::Idle));

#[derive(Clone, Copy)]
struct Shared(&'static Executor);

// SAFETY: whoever uses it has changed `STATE` from `Idle` before, so there is one at a time, and
// all is on one CPU.
unsafe impl Send for Shared {}

/// The state of the executor.
#[derive(Clone, Copy)]
enum State {
    Idle,
    Polls,
    /// It is being polled, and a task may have been woken since that began.
    PollsAgain,
}

/// Makes the executor; its tasks are spawned before the first interrupt.
pub fn install() -> Spawner {
    let executor: &'static Executor = STORAGE.init(Executor::new(core::ptr::null_mut()));
    critical_section::with(|token| EXECUTOR.borrow(token).set(Some(Shared(executor))));
    executor.spawner()
}

/// Runs those of its tasks that were woken. If it is being polled already, it will be polled again.
pub fn poll() {
    let Some(Shared(executor)) = begin() else {
        return;
    };
    let masked = Cpsr::read().i();
    loop {
        // SAFETY: no lock is held; a further interrupt finds the executor in `Polls`, so that
        // there is at most one such level, and the executor is not entered twice.
        unsafe {
            interrupt::enable();
            executor.poll();
        }
        if masked {
            interrupt::disable();
        }
        if end() == PollEnd::Idle {
            return;
        }
    }
}

/// The executor, if it was idle; it is being polled from then on.
fn begin() -> Option<Shared> {
    critical_section::with(|token| {
        let executor = EXECUTOR.borrow(token).get()?;
        let state = STATE.borrow(token);
        let idle = matches!(state.get(), State::Idle);
        state.set(if idle {
            State::Polls
        } else {
            State::PollsAgain
        });
        idle.then_some(executor)
    })
}

/// What follows a poll of the executor.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollEnd {
    /// The executor is idle.
    Idle,
    /// A task was woken meanwhile: it has to be polled again.
    PollAgain,
}

/// Ends a poll, unless a task was woken meanwhile.
fn end() -> PollEnd {
    critical_section::with(|token| {
        let state = STATE.borrow(token);
        if matches!(state.get(), State::Polls) {
            state.set(State::Idle);
            PollEnd::Idle
        } else {
            state.set(State::Polls);
            PollEnd::PollAgain
        }
    })
}
