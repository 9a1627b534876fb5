//! Samples of a stretch, and how a figure is printed.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_bench_plan::{Cost, Figure, Least};
use hanok_guest_runtime::{marker, timer};

/// Ticks of the counter in a second.
pub fn frequency() -> u64 {
    read_sysreg!("cntfrq_el0")
}

/// The time that a stretch takes, in ticks.
fn timed(stretch: impl FnOnce()) -> u64 {
    let start = timer::now();
    stretch();
    timer::now().wrapping_sub(start)
}

/// The same, with a marker before and one behind.
fn marked(stretch: impl FnOnce()) -> u64 {
    marker::begin();
    let ticks = timed(stretch);
    marker::end();
    ticks
}

/// A stretch that is measured: so many times `rounds` rounds.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// What it is for.
    pub figure: Figure,
    /// How many samples are taken; the least counts.
    pub repeat: u32,
    /// Rounds of one sample.
    pub rounds: u64,
}

impl Stretch {
    /// Measures `with` and, unmarked, `without`, and prints what a round costs more with. Once
    /// before they count each runs for nothing: what the first time costs is another figure.
    pub fn compare(&self, with: impl Fn(), without: impl Fn()) {
        with();
        without();
        let without = (0..self.repeat).map(|_| timed(&without)).collect();
        let with = (0..self.repeat).map(|_| marked(&with)).collect();
        self.print(with, without);
    }

    /// One sample of the stretch, marked.
    pub fn sample(&self, stretch: impl FnOnce()) -> u64 {
        marked(stretch)
    }

    /// One sample of what it is compared with.
    pub fn unmarked(&self, stretch: impl FnOnce()) -> u64 {
        timed(stretch)
    }

    /// Prints the figure out of these samples.
    pub fn print(&self, with: Least, without: Least) {
        let name = self.figure.name();
        println!(
            "bench-info: {name} {} stretches of {} rounds",
            self.repeat, self.rounds
        );
        match Cost::of(with, without, self.rounds, frequency()) {
            Some(cost) => println!("bench: {name} {cost} instructions"),
            None => println!(
                "FAIL {name}: {:?} ticks with and {:?} without",
                with.get(),
                without.get()
            ),
        }
    }
}

/// What the counter showed when this program began.
static START: AtomicU64 = AtomicU64::new(0);

/// This program begins.
pub fn start() {
    START.store(read_sysreg!("cntpct_el0"), Relaxed);
}

/// Prints when it began, by the physical counter, which counts from the board's reset on.
pub fn started() {
    let nanoseconds =
        u128::from(START.load(Relaxed)) * 1_000_000_000 / u128::from(frequency().max(1));
    println!("bench: {} {nanoseconds} ns", Figure::Start.name());
}

/// The figure is not there on this machine.
pub fn not_here(figure: Figure, why: &str) {
    println!("bench-info: {} is not here: {why}", figure.name());
}
