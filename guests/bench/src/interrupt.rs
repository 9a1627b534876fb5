//! Measures an interrupt of a timer: a loop of fixed length with and without an interrupt in it.
//! The same handler, run natively, shows which part is the guest's own.

use crate::arch::count;
use crate::measure::{Stretch, frequency};
use hanok_bench_plan::Figure;
use hanok_guest_runtime::{cpu, gic, timer};
use hanok_types::platform;

const ROUNDS: u64 = 256;
/// The turns of the loop, two instructions each: longer than [`DELAY_US`] in any case.
const TURNS: u64 = 4000;
/// The time in microseconds from setting the timer to its interrupt.
const DELAY_US: u64 = 2;

/// One of a CPU's timers.
#[derive(Clone, Copy)]
enum Timer {
    Virtual,
    Physical,
}

impl Timer {
    const fn interrupt(self) -> u32 {
        match self {
            Self::Virtual => platform::TIMER_VIRTUAL_IRQ.get(),
            Self::Physical => platform::TIMER_PHYSICAL_IRQ.get(),
        }
    }

    #[inline(always)]
    fn set(self, at: u64, control: u64) {
        match self {
            Self::Virtual => {
                write_sysreg!("cntv_cval_el0", at);
                write_sysreg!("cntv_ctl_el0", control);
            }
            Self::Physical => {
                write_sysreg!("cntp_cval_el0", at);
                write_sysreg!("cntp_ctl_el0", control);
            }
        }
    }
}

/// Prints `figure`: the cost of an interrupt of the virtual timer.
pub fn measure(figure: Figure, repeat: u32) {
    of_timer(Timer::Virtual, figure, repeat);
}

/// Prints `figure`: the cost of an interrupt of the physical timer.
pub fn physical(figure: Figure, repeat: u32) {
    of_timer(Timer::Physical, figure, repeat);
}

#[inline(always)]
fn of_timer(which: Timer, figure: Figure, repeat: u32) {
    let interrupt = which.interrupt();
    let delay = frequency() * DELAY_US / 1_000_000;
    let cpu = cpu::this();
    cpu.forget_interrupts();
    gic::enable(interrupt);
    let stretch = Stretch {
        figure,
        repeat,
        rounds: ROUNDS,
    };
    cpu::with_interrupts(|| {
        stretch.compare(
            || rounds(which, delay, timer::ENABLE),
            || rounds(which, delay, timer::ENABLE | timer::IMASK),
        );
    });
    which.set(0, 0);
    gic::disable(interrupt);
    // The stretch also runs once without being counted.
    let expected = (u64::from(repeat) + 1) * ROUNDS;
    let taken = u64::from(cpu.count(interrupt));
    if taken != expected {
        let name = figure.name();
        println!("FAIL {name}: {taken} interrupts instead of {expected}");
    }
}

/// The handler masks the timer, so that each round sets it again.
#[inline(always)]
fn rounds(which: Timer, delay: u64, control: u64) {
    for _ in 0..ROUNDS {
        which.set(timer::now() + delay, control);
        count(TURNS);
    }
}
