//! The reports during the run and at the end.

use crate::state;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_guest_runtime::{psci, timer};
use hanok_rtos_kernel::{Event, Kernel, Options, Simulation, Stats, Task, TaskId, Ticks, compare};

/// A time in ticks, printed in microseconds: with `{:.3}` to the nanosecond, otherwise to
/// the nearest whole.
pub struct Microseconds(pub Ticks);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frequency = u128::from(timer::frequency().max(1));
        let nanoseconds = u128::from(self.0) * 1_000_000_000 / frequency;
        if f.precision().is_some() {
            let (whole, part) = (nanoseconds / 1000, nanoseconds % 1000);
            return write!(f, "{whole}.{part:03}");
        }
        write!(f, "{}", (nanoseconds + 500) / 1000)
    }
}

static ENTRIES: AtomicU64 = AtomicU64::new(0);
static IN_KERNEL: AtomicU64 = AtomicU64::new(0);
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// Notes that the kernel was entered, and left again after `time`.
pub fn note_entry(time: Ticks) {
    ENTRIES.fetch_add(1, Relaxed);
    IN_KERNEL.fetch_add(time, Relaxed);
    LONGEST.fetch_max(time, Relaxed);
}

/// How often the kernel was entered.
pub fn entries() -> u64 {
    ENTRIES.load(Relaxed)
}

fn kernel_cost() {
    let (entries, time) = (entries(), IN_KERNEL.load(Relaxed));
    println!(
        "rtos: kernel entered {entries} times, {:.3} us on average, {:.3} us at most",
        Microseconds(time / entries.max(1)),
        Microseconds(LONGEST.load(Relaxed)),
    );
}

struct Line<'a>(&'a Task);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, stats) = (self.0.spec(), self.0.stats());
        write!(
            f,
            "rtos: task {} period {} budget {} jobs {} misses {} jitter-max {:.3} response-max {:.3} overruns {} start-max {:.3}",
            spec.name,
            Microseconds(spec.period),
            Microseconds(spec.budget),
            stats.jobs,
            stats.misses,
            Microseconds(stats.jitter_max),
            Microseconds(stats.response_max),
            stats.overruns,
            Microseconds(stats.start_max),
        )
    }
}

fn total(sum: &Stats) {
    println!(
        "rtos: total jobs {} misses {} overruns {}",
        sum.jobs, sum.misses, sum.overruns
    );
}

fn add(sum: &mut Stats, task: &Task) {
    let stats = task.stats();
    sum.jobs += stats.jobs;
    sum.misses += stats.misses;
    sum.overruns += stats.overruns;
}

/// Prints all tasks, line by line, while they go on; called by the idle loop.
pub fn interim() {
    println!("rtos: after {} us", Microseconds(state::now()));
    let mut sum = Stats::default();
    for index in 0.. {
        let task = state::with(|kernel| kernel.task(TaskId::new(index)).cloned());
        let Some(task) = task.flatten() else { break };
        println!("{}", Line(&task));
        add(&mut sum, &task);
    }
    total(&sum);
}

/// Prints everything, and powers off.
pub fn last() -> ! {
    timer::stop();
    state::with(|kernel| {
        let mut sum = Stats::default();
        for task in kernel.tasks() {
            println!("{}", Line(task));
            add(&mut sum, task);
        }
        total(&sum);
        println!("rtos: first release at tick {}", state::start());
        kernel_cost();
        crate::ask::report();
        if let Some(options) = state::options() {
            trace(kernel, options.trace);
            judge(kernel, options);
        }
    });
    psci::system_off()
}

/// Prints the first events: ticks from the start, task, what happened.
fn trace(kernel: &Kernel<'_>, count: usize) {
    for event in kernel.events().iter().take(count) {
        println!("rtos: event {}", Told(kernel, event));
    }
}

struct Told<'a>(&'a Kernel<'a>, &'a Event);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kernel, event) = self;
        let name = kernel.task(event.task).map_or("?", |task| task.spec().name);
        write!(f, "{} {name} {}", event.time, event.kind)
    }
}

/// Compares the trace with the simulation.
fn judge(kernel: &Kernel<'_>, options: &Options) {
    let Some(set) = &options.expect else { return };
    let specs = set.specs(timer::frequency());
    let bound = options.bound.saturating_mul(timer::frequency()) / 1_000_000;
    let simulation = Simulation::new(set.policy, &specs);
    match compare(kernel.events(), simulation, bound) {
        Ok(agreement) => println!(
            "rtos: schedule equals the simulation: {} events, none more than {:.3} us away",
            agreement.events,
            Microseconds(agreement.widest),
        ),
        Err(difference) => {
            println!(
                "rtos: schedule differs from the simulation after {} events",
                difference.after
            );
            println!("rtos: happened {}", Told(kernel, &difference.happened));
            if let Some(expected) = difference.expected {
                println!("rtos: expected {}", Told(kernel, &expected));
            }
        }
    }
}
