//! Measures how late a CPU goes on that sleeps by WFI until its timer fires.

use crate::measure::Stretch;
use hanok_bench_plan::{Figure, Least};
use hanok_guest_runtime::{cpu, gic, timer};
use hanok_types::platform;

const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();
/// The time in microseconds from setting the timer to its interrupt.
const DELAY_US: u64 = 50;
/// The number of sleeps of one sample.
const ROUNDS: u64 = 64;

/// Prints the figure: the mean of the sample with the least sum.
pub fn measure(repeat: u32) {
    gic::enable(TIMER);
    let stretch = Stretch {
        figure: Figure::Wake,
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

/// The sum of the ticks by which the sleeps of a sample were too long.
fn late() -> u64 {
    let delay = timer::microseconds(DELAY_US);
    let mut late = 0;
    for _ in 0..ROUNDS {
        let due = timer::now() + delay;
        write_sysreg!("cntv_cval_el0", due);
        write_sysreg!("cntv_ctl_el0", timer::ENABLE);
        cpu::wait_for_interrupt();
        late += timer::now().saturating_sub(due);
        // The interrupt is taken only now: a handler's cost is another figure.
        cpu::with_interrupts(|| {});
    }
    late
}
