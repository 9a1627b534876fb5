//! Uses the CPU for a given time by doing a given amount of work.
//!
//! A job burns most of its time by counting instructions, however often it is preempted: that is
//! work, and a CPU that is slower or taken away makes the job late. The rest, an eighth and
//! [`SLACK_US`] microseconds, is for the kernel (and a hypervisor under it), which the budget has
//! to pay. Whatever is left of it the job spends waiting, until its account says that the time is
//! used up. So on an idle machine a job takes exactly its time, whatever its interruptions cost,
//! and the schedule can be predicted to the microsecond.
//!
//! Noticing the end of its time and calling the kernel takes a job a little longer, and these times
//! add up from job to job until the CPU is idle. So the next job that ends waits less by the time
//! that the one before took too long.

use crate::arch;
use crate::state::{self, Once};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::timer;
use hanok_rtos_kernel::Ticks;

/// The number of turns by which the loop is measured.
const TURNS: usize = 200_000;
/// The time in microseconds that a job leaves for the kernel besides an eighth.
const SLACK_US: u64 = 5;
/// The largest distance of the timer in microseconds: see [`leash`].
const LEASH_US: u64 = 10;

/// Ticks of the counter for [`TURNS`] turns.
static MEASURED: Once<Ticks> = Once::new();

/// The time by which jobs took too long since the CPU was idle.
static BEHIND: AtomicU64 = AtomicU64::new(0);

/// Measures the loop; interrupts are masked. Where `cores` run in turn on an emulator, each has
/// that much less of the time.
pub fn calibrate(cores: u64) {
    // The first time, an emulator translates the code.
    arch::spin(TURNS);
    let alone = if cores > 1 { fastest() } else { undisturbed() };
    let ticks = alone.saturating_mul(cores);
    MEASURED.set(ticks);
    println!("rtos: {TURNS} turns of the loop take {ticks} ticks");
}

fn measure(turns: usize) -> Ticks {
    let before = timer::now();
    arch::spin(turns);
    timer::now().saturating_sub(before).max(1)
}

/// The time that [`TURNS`] turns take while no other VM has the core: computed from the fastest of some parts. A part is
/// shorter than a turn of another VM, and long beside a tick of the counter.
fn undisturbed() -> Ticks {
    const PARTS: usize = 20;
    let fastest = (0..PARTS).map(|_| measure(TURNS / PARTS)).min();
    fastest.unwrap_or(1).saturating_mul(PARTS as u64)
}

/// The time that [`TURNS`] turns take while no other core has its turn: computed from the fastest
/// of many parts. A timer that is always close keeps the turns of the cores short.
fn fastest() -> Ticks {
    const PARTS: usize = 400;
    let parts = (0..PARTS).map(|_| {
        timer::fire_at(timer::now().saturating_add(leash()));
        measure(TURNS / PARTS)
    });
    let fastest = parts.min().unwrap_or(1);
    timer::stop();
    fastest.saturating_mul(PARTS as u64)
}

/// The largest distance of the timer while a task runs, where cores run in turn on an emulator: the
/// emulator runs a core up to the next timer of all cores before it goes to the next core.
pub fn leash() -> Ticks {
    ticks(LEASH_US)
}

/// The part of its time that a job leaves for the kernel.
fn reserve(time: Ticks) -> Ticks {
    let shares = state::options().is_some_and(|options| options.cores > 1);
    // With so close a timer the kernel runs much more often.
    if shares { time / 2 } else { time / 8 }
}

/// The turns that take `time`.
fn turns(time: Ticks) -> usize {
    let measured = MEASURED.get().copied().unwrap_or(Ticks::MAX);
    let turns = time.saturating_mul(TURNS as u64) / measured;
    usize::try_from(turns).unwrap_or(usize::MAX)
}

/// Works for `time`.
pub fn work(time: Ticks) {
    arch::spin(turns(time));
}

/// Works for `count` microseconds.
pub fn work_us(count: u64) {
    work(ticks(count));
}

/// Runs a job that takes `time` of its budget; for ever, if it is [`Ticks::MAX`].
pub fn job(time: Ticks) {
    if time == Ticks::MAX {
        loop {
            arch::spin(TURNS);
        }
    }
    work((time - reserve(time)).saturating_sub(ticks(SLACK_US)));
    while state::used() + BEHIND.load(Relaxed) < time {}
}

/// Notes that a job that was to take `time` ended after `used`.
pub fn ended(used: Ticks, time: Ticks) {
    let behind = BEHIND.load(Relaxed).saturating_add(used);
    BEHIND.store(behind.saturating_sub(time), Relaxed);
}

/// Notes that the CPU is idle.
pub fn idle() {
    BEHIND.store(0, Relaxed);
}

fn ticks(microseconds: u64) -> Ticks {
    microseconds.saturating_mul(timer::frequency()) / 1_000_000
}
