//! `hanok test`: everything that can be checked, counted, with one line of totals.
//!
//! Three kinds: cargo's own (format, lints, unit tests), rules of the house that no
//! compiler checks, and scenarios that boot a board. Every kind counts single tests.

#![forbid(unsafe_code)]

mod bench;
mod bounds;
mod budget_error;
mod changed;
mod circles;
mod code;
mod connect;
mod contract;
mod damage;
mod documents;
mod elf;
mod ids;
mod image;
mod lanes;
mod latency;
mod lines;
mod matrix;
mod monitor;
mod mutants;
mod numbers;
mod pool;
mod prepare;
mod previrt;
mod profile;
mod random_boards;
mod release;
mod reported;
mod reports;
mod rules;
mod runner;
mod running;
pub mod scenario;
mod schedule_events;
mod screen;
mod serial;
mod step;
pub mod step_spec;
mod times;
mod top;
mod traced;
mod unlike;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use self::changed::{Affected, Graph};
use self::matrix::Case;
use self::step::ListedStep;
use hanok_artifacts::Store;
use hanok_artifacts::qemu::Qemu;
use hanok_base::cpu;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui;
use hanok_base::ui::counted;

/// Arguments of `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Run only these tests (all, if none is named).
    pub names: Vec<String>,
    /// Only list the tests' names.
    #[arg(long)]
    pub list: bool,
    /// The slow tests and scenarios, too.
    #[arg(long)]
    pub all: bool,
    /// Run only what the changes since a commit can affect, with changes that are not committed;
    /// without a commit: since this branch left main, on main since the commit before.
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, require_equals = true)]
    pub changed: Option<Option<String>>,
}

/// The part of all tests that is run.
struct Selection {
    steps: Vec<ListedStep>,
    cases: Vec<Case>,
    /// Cases that need another QEMU than Debian's, where none is named.
    left_out: Vec<Case>,
    /// The number of steps and cases that only `--all` runs.
    slow: usize,
}

impl Selection {
    /// The tests whose names begin with one of `names`, or all; of the slow ones only those that are
    /// named, unless `all` asks for them.
    ///
    /// # Errors
    ///
    /// A name with which no test begins: it is misspelt, and whoever gave it would believe that
    /// its tests passed.
    fn of(steps: Steps, cases: Vec<Case>, names: &[String], all: bool) -> Result<Self> {
        let known = |start: &str| {
            let mut steps = steps.always.iter().chain(&steps.slow);
            steps.any(|step| step.name.starts_with(start))
                || cases.iter().any(|case| case.name.starts_with(start))
        };
        let unknown: Vec<_> = names.iter().filter(|name| !known(name)).collect();
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.iter().map(|name| format!("{name:?}")).collect();
            bail!(
                "no test has a name that begins with {}; --list shows them",
                unknown.join(" or ")
            );
        }
        let wanted = |name: &str| {
            names.is_empty() || names.iter().any(|start| name.starts_with(start.as_str()))
        };
        let slow_ones = all || !names.is_empty();
        let runs = |case: &Case| wanted(&case.name) && (slow_ones || !case.scenario.slow);
        let (cases, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(runs);
        let (cases, left_out) = split(cases, Qemu::is_named());
        let slow_cases = others.iter().filter(|case| wanted(&case.name)).count();
        let of = |steps: Vec<ListedStep>| -> Vec<_> {
            let steps = steps.into_iter();
            steps.filter(|step| wanted(&step.name)).collect()
        };
        let (mut steps, slow) = (of(steps.always), of(steps.slow));
        let slow_left = if slow_ones { 0 } else { slow.len() };
        if slow_ones {
            steps.extend(slow);
        }
        Ok(Self {
            steps,
            cases,
            left_out,
            slow: slow_left + slow_cases,
        })
    }

    /// Drops what the changes since `base` cannot affect, and says how much that is.
    fn keep_affected(&mut self, root: &Path, base: Option<&str>) -> Result<()> {
        let paths = changed::paths(root, base)?;
        let affected = Affected::by(&paths, Graph::load(root)?);
        let before = self.steps.len() + self.cases.len();
        self.steps.retain(|step| affected.runs_step(&step.name));
        let runs = |case: &Case| affected.runs_case(case, |path| changed::text(root, path));
        self.cases.retain(runs);
        self.left_out.retain(runs);
        let after = self.steps.len() + self.cases.len();
        ui::line(format_args!(
            "--   {} changed: {after} of {before} steps and scenarios can be affected",
            counted(paths.len() as u64, "file")
        ));
        Ok(())
    }
}

/// All tests that are not scenarios.
struct Steps {
    /// The tests of every run.
    always: Vec<ListedStep>,
    /// The tests that only `--all` runs, or their names.
    slow: Vec<ListedStep>,
}

