//! Measures how late a CPU goes on that sleeps by WFI until its timer fires.

use crate::measure::{Stretch, frequency};
use hanok_bench_plan::{Figure, Least};
use hanok_guest_runtime::{cpu, gic, timer};
use hanok_types::platform;

const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();
/// The time in microseconds from setting the timer to its interrupt.
const DELAY_US: u64 = 50;
/// The number of sleeps of one sample.
const ROUNDS: u64 = 64;

/// Prints the figure: the mean of the sample with the least sum.
pub fn measure(figure: Figure, repeat: u32) {
    gic::enable(TIMER);
    let stretch = Stretch {
        figure,
        repeat,
        rounds: ROUNDS,
    };
    let mut least = Least::NONE;
    // One more than is counted, at the beginning: the first one costs more.
    for sample in 0..=repeat {
        if sample == 0 {
            late();
            continue;
        }
        let mut ticks = 0;
        stretch.sample(|| ticks = late());
        least.add(ticks);
    }
    stretch.print(least, core::iter::once(0).collect());
    write_sysreg!("cntv_ctl_el0", 0);
    gic::disable(TIMER);
}

/// The sleeps of [`spread`].
const SLEEPS: u64 = 256;
/// The shortest of them, and by how much the longest is longer, in microseconds.
const SHORTEST_US: u64 = 1_000;
const LONGER_US: u64 = 9_000;
/// By how many microseconds a sleep is longer than the one before, if it may be: no divisor of the other times, so that
/// the timers fire at unlike places of a period.
const STEP_US: u64 = 1_237;

/// Prints by how much sleeps of many lengths were too long: the least, the mean and the most.
pub fn spread() {
    gic::enable(TIMER);
    let (mut least, mut sum, mut most) = (u64::MAX, 0, 0);
    // One more than is counted, at the beginning: the first one costs more.
    late_after(SHORTEST_US);
    for sleep in 0..SLEEPS {
        let late = late_after(SHORTEST_US + sleep * STEP_US % LONGER_US);
        least = least.min(late);
        most = most.max(late);
        sum += late;
    }
    write_sysreg!("cntv_ctl_el0", 0);
    gic::disable(TIMER);
    let name = Figure::WakeSpread.name();
    for (which, ticks, of) in [
        ("least", least, 1),
        ("mean", sum, SLEEPS),
        ("most", most, 1),
    ] {
        let nanoseconds = ticks * 1_000_000_000 / (frequency() * of).max(1);
        println!("bench: {name}-{which} {nanoseconds} instructions");
    }
}

/// The sum of the ticks by which the sleeps of a sample were too long.
fn late() -> u64 {
    (0..ROUNDS).map(|_| late_after(DELAY_US)).sum()
}

/// The ticks by which a sleep of `delay` microseconds was too long.
#[inline(always)]
fn late_after(delay: u64) -> u64 {
    let due = timer::now() + timer::microseconds(delay);
    timer::fire_at(due);
    cpu::wait_for_interrupt();
    let late = timer::now().saturating_sub(due);
    // The interrupt is taken only now: a handler's cost is another figure.
    cpu::with_interrupts(|| {});
    late
}
