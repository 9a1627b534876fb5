//! The generic timer as embassy-time's driver: the virtual counter and its one compare register
//! (DDI 0406C, B8.1).
//!
//! The executor's clock counts microseconds, whatever the counter's frequency is. The compare
//! register holds the earliest of all alarms. An alarm in the past fires at once, because the
//! timer's condition is a level, so that none can be lost between a check and the setting.

use core::cell::RefCell;
use core::task::Waker;

use aarch32_cpu::generic_timer::{El1VirtualTimer, GenericTimer, read_virtual_timer};
use aarch32_cpu::register::{Cntfrq, SysRegRead};
use critical_section::{CriticalSection, Mutex};
use embassy_time_driver::{Driver, TICK_HZ};
use embassy_time_queue_utils::Queue;

/// The counter, in its own ticks.
pub fn counter() -> u64 {
    aarch32_cpu::asm::isb();
    read_virtual_timer()
}

/// Ticks of the counter in a second.
pub fn frequency() -> u64 {
    Cntfrq::read_raw().max(1).into()
}

/// The executor's `microseconds` as the counter's ticks.
pub fn ticks(microseconds: u64) -> u64 {
    scale(microseconds, TICK_HZ, frequency())
}

/// Converts `value` from units of `from` a second to units of `to` a second, rounded up. Whole
/// seconds are converted separately, so that no product exceeds 64 bits.
fn scale(value: u64, from: u64, to: u64) -> u64 {
    let rest = (value % from) * to;
    (value / from)
        .saturating_mul(to)
        .saturating_add(rest.div_ceil(from))
}

/// The time that means "no alarm". A task that asks for a time in the past is also woken by the
/// interrupt: the executor that runs in interrupts is polled after each of them, and not while it
/// is polled already.
const NOBODY: u64 = 0;

struct Clock {
    queue: Mutex<RefCell<Queue>>,
}

embassy_time_driver::time_driver_impl!(static CLOCK: Clock = Clock {
    queue: Mutex::new(RefCell::new(Queue::new())),
});

impl Driver for Clock {
    fn now(&self) -> u64 {
        let (counter, frequency) = (read_virtual_timer(), frequency());
        counter / frequency * TICK_HZ + counter % frequency * TICK_HZ / frequency
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|token| {
            if self.queue.borrow_ref_mut(token).schedule_wake(at, waker) {
                self.set(token, NOBODY);
            }
        });
    }
}

impl Clock {
    /// Wakes the tasks whose time has come at `now`, and sets the timer to the next.
    fn set(&self, token: CriticalSection<'_>, now: u64) {
        let next = self.queue.borrow_ref_mut(token).next_expiration(now);
        // SAFETY: there is one at a time: interrupts are masked, and nobody else has any.
        let mut timer = unsafe { El1VirtualTimer::new() };
        if next == u64::MAX {
            timer.enable(false);
        } else {
            timer.counter_compare_set(ticks(next));
            timer.interrupt_mask(false);
            timer.enable(true);
        }
    }
}

/// Handles the timer's interrupt.
pub fn alarm() {
    critical_section::with(|token| CLOCK.set(token, CLOCK.now()));
}
