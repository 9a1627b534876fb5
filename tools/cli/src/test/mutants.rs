//! Mutation testing: faults that a tool plants in `core/`, one at a time, which its tests must catch.
//!
//! There are some twelve thousand, and each is built and tested by itself, so a run takes one shard
//! of them. Which one follows from the commit, so that another commit looks at others; the
//! environment's `HANOK_MUTANTS` chooses another one, as `SHARD/SHARDS`. Mutants that change nothing
//! that a test could see are listed with the reason in `.cargo/mutants.toml`.
//!
//! A mutant meets the tests of its own package, in a build that is optimized a little: properties
//! that take half a minute else take a second, which is worth the longer build. What is tested by
//! another package's tests meets these, too ([`TESTED_BY`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::{Tally, TestStep};
use crate::cargo::cargo;
use crate::{process, repo, ui};

/// What only `--all` runs, or its name.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "mutants",
    run: |root| match run(root) {
        Ok(tally) => tally,
        Err(error) => Tally::fail(format!("{error:#}")),
    },
}];

/// The tool, from crates.io, and the version whose results are read here.
const TOOL: &str = "cargo-mutants";
const VERSION: &str = "27.1.0";
/// How many shards there are where nobody says otherwise: some sixty mutants each.
const SHARDS: u32 = 200;
/// Packages whose tests are not only their own, and where the others are: what the rewriting of
/// instructions makes runs on a model of a CPU in the rewriter's tests, and the checker says what
/// it thinks of certificates in those of the analysis, which makes them.
const TESTED_BY: &[(&str, &[&str])] = &[
    ("hanok-abi", &["hanok-previrt", "hanok-vm"]),
    ("hanok-certificate-checker", &["hanok-analysis"]),
    ("hanok-task-model", &["hanok-analysis", "hanok-simulator"]),
];
/// How many of a hundred mutants must be caught.
const CAUGHT_PERCENT: usize = 95;
/// Seconds after which a mutant that makes its tests run for ever counts as caught.
const PATIENCE: &str = "300";
/// Address space of each process, in KiB: enough for the compiler, and no PC is brought down.
const MEMORY_KIB: u32 = 8 << 20;

/// `outcomes.json` of the tool.
#[derive(Default, Deserialize)]
struct Outcomes {
    outcomes: Vec<Outcome>,
}

/// What one mutant, or the tree as it is, came to.
#[derive(Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: String,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant { name: String },
}

fn run(root: &Path) -> Result<Tally> {
    let shard = match env::var("HANOK_MUTANTS") {
        Ok(text) => Shard::parse(&text)?,
        Err(_) => Shard::of_commit(&commit(root)?),
    };
    ui::line(format_args!("     shard {}/{}", shard.index, shard.count));
    let tool = tool(root)?;
    let packages = super::code::packages(root, &["core/"])?;
    let mut found = Outcomes::default();
    for group in groups(&packages) {
        let outcomes = run_group(root, &tool, shard, &group)?.outcomes;
        found.outcomes.extend(outcomes);
    }
    judged(&found)
}

/// Packages whose mutants meet the tests of the same packages.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    packages: Vec<&'a str>,
    /// Beside their own; where there is one, `packages` has one alone.
    tests: &'static [&'static str],
}

/// All `packages`, each in one group.
fn groups(packages: &[String]) -> Vec<Group<'_>> {
    let of = |name: &str| TESTED_BY.iter().find(|(package, _)| *package == name);
    let names = packages.iter().map(String::as_str);
    let (others, alone) = names.partition(|name| of(name).is_some());
    let mut groups = vec![Group {
        packages: alone,
        tests: &[],
    }];
    groups.extend(others.into_iter().map(|name: &str| Group {
        packages: vec![name],
        tests: of(name).map_or(&[], |(_, tests)| tests),
    }));
    groups
}

/// Plants the mutants of a shard in the packages of a group.
fn run_group(root: &Path, tool: &Path, shard: Shard, group: &Group) -> Result<Outcomes> {
    let folder = repo::target_dir(root).join("mutants");
    let output = folder.join(group.tests.first().map_or("own", |_| group.packages[0]));
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    fs::create_dir_all(&output)?;
    // A mutant may also ask for memory for ever.
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .current_dir(root)
        .args(["-c", &limited])
        .arg(tool)
        .arg("mutants")
        // What does not belong to the workspace is built once for all groups.
        .env("CARGO_TARGET_DIR", folder.join("build"))
        .envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "1")])
        .envs([
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ("CARGO_PROFILE_TEST_DEBUG", "0"),
        ]);
    command.args(["--colors", "never", "--no-times", "--timeout", PATIENCE]);
    command.args(["--sharding", "round-robin", "--shard"]);
    command.arg(format!("{}/{}", shard.index, shard.count));
    command.arg("--output").arg(&output);
    for name in &group.packages {
        command.args(["--package", name]);
    }
    if !group.tests.is_empty() {
        for name in group.packages.iter().chain(group.tests) {
            command.args(["--test-package", name]);
        }
    }
    // Examples of documents are no tests of `core/`: it has none.
    command.args(["--cargo-test-arg=--lib", "--cargo-test-arg=--tests"]);
    // It ends with an error where a mutant was missed; its report says which.
    let ended = command.output().context("cannot start cargo-mutants")?;
    let report = output.join("mutants.out").join("outcomes.json");
    // A small package has none in many a shard, and then there is no report.
    if ended.status.success() && !report.exists() {
        return Ok(Outcomes::default());
    }
    let text = fs::read_to_string(&report).with_context(|| {
        let words = String::from_utf8_lossy(&ended.stderr).into_owned();
        format!("cargo-mutants left no report: {}", super::tail(&words, 20))
    })?;
    serde_json::from_str(&text).context("its report is not understood")
}

