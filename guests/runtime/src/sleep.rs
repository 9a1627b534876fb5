//! Sleeping: the timer's interrupt ends it, or another one.

use crate::{cpu, gic, timer};
use hanok_types::platform;

/// Sleeps until `done`, which only an interrupt can cause, for at most `milliseconds`, and takes
/// interrupts meanwhile. Uses the virtual timer. Returns whether it is done.
pub fn sleep_until(milliseconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let id = platform::TIMER_VIRTUAL_IRQ.get();
    let end = timer::now() + timer::microseconds(milliseconds * 1000);
    gic::enable(id);
    timer::fire_at(end);
    // Masked between the look and WFI, which a pending interrupt ends nevertheless: none
    // can come, and be taken, in between.
    let came = loop {
        if done() {
            break true;
        }
        if timer::now() >= end {
            break false;
        }
        cpu::wait_for_interrupt();
        cpu::with_interrupts(|| {});
    };
    timer::stop();
    gic::disable(id);
    came
}
