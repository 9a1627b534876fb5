//! What an interrupt of the virtual timer costs: a loop of so many instructions with and without
//! one in it. The same handler natively tells what of it is the guest's own.

use crate::arch::count;
use crate::measure::{Stretch, frequency};
use hanok_bench_plan::Figure;
use hanok_guest_runtime::{cpu, gic, timer};
use hanok_types::platform;

const ROUNDS: u64 = 256;
/// Turns of the loop, two instructions each: longer than [`DELAY_US`] whatever else happens.
const TURNS: u64 = 4000;
/// When the timer fires, from its setting on.
const DELAY_US: u64 = 2;

const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();

/// Prints `figure`: what a timer interrupt costs now.
pub fn measure(figure: Figure, repeat: u32) {
    let delay = frequency() * DELAY_US / 1_000_000;
    let cpu = cpu::this();
    cpu.forget_interrupts();
    gic::enable(TIMER);
    let stretch = Stretch {
        figure,
        repeat,
        rounds: ROUNDS,
    };
    cpu::with_interrupts(|| {
        stretch.compare(
            || rounds(delay, timer::ENABLE),
            || rounds(delay, timer::ENABLE | timer::IMASK),
        );
    });
    write_sysreg!("cntv_ctl_el0", 0);
    gic::disable(TIMER);
    // The stretch also runs once before it counts.
    let expected = (u64::from(repeat) + 1) * ROUNDS;
    let taken = u64::from(cpu.count(TIMER));
    if taken != expected {
        let name = figure.name();
        println!("FAIL {name}: {taken} interrupts instead of {expected}");
    }
}

/// The handler masks the timer, so each round sets it afresh.
fn rounds(delay: u64, control: u64) {
    for _ in 0..ROUNDS {
        write_sysreg!("cntv_cval_el0", timer::now() + delay);
        write_sysreg!("cntv_ctl_el0", control);
        count(TURNS);
    }
}
