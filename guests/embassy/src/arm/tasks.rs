//! The tasks.
//!
//! | task | every | works | |
//! |---|---|---|---|
//! | `fast` | 1 ms | 50 us | in interrupts; sends a sample each time |
//! | `actuator` | | | in interrupts; waits for orders |
//! | `control` | 5 ms | 500 us | gives an order each tenth time |
//! | `slow` | 50 ms | 3 ms | in one piece: all others of its executor wait |
//! | `collect` | | | receives the samples |
//! | `report` | | | waits for all, prints, powers off |
//!
//! A job is due at a multiple of its period after the start, and misses its deadline if it is not
//! done when the next is due. Work is a calibrated number of instructions, so that a CPU that is
//! slower or taken away makes a job late.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use embassy_executor::{SpawnError, Spawner};
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex as Raw;
use embassy_sync::channel::Channel;
use embassy_sync::signal::Signal;
use embassy_time::{Duration, Instant, Timer};

use super::account::{Account, Microseconds};
use super::devices::println;
use super::options::Options;
use super::{clock, urgent};
use hanok_guest_runtime::psci::system_off;

/// A sample that `fast` sends.
struct Sample {
    number: u32,
    sent: u64,
}

static SAMPLES: Channel<Raw, Sample, 16> = Channel::new();
static ORDERS: Signal<Raw, u64> = Signal::new();
/// A message from a periodic task that has ended.
static ENDS: Channel<Raw, (), 4> = Channel::new();
/// The number of samples for which there was no space, and of those that came out of order.
static LOST: AtomicU32 = AtomicU32::new(0);
static ASTRAY: AtomicU32 = AtomicU32::new(0);

static FAST: Account = Account::new("fast");
static CONTROL: Account = Account::new("control");
static SLOW: Account = Account::new("slow");
static SAMPLE: Account = Account::new("samples");
static ORDER: Account = Account::new("orders");

/// The number of turns by which the loop is measured.
const TURNS: u32 = 200_000;
/// Ticks of the counter for [`TURNS`] turns.
static MEASURED: AtomicU64 = AtomicU64::new(u64::MAX);

/// The time from the end of the preparation to the first jobs.
const HEAD_START: Duration = Duration::from_millis(1);

/// A periodic task's period, work and number of jobs.
#[derive(Clone, Copy)]
struct Plan {
    start: Instant,
    period: u64,
    work: u64,
    jobs: u32,
}

/// The tasks of both executors.
pub fn spawn(options: Options, thread: Spawner, interrupts: Spawner) -> Result<(), SpawnError> {
    let start = Instant::now() + HEAD_START;
    let plan = |period: u32, work| Plan {
        start,
        period: period.into(),
        work,
        jobs: options.milliseconds * 1_000 / period,
    };
    let urgent = if options.urgent { interrupts } else { thread };
    urgent.spawn(fast(plan(1_000, 50))?);
    urgent.spawn(actuator()?);
    thread.spawn(control(plan(5_000, 500))?);
    thread.spawn(slow(plan(50_000, 3_000))?);
    thread.spawn(collect()?);
    thread.spawn(report()?);
    // No task has run yet, and interrupts are masked.
    work(u64::from(options.late) * 1_000);
    Ok(())
}

/// Runs the task's jobs, each at its time.
async fn periodic(account: &Account, plan: Plan, mut job: impl FnMut(u32)) {
    for number in 0..plan.jobs {
        let due = plan.start.as_ticks() + u64::from(number) * plan.period;
        Timer::at(Instant::from_ticks(due)).await;
        let begun = clock::counter();
        work(plan.work);
        job(number);
        account.count(clock::ticks(due), begun, clock::ticks(due + plan.period));
    }
    ENDS.send(()).await;
}

#[embassy_executor::task]
async fn fast(plan: Plan) {
    let send = |number| {
        let sent = clock::counter();
        if SAMPLES.try_send(Sample { number, sent }).is_err() {
            LOST.fetch_add(1, Relaxed);
        }
    };
    periodic(&FAST, plan, send).await;
}

#[embassy_executor::task]
async fn control(plan: Plan) {
    let order = |number: u32| {
        if number.is_multiple_of(10) {
            ORDERS.signal(clock::counter());
            urgent::poll();
        }
    };
    periodic(&CONTROL, plan, order).await;
}

#[embassy_executor::task]
async fn slow(plan: Plan) {
    periodic(&SLOW, plan, |_| {}).await;
}

#[embassy_executor::task]
async fn actuator() {
    loop {
        let given = ORDERS.wait().await;
        ORDER.count(given, clock::counter(), u64::MAX);
    }
}

#[embassy_executor::task]
async fn collect() {
    let mut expected = 0;
    loop {
        let sample = SAMPLES.receive().await;
        if sample.number != expected {
            ASTRAY.fetch_add(1, Relaxed);
        }
        expected = sample.number + 1;
        SAMPLE.count(sample.sent, clock::counter(), u64::MAX);
        if expected.is_multiple_of(100) {
            println!("embassy: {expected} samples");
        }
    }
}

#[embassy_executor::task]
async fn report() {
    let periodic = [&FAST, &CONTROL, &SLOW];
    for _ in periodic {
        ENDS.receive().await;
    }
    // Time for the others to receive what is still on its way.
    Timer::after(HEAD_START).await;
    let (mut jobs, mut misses) = (0, 0);
    for account in periodic {
        let figures = account.figures();
        (jobs, misses) = (jobs + figures.jobs, misses + figures.misses);
        println!(
            "embassy: task {} jobs {} misses {}",
            account.name, figures.jobs, figures.misses
        );
        times(account);
    }
    for account in [&SAMPLE, &ORDER] {
        println!("embassy: {} {}", account.name, account.figures().jobs);
        times(account);
    }
    let (lost, astray) = (LOST.load(Relaxed), ASTRAY.load(Relaxed));
    println!("embassy: samples lost {lost} out of turn {astray}");
    println!("embassy: total jobs {jobs} misses {misses}");
    system_off()
}

fn times(account: &Account) {
    let (name, figures) = (account.name, account.figures());
    println!("embassy: {name} late-max {}", Microseconds(figures.late));
    println!(
        "embassy: {name} response-max {}",
        Microseconds(figures.response)
    );
}

/// Measures the loop that [`work`] uses; interrupts are masked.
pub fn calibrate() {
    // Run it once before: an emulator translates the code the first time.
    spin(TURNS);
    let before = clock::counter();
    spin(TURNS);
    let ticks = clock::counter().saturating_sub(before).max(1);
    MEASURED.store(ticks, Relaxed);
    println!("embassy: {TURNS} turns of the loop take {ticks} ticks");
}

/// Works for `microseconds`.
fn work(microseconds: u64) {
    let turns = clock::ticks(microseconds) * u64::from(TURNS) / MEASURED.load(Relaxed);
    spin(turns as u32);
}

/// Goes `turns` times through a loop of two instructions.
fn spin(turns: u32) {
    // SAFETY: counts a register down to zero.
    unsafe {
        asm!("2:", "subs {0}, {0}, #1", "bhi 2b", inout(reg) turns => _, options(nomem, nostack))
    };
}
