//! What runs beside what: one lane more than the PC has cores. A board that waits for its guest's clock, a
//! compiler that has one thread left and a build that waits for cargo's lock leave a core to the others.
//!
//! The first lane begins with what cargo does for the PC (format, lints, unit tests) and the rules
//! of the house; the others with what needs the hypervisor's images, which they build meanwhile, and
//! go on with the scenarios, those first that take longest: were one of these the last, the other
//! lanes would have nothing to do beside it. Each takes from the others' work once its own is done.
//!
//! Cargo locks a folder of its target directory for each build: the first lane's builds are in the
//! PC's `debug`, the second's in the images' `release`, so that neither waits for the other long.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::matrix::Case;
use super::runner::Runner;
use super::step::{ListedStep, Tally, told};
use super::times::Times;
use hanok_artifacts::Store;

/// The first lane begins with the step whose name begins with this.
const OF_THE_PC: [&str; 6] = [
    "fmt",
    "clippy-host",
    "clippy-boards",
    "unit",
    "interleavings",
    "rule-",
];

/// Files of `tests/` with cases that take a minute and more of a PC that does nothing else, the longest first.
const LONGEST: [&str; 2] = ["tests/fuzz-guest.toml", "tests/fuzz-guest-arm.toml"];
/// How much of the PC's memory a lane may take: a board, its image, and what builds it.
const MEMORY_OF_ONE: u64 = 3 << 30;

/// So many lanes, by the PC's cores and the bytes of memory that nobody uses, if that is known.
fn lanes(cores: usize, free: Option<u64>) -> usize {
    let room = free.map_or(usize::MAX, |free| {
        usize::try_from(free / MEMORY_OF_ONE).unwrap_or(usize::MAX)
    });
    (cores + 1).min(room).max(2)
}

/// Of `/proc/meminfo`: the bytes that nobody uses, or that could be had.
fn free_memory(meminfo: &str) -> Option<u64> {
    let of_line = |line: &str| {
        line.strip_prefix("MemAvailable:")?
            .strip_suffix("kB")?
            .trim()
            .parse()
            .ok()
    };
    let kibibytes: u64 = meminfo.lines().find_map(of_line)?;
    Some(kibibytes << 10)
}

/// The lanes of this PC.
fn lanes_here() -> usize {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    lanes(cores, free_memory(&meminfo))
}

/// Something to run.
enum Job<'a> {
    Step(&'a ListedStep),
    Case(&'a Case),
}

impl Job<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Step(step) => &step.name,
            Self::Case(case) => &case.name,
        }
    }
}

/// The work of the first lane and that of the others, each in its order.
fn planned<'a>(steps: &'a [ListedStep], cases: &'a [Case]) -> [VecDeque<Job<'a>>; 2] {
    let of_the_pc = |step: &&ListedStep| {
        let begins = |start: &&str| step.name.starts_with(*start);
        OF_THE_PC.iter().any(begins)
    };
    let (first, second): (Vec<_>, Vec<_>) = steps.iter().partition(of_the_pc);
    let first = first.into_iter().map(Job::Step);
    let second = second.into_iter().map(Job::Step);
    let mut cases: Vec<_> = cases.iter().collect();
    let place = |case: &&Case| {
        LONGEST
            .iter()
            .position(|file| *file == case.file)
            .unwrap_or(LONGEST.len())
    };
    cases.sort_by_key(place);
    let cases = cases.into_iter().map(Job::Case);
    [first.collect(), second.chain(cases).collect()]
}

/// What the lanes share.
struct Shared<'a> {
    root: &'a Path,
    runner: Option<Runner<'a>>,
    waiting: Mutex<[VecDeque<Job<'a>>; 2]>,
    done: Mutex<(Tally, Times)>,
}

/// Runs everything. `store` is there if there are cases.
pub fn run(
    root: &Path,
    store: Option<Store>,
    steps: &[ListedStep],
    cases: &[Case],
) -> (Tally, Times) {
    let shared = Shared {
        root,
        runner: store.map(|store| Runner::new(root, store)),
        waiting: Mutex::new(planned(steps, cases)),
        done: Mutex::default(),
    };
    thread::scope(|scope| {
        for lane in 0..lanes_here() {
            let shared = &shared;
            scope.spawn(move || shared.work(lane.min(1)));
        }
    });
    let done = shared.done.into_inner();
    done.unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Shared<'a> {
    /// Runs what there is of the first lane's work (0) or of the others' (1), and then of the other kind.
    fn work(&self, lane: usize) {
        loop {
            // The lock ends with this statement, so that the job does not run under it.
            let job = next(&mut locked(&self.waiting), lane);
            let Some(job) = job else { return };
            let start = Instant::now();
            let tally = self.one(&job);
            let time = start.elapsed();
            let mut done = locked(&self.done);
            told(job.name(), &tally, time);
            done.0.add(&tally);
            done.1.add(job.name(), time);
        }
    }

    fn one(&self, job: &Job<'a>) -> Tally {
        match (job, &self.runner) {
            (Job::Step(step), _) => {
                eprintln!("{} ...", step.name);
                (step.run)(self.root)
            }
            (Job::Case(case), Some(runner)) => runner.run(case),
            (Job::Case(_), None) => Tally::fail("no store was opened"),
        }
    }
}