/// Each mutant that was caught counts as passed; those that were missed are shown, and count as
/// failed where they are too many.
fn judged(found: &Outcomes) -> Result<Tally> {
    let (mut caught, mut missed) = (0, Vec::new());
    for outcome in &found.outcomes {
        match (&outcome.scenario, outcome.summary.as_str()) {
            (Scenario::Baseline, "Success") | (Scenario::Mutant { .. }, "Unviable") => {}
            (Scenario::Baseline, other) => bail!("the tests fail without a mutant: {other}"),
            (Scenario::Mutant { .. }, "CaughtMutant" | "Timeout") => caught += 1,
            (Scenario::Mutant { name }, "MissedMutant") => missed.push(name.as_str()),
            (Scenario::Mutant { name }, other) => bail!("{name}: {other}"),
        }
    }
    let all = caught + missed.len();
    ensure!(all > 0, "no mutant was tested");
    let enough = caught * 100 >= all * CAUGHT_PERCENT;
    let list = missed.iter().map(|name| format!("missed: {name}\n"));
    let words = format!("caught {caught} of {all} mutants, and {CAUGHT_PERCENT} % are wanted");
    Ok(Tally {
        passed: caught,
        failed: if enough { 0 } else { missed.len() },
        details: list.chain([words]).collect(),
        ..Tally::default()
    })
}

/// One of `count` parts of all mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    fn parse(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').map(|(a, b)| (a.parse(), b.parse()));
        match numbers {
            Some((Ok(index), Ok(count))) if index < count => Ok(Self { index, count }),
            _ => bail!("HANOK_MUTANTS is SHARD/SHARDS, such as 3/200, and not {text:?}"),
        }
    }

    /// The one that a commit's hash, in hexadecimal digits, falls to.
    fn of_commit(hash: &str) -> Self {
        let digits = hash.chars().take(7).filter_map(|digit| digit.to_digit(16));
        let number = digits.fold(0, |number, digit| number << 4 | digit);
        Self {
            index: number % SHARDS,
            count: SHARDS,
        }
    }
}

fn commit(root: &Path) -> Result<String> {
    let mut git = Command::new("git");
    let output = process::run(git.current_dir(root).args(["rev-parse", "HEAD"]))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The tool, built into the build folder where it is not there yet.
fn tool(root: &Path) -> Result<PathBuf> {
    let folder = repo::target_dir(root).join("tools").join(VERSION);
    let path = folder.join("bin").join(TOOL);
    if !path.exists() {
        let step = ui::Step::new("Building cargo-mutants");
        let mut install = cargo(root);
        install.args(["install", "--locked", "--quiet", "--version", VERSION, TOOL]);
        process::run(install.arg("--root").arg(&folder))?;
        step.done();
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(mutants: &[&str]) -> Result<Tally> {
        let one = |summary: &&str| {
            format!(r#"{{"scenario": {{"Mutant": {{"name": "m"}}}}, "summary": "{summary}"}}"#)
        };
        let all: Vec<_> = mutants.iter().map(one).collect();
        let base = r#"{"scenario": "Baseline", "summary": "Success"}"#;
        let text = format!(
            r#"{{"outcomes": [{base}{}]}}"#,
            all.iter().map(|one| format!(", {one}")).collect::<String>()
        );
        judged(&serde_json::from_str(&text)?)
    }

    #[test]
    fn each_package_is_in_one_group() {
        let names = ["hanok-abi", "hanok-vm", "hanok-decode"].map(str::to_owned);
        let found = groups(&names);
        let of = |at: usize| (found[at].packages.as_slice(), found[at].tests);
        assert_eq!(found.len(), 2);
        assert_eq!(of(0), (&["hanok-vm", "hanok-decode"][..], &[][..]));
        assert_eq!(of(1), (&["hanok-abi"][..], TESTED_BY[0].1));
    }

    #[test]
    fn too_many_missed_ones_fail() {
        let mut mutants = vec!["CaughtMutant"; 18];
        mutants.extend(["Timeout", "MissedMutant", "Unviable"]);
        let tally = report(&mutants).unwrap();
        assert_eq!((tally.passed, tally.failed), (19, 0));
        assert!(tally.details.contains("missed: m"));
        mutants.push("MissedMutant");
        let tally = report(&mutants).unwrap();
        assert_eq!((tally.passed, tally.failed), (19, 2));
    }

    #[test]
    fn a_run_that_says_nothing_is_an_error() {
        assert!(report(&[]).is_err());
        assert!(report(&["Unviable"]).is_err());
        assert!(report(&["Exploded"]).is_err());
        let broken = r#"{"outcomes": [{"scenario": "Baseline", "summary": "Failure"}]}"#;
        assert!(judged(&serde_json::from_str(broken).unwrap()).is_err());
    }

    #[test]
    fn shards_are_read_and_follow_from_the_commit() {
        let shard = Shard {
            index: 3,
            count: 200,
        };
        assert_eq!(Shard::parse("3/200").unwrap(), shard);
        for text in ["", "3", "3/3", "-1/3", "a/b"] {
            assert!(Shard::parse(text).is_err(), "{text}");
        }
        assert_eq!(Shard::of_commit("00000cb0"), shard);
        assert_ne!(Shard::of_commit("0000000a"), Shard::of_commit("000000a0"));
    }
}
