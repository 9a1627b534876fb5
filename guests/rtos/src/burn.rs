//! Using the CPU for so long, by doing so much.
//!
//! A job burns most of its time by counting instructions, however often it is preempted:
//! that is work, and a CPU that is slower or taken away makes it late. The rest, an eighth
//! and [`SLACK_US`] microseconds, is for the kernel (and a hypervisor under it), which a
//! budget has to pay: what is left of it then is spent waiting, until the job's account
//! says that the time is used up. So on an idle machine a job takes exactly its time,
//! whatever its interruptions cost, and the schedule can be foretold to the microsecond.
//!
//! That a job sees the end of its time and calls the kernel takes a little longer, and adds
//! up from job to job until the CPU is idle. So what one job took too long, the next that
//! ends waits less.

use crate::arch;
use crate::state::{self, Once};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::timer;
use hanok_rtos_kernel::Ticks;

/// How much the loop is measured with.
const TURNS: usize = 200_000;
/// What a job leaves for the kernel besides an eighth.
const SLACK_US: u64 = 5;
/// See [`leash`].
const LEASH_US: u64 = 10;

/// Ticks of the counter for [`TURNS`] turns.
static MEASURED: Once<Ticks> = Once::new();

/// What jobs took too long since the CPU was idle.
static BEHIND: AtomicU64 = AtomicU64::new(0);

/// Measures the loop; interrupts are masked. Where `cores` take turns on an emulator, each
/// has that much less of the time.
pub fn calibrate(cores: u64) {
    // The first time, an emulator translates the code.
    arch::spin(TURNS);
    let alone = if cores > 1 { fastest() } else { measure(TURNS) };
    let ticks = alone.saturating_mul(cores);
    MEASURED.set(ticks);
    println!("rtos: {TURNS} turns of the loop take {ticks} ticks");
}

fn measure(turns: usize) -> Ticks {
    let before = timer::now();
    arch::spin(turns);
    timer::now().saturating_sub(before).max(1)
}

/// What [`TURNS`] take while no other core has its turn: as long as the fastest of many parts
/// of it says. A timer that is always close keeps the turns of the cores short.
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

/// How far ahead the timer is at most while a task runs, where cores take turns on an
/// emulator: it lets one run up to the next timer of all before it goes to the next core.
pub fn leash() -> Ticks {
    ticks(LEASH_US)
}

/// The part of its time that a job leaves for the kernel.
fn reserve(time: Ticks) -> Ticks {
    let shares = state::options().is_some_and(|options| options.cores > 1);
    // With the timer on a leash the kernel runs much more often.
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

/// Works for so many microseconds.
pub fn work_us(count: u64) {
    work(ticks(count));
}

/// Is a job that takes `time` of its budget; for ever, if it is [`Ticks::MAX`].
pub fn job(time: Ticks) {
    if time == Ticks::MAX {
        loop {
            arch::spin(TURNS);
        }
    }
    work((time - reserve(time)).saturating_sub(ticks(SLACK_US)));
    while state::used() + BEHIND.load(Relaxed) < time {}
}

/// A job that was to take `time` ended after `used`.
pub fn ended(used: Ticks, time: Ticks) {
    let behind = BEHIND.load(Relaxed).saturating_add(used);
    BEHIND.store(behind.saturating_sub(time), Relaxed);
}

/// The CPU is idle.
pub fn idle() {
    BEHIND.store(0, Relaxed);
}

fn ticks(microseconds: u64) -> Ticks {
    microseconds.saturating_mul(timer::frequency()) / 1_000_000
}