/// The next job of this lane, or else of the other one.
fn next<T>(waiting: &mut [VecDeque<T>; 2], lane: usize) -> Option<T> {
    let own = waiting[lane].pop_front();
    own.or_else(|| waiting[1 - lane].pop_front())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::{Steps, matrix};

    #[test]
    fn a_lane_helps_the_other_when_its_own_work_is_done() {
        let mut waiting = [VecDeque::from([1]), VecDeque::from([2, 3])];
        assert_eq!(next(&mut waiting, 0), Some(1));
        assert_eq!(next(&mut waiting, 0), Some(2));
        assert_eq!(next(&mut waiting, 1), Some(3));
        assert_eq!(next(&mut waiting, 1), None);
    }

    #[test]
    fn everything_has_a_lane_and_the_boards_are_behind_the_images() {
        let steps = Steps::fixed().always;
        let cases = matrix::parse("t", "system = 'x'").unwrap();
        let [first, second] = planned(&steps, &cases);
        assert_eq!(first.len() + second.len(), steps.len() + cases.len());
        for start in OF_THE_PC {
            assert!(
                first.iter().any(|job| job.name().starts_with(start)),
                "{start}"
            );
        }
        assert_eq!(second.back().map(Job::name), Some("t"));
        assert!(second.iter().any(|job| job.name() == "image"));
    }

    #[test]
    fn one_lane_more_than_cores_as_far_as_memory_goes() {
        let free = |gibibytes: u64| Some(gibibytes << 30);
        assert_eq!(lanes(2, free(16)), 3);
        assert_eq!(lanes(16, free(24)), 8);
        assert_eq!(lanes(1, free(1)), 2);
        assert_eq!(lanes(2, None), 3);
        let meminfo = "MemTotal:       24598384 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(free_memory(meminfo), Some(23_000_000 << 10));
        assert_eq!(free_memory("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn what_takes_longest_comes_first_and_is_there() {
        let of = |file: &str| matrix::parse(file, "system = 'x'").unwrap();
        let stem = |file: &str| {
            file.trim_start_matches("tests/")
                .trim_end_matches(".toml")
                .to_owned()
        };
        let mut cases = of("board");
        cases.extend(LONGEST.iter().rev().flat_map(|file| of(&stem(file))));
        let [_, planned] = planned(&[], &cases);
        let names: Vec<_> = planned.iter().map(Job::name).collect();
        let wanted: Vec<_> = LONGEST
            .iter()
            .map(|file| stem(file))
            .chain(["board".to_owned()])
            .collect();
        assert_eq!(names, wanted);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(LONGEST.iter().all(|file| root.join(file).exists()));
    }

    #[test]
    fn the_lanes_run_at_the_same_time() {
        let step = |name: &str, run: Box<dyn Fn(&Path) -> Tally + Send + Sync>| ListedStep {
            name: name.to_owned(),
            run,
        };
        // Each step ends once the other has begun.
        let meeting = Arc::new(Barrier::new(2));
        let other = Arc::clone(&meeting);
        let steps = [
            step(
                "fmt",
                Box::new(move |_| {
                    meeting.wait();
                    Tally::pass()
                }),
            ),
            step(
                "image",
                Box::new(move |_| {
                    other.wait();
                    Tally::pass()
                }),
            ),
        ];
        let (total, _) = run(Path::new("."), None, &steps, &[]);
        assert_eq!(total.passed, 2);
    }

    #[test]
    fn both_lanes_results_are_counted() {
        let step = |name: &str| ListedStep {
            name: name.to_owned(),
            run: Box::new(|_| Tally::pass()),
        };
        let steps = [step("fmt"), step("image"), step("signals")];
        let (total, _) = run(Path::new("."), None, &steps, &[]);
        assert_eq!(
            total,
            Tally {
                passed: 3,
                ..Tally::default()
            }
        );
    }
}
