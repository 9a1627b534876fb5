//! Uses the CPU for a given time by doing a given amount of work.
//!
//! A job burns most of its time by counting instructions, however often it is preempted: that is
//! work, and a CPU that is slower or taken away makes the job late. The rest, an eighth and
//! [`SLACK_US`] microseconds, is for the kernel (and a hypervisor under it), which the budget has
//! to pay. Whatever is left of it the job spends waiting, until its account says that the time is
//! used up. So on an idle machine a job takes exactly its time, whatever its interruptions cost,
//! and the schedule can be predicted to the microsecond.
//!
//! Tasks that the command line describes show whether a promised budget is enough, so their jobs must
//! take all of their time also where a hypervisor gives the core to others in between: [`take`] looks at
//! the clock all the while, and leaves out what is too long to be the guest's own time. (Rejected:
//! instructions alone; a job would be longer by the kernel's work.)
//!
//! Noticing the end of its time and calling the kernel takes a job a little longer, and these times
//! add up from job to job until the CPU is idle. So the next job that ends waits less by the time
//! that the one before took too long.

use crate::state::{self, Once};
use crate::{arch, report};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::timer;
use hanok_rtos_kernel::Ticks;

/// The number of turns by which the loop is measured.
const TURNS: usize = 200_000;
/// The time in microseconds that a job leaves for the kernel besides an eighth.
const SLACK_US: u64 = 5;
/// The largest distance of the timer in microseconds: see [`leash`].
const LEASH_US: u64 = 10;

/// The longest time in microseconds between two looks at the clock in which only the kernel, or a
/// hypervisor for this guest, can have run: see [`take`].
const GAP_US: u64 = 15;
/// What a longer time counts for, in microseconds.
const GAP_PAID_US: u64 = 1;
/// What it counts for if the kernel was entered meanwhile.
const GAP_ENTERED_US: u64 = 3;

/// Ticks of the counter for [`TURNS`] turns.
static MEASURED: Once<Ticks> = Once::new();

/// The time by which jobs took too long since the CPU was idle.
static BEHIND: AtomicU64 = AtomicU64::new(0);

/// Measures the loop; interrupts are masked. Where `cores` run in turn on an emulator, each has
/// that much less of the time.
pub fn calibrate(cores: u64) {
    // The first time, an emulator translates the code.
    arch::spin(TURNS);
    let ticks = fastest(cores > 1).saturating_mul(cores);
    MEASURED.set(ticks);
    println!("rtos: {TURNS} turns of the loop take {ticks} ticks");
}

fn measure(turns: usize) -> Ticks {
    let before = timer::now();
    arch::spin(turns);
    timer::now().saturating_sub(before).max(1)
}

/// The time that [`TURNS`] turns take while nobody else has the CPU: computed from the fastest of
/// many parts, as a hypervisor may take the CPU away at any time. Where cores run in turn, the
/// parts are shorter, and a timer that is always close keeps the turns of the cores short.
fn fastest(shares: bool) -> Ticks {
    let count = if shares { 400 } else { 40 };
    let parts = (0..count).map(|_| {
        if shares {
            timer::fire_at(timer::now().saturating_add(leash()));
        }
        measure(TURNS / count)
    });
    let fastest = parts.min().unwrap_or(1);
    timer::stop();
    fastest.saturating_mul(count as u64)
}

/// The largest distance of the timer while a task runs, where cores run in turn on an emulator: the
/// emulator runs a core up to the next timer of all cores before it goes to the next core.
pub fn leash() -> Ticks {
    ticks(LEASH_US)
}

/// The part of its time that a job leaves for the kernel.
fn reserve(time: Ticks) -> Ticks {
    // With so close a timer the kernel runs much more often.
    if shares() { time / 2 } else { time / 8 }
}

/// Whether cores run in turn on an emulator.
fn shares() -> bool {
    state::options().is_some_and(|options| options.cores > 1)
}

/// Whether jobs take CPU time by the clock, and do no work of a given amount.
fn by_the_clock() -> bool {
    !shares() && state::options().is_some_and(|options| options.set.is_described())
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
    if by_the_clock() {
        return take(time);
    }
    work((time - reserve(time)).saturating_sub(ticks(SLACK_US)));
    while state::used() + BEHIND.load(Relaxed) < time {}
}

/// Takes `time` on the CPU: looks at the clock all the while, and does not count the time between
/// two looks in which somebody else had the CPU.
fn take(time: Ticks) {
    let longest = ticks(GAP_US);
    let (mut taken, mut before, mut entries) = (0, 0, report::entries());
    while taken + BEHIND.load(Relaxed) < time {
        let used = state::used();
        let gap = used.saturating_sub(before);
        let entered = core::mem::replace(&mut entries, report::entries()) != entries;
        taken += if gap > longest { paid(entered) } else { gap };
        before = used;
    }
}

/// What a time counts for in which somebody else had the CPU.
fn paid(entered: bool) -> Ticks {
    ticks(if entered { GAP_ENTERED_US } else { GAP_PAID_US })
}

/// Notes that a job that was to take `time` ended after `used`.
pub fn ended(used: Ticks, time: Ticks) {
    let behind = BEHIND
        .load(Relaxed)
        .saturating_add(used)
        .saturating_sub(time);
    // So late it is only because somebody else had the CPU: no other job is to make up for that.
    let stolen = behind > ticks(GAP_US) && by_the_clock();
    BEHIND.store(if stolen { 0 } else { behind }, Relaxed);
}

/// Notes that a job runs on a CPU that was idle, this long after its release: it is to end when it
/// would have, had it begun at once. If it waited for long, somebody else had the CPU.
pub fn begins(late: Ticks) {
    if by_the_clock() && late <= ticks(GAP_US) {
        BEHIND.store(late, Relaxed);
    }
}

/// Notes that the CPU is idle.
pub fn idle() {
    BEHIND.store(0, Relaxed);
}

fn ticks(microseconds: u64) -> Ticks {
    microseconds.saturating_mul(timer::frequency()) / 1_000_000
}
