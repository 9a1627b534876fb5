//! `hanok test`: everything that can be checked, counted, with one line of totals.
//!
//! Three kinds: cargo's own (format, lints, unit tests), rules of the house that no
//! compiler checks, and scenarios that boot a board. Every kind counts single tests.

mod bench;
mod code;
mod contract;
mod damage;
mod elf;
pub mod form;
mod ids;
mod matrix;
mod numbers;
mod prepare;
mod previrt;
mod profile;
mod rules;
mod runner;
pub mod scenario;

pub use code::tail;

use std::path::Path;
use std::time::{Duration, Instant};

use self::matrix::Case;
use crate::args::TestArgs;
use crate::artifacts::Store;
use crate::artifacts::qemu::Qemu;
use crate::exit::{Blame, Code, Outcome, failure};
use crate::ui;

/// What a test, or a group of them, came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// What is told when something failed.
    pub details: String,
}

impl Tally {
    /// A single test that passed.
    pub fn pass() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// A single test that failed.
    pub fn fail(details: impl Into<String>) -> Self {
        Self {
            failed: 1,
            details: details.into(),
            ..Self::default()
        }
    }

    /// What the whole run ends with. Where nothing was tried, nothing is known.
    fn code(&self) -> Code {
        match (self.passed, self.failed) {
            (1.., 0) => Code::Success,
            _ => Code::TestsFailed,
        }
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Prints one step's result as it comes.
pub fn told(name: &str, tally: &Tally, time: Duration) {
    let word = if tally.failed == 0 {
        ui::green("ok  ")
    } else {
        ui::red("FAIL")
    };
    let counts = match (tally.passed, tally.failed) {
        (1, 0) | (0, 1) => String::new(),
        (passed, 0) => format!(", {passed} passed"),
        (passed, failed) => format!(", {passed} passed, {failed} failed"),
    };
    ui::line(format_args!(
        "{word} {name} ({:.1} s{counts})",
        time.as_secs_f64()
    ));
    for line in tally.details.lines() {
        ui::line(format_args!("     {line}"));
    }
}

/// Runs the tests.
pub fn run(root: &Path, args: &TestArgs, yes: bool) -> Outcome {
    let cases = matrix::load(root).blame(Code::Usage)?;
    let wanted = |name: &str| {
        args.names.is_empty()
            || args
                .names
                .iter()
                .any(|start| name.starts_with(start.as_str()))
    };
    let named = !args.names.is_empty();
    let slow = code::SLOW_STEPS.iter().chain(previrt::SLOW_STEPS);
    let slow = slow.filter(|_| args.all || named);
    let steps = code::STEPS
        .iter()
        .chain(rules::STEPS)
        .chain(elf::STEPS)
        .chain(contract::STEPS)
        .chain(bench::STEPS)
        .chain(profile::STEPS)
        .chain(ids::STEPS)
        .chain(slow)
        .filter(|step| wanted(step.name));
    let steps: Vec<_> = steps.collect();
    let cases = cases.into_iter().filter(|case| wanted(&case.name));
    let cases: Vec<_> = cases
        .filter(|case| args.all || named || !case.scenario.slow)
        .collect();
    if args.list {
        steps
            .iter()
            .for_each(|step| ui::line(format_args!("{}", step.name)));
        for case in &cases {
            ui::line(format_args!("{:<44} {}", case.name, case.scenario.about));
        }
        return Ok(Code::Success);
    }
    let (cases, left_out) = split(cases, Qemu::is_named());
    if steps.is_empty() && cases.is_empty() && left_out.is_empty() {
        return Err(failure(
            Code::Usage,
            "no test has such a name; --list shows them",
        ));
    }
    let store = (!cases.is_empty()).then(|| Store::open(yes, false));
    let store = store.transpose().blame(Code::Setup)?;
    if let Some(store) = &store {
        runner::agree(root, store, &cases)?;
    }
    let mut total = Tally::default();
    for step in steps {
        let start = Instant::now();
        let progress = ui::Step::new(step.name);
        let tally = (step.run)(root);
        drop(progress);
        told(step.name, &tally, start.elapsed());
        total.add(&tally);
    }
    if let Some(store) = store {
        total.add(&runner::run(root, store, &cases));
    }
    left_out.iter().for_each(told_left_out);
    let not_run = match left_out.len() {
        0 => String::new(),
        count => format!(", {count} not run"),
    };
    ui::line(format_args!(
        "{} passed, {} failed{not_run}",
        total.passed, total.failed
    ));
    Ok(total.code())
}

/// Those that can be run, and those that need another QEMU than Debian's, none being named.
fn split(cases: Vec<Case>, named: bool) -> (Vec<Case>, Vec<Case>) {
    let runs = |case: &Case| named || case.scenario.needs_qemu.is_none();
    cases.into_iter().partition(runs)
}

/// Says which case was not run, and what would make it.
fn told_left_out(case: &Case) {
    let why = case.scenario.needs_qemu.as_deref().unwrap_or_default();
    ui::line(format_args!(
        "--   {}: not run, needs a QEMU that HANOK_QEMU names: {why}",
        case.name
    ));
}

/// A test that is not a scenario.
pub struct TestStep {
    /// Its name.
    pub name: &'static str,
    /// Runs it in the repository.
    pub run: fn(&Path) -> Tally,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_run() {
        let mut total = Tally::default();
        assert_eq!(total.code(), Code::TestsFailed);
        total.add(&Tally::pass());
        assert_eq!(total.code(), Code::Success);
        total.add(&Tally::fail("it broke"));
        total.add(&Tally::pass());
        assert_eq!((total.passed, total.failed), (2, 1));
        assert_eq!(total.code(), Code::TestsFailed);
    }

    #[test]
    fn what_needs_another_qemu_is_left_out_where_none_is_named() {
        let text = "system = 'x'\n[[cases]]\nname = 'a'\n\
            [[cases]]\nname = 'b'\nneeds-qemu = 'a fault'";
        let names = |named| {
            let (run, left_out) = split(matrix::parse("t", text).unwrap(), named);
            let names = |cases: Vec<Case>| cases.into_iter().map(|case| case.name);
            (
                names(run).collect::<Vec<_>>(),
                names(left_out).collect::<Vec<_>>(),
            )
        };
        let of = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(false), (of(&["t [a]"]), of(&["t [b]"])));
        assert_eq!(names(true), (of(&["t [a]", "t [b]"]), of(&[])));
    }
}
