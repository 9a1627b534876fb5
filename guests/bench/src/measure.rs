//! Takes samples of a stretch, and prints a figure.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_bench_plan::{Cost, Figure, Least};
use hanok_guest_runtime::{marker, timer};

/// The counter's frequency in Hz.
pub fn frequency() -> u64 {
    read_sysreg!("cntfrq_el0")
}

/// The time of a stretch in ticks.
fn timed(stretch: impl FnOnce()) -> u64 {
    let start = timer::now();
    stretch();
    timer::now().wrapping_sub(start)
}

/// The time of a stretch in ticks, with a marker before it and one behind it.
fn marked(stretch: impl FnOnce()) -> u64 {
    marker::begin();
    let ticks = timed(stretch);
    marker::end();
    ticks
}

/// A stretch that is measured: `repeat` samples of `rounds` rounds.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// The figure that it measures.
    pub figure: Figure,
    /// The number of samples; the least counts.
    pub repeat: u32,
    /// The number of rounds of one sample.
    pub rounds: u64,
}

impl Stretch {
    /// Measures `with` and, unmarked, `without`, and prints by how much a round with it costs more.
    /// Each runs once before it counts, because the first time costs more.
    pub fn compare(&self, with: impl Fn(), without: impl Fn()) {
        with();
        without();
        let without = (0..self.repeat).map(|_| timed(&without)).collect();
        let with = (0..self.repeat).map(|_| marked(&with)).collect();
        self.print(with, without);
    }

    /// Takes one sample of the stretch, marked.
    pub fn sample(&self, stretch: impl FnOnce()) -> u64 {
        marked(stretch)
    }

    /// Takes one sample of the stretch that it is compared with.
    pub fn unmarked(&self, stretch: impl FnOnce()) -> u64 {
        timed(stretch)
    }

    /// Prints the figure from these samples.
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

/// The value of the counter when this program began.
static START: AtomicU64 = AtomicU64::new(0);

/// Notes that this program begins.
pub fn start() {
    START.store(read_sysreg!("cntpct_el0"), Relaxed);
}

/// Prints when this program began, by the physical counter, which counts from the board's reset.
pub fn started() {
    let nanoseconds =
        u128::from(START.load(Relaxed)) * 1_000_000_000 / u128::from(frequency().max(1));
    println!("bench: {} {nanoseconds} ns", Figure::Start.name());
}

/// Prints that this machine does not have the figure.
pub fn not_here(figure: Figure, why: &str) {
    println!("bench-info: {} is not here: {why}", figure.name());
}
