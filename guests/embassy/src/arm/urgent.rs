//! A second executor, whose tasks run in interrupts: at once, whatever the others do.
//!
//! embassy-executor has one that an interrupt of its own runs, but not for this architecture. So
//! this is what its documentation offers instead, the bare executor: the timer's interrupt polls
//! it after it has woken whom it is time for. Interrupts are open meanwhile. Who wakes one of its
//! tasks from elsewhere calls [`poll`] himself, as the platform's way to be told of that, SEV,
//! reaches only the executor that waits by WFE.

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

/// What the executor does.
#[derive(Clone, Copy)]
enum State {
    Idle,
    Polls,
    /// Somebody may have been woken since it began.
    PollsAgain,
}

/// Makes it; its tasks are spawned before the first interrupt.
pub fn install() -> Spawner {
    let executor: &'static Executor = STORAGE.init(Executor::new(core::ptr::null_mut()));
    critical_section::with(|token| EXECUTOR.borrow(token).set(Some(Shared(executor))));
    executor.spawner()
}

/// Runs whoever of its tasks was woken; where it runs already, it will look again.
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
        if end() {
            return;
        }
    }
}

/// The executor, if it was idle.
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

/// Whether nobody was woken meanwhile.
fn end() -> bool {
    critical_section::with(|token| {
        let state = STATE.borrow(token);
        let done = matches!(state.get(), State::Polls);
        state.set(if done { State::Idle } else { State::Polls });
        done
    })
}
