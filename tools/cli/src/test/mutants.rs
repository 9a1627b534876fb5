//! Mutation testing: faults that a tool plants in `core/`, one at a time, which its tests must catch.
//!
//! There are some nine thousand, and each is built and tested by itself, so a run takes one shard of
//! them. Which one follows from the commit, so that another commit looks at others; the
//! environment's `HANOK_MUTANTS` chooses another one, as `SHARD/SHARDS`. Mutants that change nothing
//! that a test could see are listed with the reason in `.cargo/mutants.toml`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

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
/// How many shards there are where nobody says otherwise: some forty mutants each.
const SHARDS: u32 = 200;
/// How many of a hundred mutants must be caught.
const CAUGHT_PERCENT: usize = 95;
/// Seconds after which a mutant that makes its tests run for ever counts as caught.
const PATIENCE: &str = "300";
/// Address space of each process, in KiB: enough for the compiler, and no PC is brought down.
const MEMORY_KIB: u32 = 8 << 20;

/// `outcomes.json` of the tool.
#[derive(Deserialize)]
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
    let folder = repo::target_dir(root).join("mutants");
    let packages = super::code::packages(root, &["core/"])?;
    // A mutant may also ask for memory for ever.
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .current_dir(root)
        .args(["-c", &limited])
        .arg(tool)
        .arg("mutants");
    command.args(["--colors", "never", "--no-times", "--timeout", PATIENCE]);
    command.args(["--sharding", "round-robin", "--shard"]);
    command.arg(format!("{}/{}", shard.index, shard.count));
    command.arg("--output").arg(&folder);
    packages.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    // It ends with an error where a mutant was missed; its report says which.
    let output = command.output().context("cannot start cargo-mutants")?;
    let report = folder.join("mutants.out").join("outcomes.json");
    let text = std::fs::read_to_string(&report).with_context(|| {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("cargo-mutants left no report: {}", super::tail(&words, 20))
    })?;
    judged(&serde_json::from_str(&text).context("its report is not understood")?)
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
