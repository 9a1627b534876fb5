//! Runs tests in two lanes at the same time, since a PC has at least two cores.

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
    "clippy-core",
    "unit",
    "interleavings",
    "rule-",
];

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

/// The two lanes' work, each in its order.
fn planned<'a>(steps: &'a [ListedStep], cases: &'a [Case]) -> [VecDeque<Job<'a>>; 2] {
    let of_the_pc = |step: &&ListedStep| {
        let begins = |start: &&str| step.name.starts_with(*start);
        OF_THE_PC.iter().any(begins)
    };
    let (first, second): (Vec<_>, Vec<_>) = steps.iter().partition(of_the_pc);
    let first = first.into_iter().map(Job::Step);
    let second = second.into_iter().map(Job::Step);
    let cases = cases.iter().map(Job::Case);
    [first.collect(), second.chain(cases).collect()]
}

/// What both lanes share.
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
        for lane in 0..2 {
            let shared = &shared;
            scope.spawn(move || shared.work(lane));
        }
    });
    let done = shared.done.into_inner();
    done.unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Shared<'a> {
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