impl Steps {
    /// The tests that do not depend on files.
    fn fixed() -> Self {
        let always = [
            code::STEPS,
            rules::STEPS,
            elf::STEPS,
            lines::STEPS,
            contract::STEPS,
            bench::STEPS,
            profile::STEPS,
            bounds::STEPS,
            latency::STEPS,
            budget_error::STEPS,
            release::STEPS,
            ids::STEPS,
            random_boards::STEPS,
            schedule_events::STEPS,
            reports::STEPS,
            top::STEPS,
            traced::STEPS,
        ];
        let slow = [
            bounds::SLOW_STEPS,
            profile::SLOW_STEPS,
            pool::SLOW_STEPS,
            random_boards::SLOW_STEPS,
            schedule_events::SLOW_STEPS,
            latency::SLOW_STEPS,
            budget_error::SLOW_STEPS,
            release::SLOW_STEPS,
            code::SLOW_STEPS,
            top::SLOW_STEPS,
            traced::SLOW_STEPS,
            mutants::SLOW_STEPS,
            previrt::SLOW_STEPS,
            image::SLOW_STEPS,
        ];
        Self {
            always: always.into_iter().flatten().map(Into::into).collect(),
            slow: slow.into_iter().flatten().map(Into::into).collect(),
        }
    }

    /// All of them, with those that files in `tests/` list.
    fn load(root: &Path) -> Result<Self> {
        let mut all = Self::fixed();
        all.slow.extend(previrt::listed(root)?);
        Ok(all)
    }
}

/// Runs the tests.
pub fn run(root: &Path, args: &TestArgs, yes: bool) -> Outcome {
    let cases = matrix::load(root).blame(Code::Usage)?;
    let steps = Steps::load(root).blame(Code::Usage)?;
    let mut selection = Selection::of(steps, cases, &args.names, args.all).blame(Code::Usage)?;
    if let Some(base) = &args.changed {
        selection
            .keep_affected(root, base.as_deref())
            .blame(Code::Usage)?;
    }
    let Selection {
        steps,
        cases,
        left_out,
        slow,
    } = selection;
    if args.list {
        list(&steps, cases.iter().chain(&left_out));
        return Ok(Code::Success);
    }
    let store = (!cases.is_empty()).then(|| Store::open(yes, false));
    let store = store.transpose().blame(Code::Setup)?;
    if let Some(store) = &store {
        runner::agree(root, store, &cases)?;
    }
    let (began, cpu_before) = (Instant::now(), cpu::of_children());
    let (mut total, times) = lanes::run(root, store, &steps, &cases);
    left_out.iter().for_each(told_left_out);
    told_skipped(slow, total.skipped);
    total.skipped += slow + left_out.len();
    times.told(
        began.elapsed(),
        cpu::of_children().saturating_sub(cpu_before),
    );
    ui::line(format_args!("{}", total.closing()));
    Ok(total.code())
}

/// Prints the names, and what each scenario is for.
fn list<'a>(steps: &[ListedStep], cases: impl Iterator<Item = &'a Case>) {
    for step in steps {
        ui::line(format_args!("{}", step.name));
    }
    for case in cases {
        ui::line(format_args!("{:<44} {}", case.name, case.scenario.about));
    }
}

/// Says what was left out because it is slow, and how to run it: `steps` and scenarios, and `unit`
/// tests.
fn told_skipped(scenarios: usize, unit: usize) {
    if scenarios > 0 {
        let what = counted(scenarios as u64, "slow step or scenario");
        ui::line(format_args!(
            "--   skipped: {what}; --all runs them, and --list --all shows them"
        ));
    }
    if unit > 0 {
        let what = counted(unit as u64, "slow unit test");
        ui::line(format_args!(
            "--   skipped: {what}; the steps ...-whole of --all run them"
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::step::Tally;
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

    fn selected(names: &[&str], all: bool) -> Result<(Vec<String>, usize)> {
        let text = "system = 'x'\n[[cases]]\nname = 'a'\n[[cases]]\nname = 'b'\nslow = true";
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let cases = matrix::parse("t", text).unwrap();
        let selection = Selection::of(Steps::fixed(), cases, &names, all)?;
        let cases = selection.cases.into_iter().map(|case| case.name);
        Ok((cases.collect(), selection.slow))
    }

    #[test]
    fn slow_ones_that_are_left_out_are_counted() {
        let steps = Steps::fixed().slow.len();
        assert!(steps > 0);
        assert_eq!(
            selected(&[], false).unwrap(),
            (vec!["t [a]".into()], steps + 1)
        );
        let both = vec!["t [a]".to_owned(), "t [b]".to_owned()];
        assert_eq!(selected(&[], true).unwrap(), (both.clone(), 0));
        assert_eq!(selected(&["t ["], false).unwrap(), (both, 0));
        let mut total = Tally::pass();
        assert_eq!(total.closing(), "1 passed, 0 failed");
        total.skipped = 2;
        assert_eq!(total.closing(), "1 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_name_that_no_test_has_is_refused_beside_right_ones() {
        let error = selected(&["t [a]", "fnt", "u ["], false).unwrap_err();
        let words = error.to_string();
        assert!(words.contains("\"fnt\" or \"u [\""), "{words}");
        assert!(selected(&["fmt", "previrt-assembler"], false).is_ok());
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
