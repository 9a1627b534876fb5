//! Mutation testing: faults that a tool plants in `core/` and `lib/`, which their tests must catch.
//!
//! There are some twelve thousand, and `hanok-mutants` plants them at once, so that a run meets all
//! of them in less than an hour; the environment's `HANOK_MUTANTS` chooses a part, as
//! `SHARD/SHARDS`, or packages by their names without `hanok-`, such as `vm,vgic`. Mutants that
//! change nothing that a test could see are listed with the reason in `.cargo/mutants.toml`.
//!
//! A mutant meets the tests of its own package, in a build that is optimized a little: properties
//! that take half a minute else take a second. What is tested by another package's tests meets
//! these, too ([`TESTED_BY`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Result, bail, ensure};
use hanok_mutants::build::{self, Built};
use hanok_mutants::mutant::{self, Mutant};
use hanok_mutants::run::{self, Test, Verdict};

use crate::step::{Tally, TestStep};
use hanok_artifacts::cargo::cargo;
use hanok_base::{process, repo, ui};

/// What only `--all` runs, or its name.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "mutants",
    run: |root| match run(root) {
        Ok(tally) => tally,
        Err(error) => Tally::fail(format!("{error:#}")),
    },
}];

/// The tool that lists the mutants, from crates.io, and the version whose list is read here.
const TOOL: &str = "cargo-mutants";
const VERSION: &str = "27.1.0";
/// Packages that other packages test as well, and those packages. Rewritten instructions run on a
/// model of a CPU in the rewriter's tests; all instructions and the sensitive ones of them are
/// compared with the same oracles; and the checker judges certificates in the tests of the
/// analysis, which makes them.
const TESTED_BY: &[(&str, &[&str])] = &[
    ("hanok-abi", &["hanok-previrt", "hanok-vm"]),
    ("hanok-decode", &["hanok-instructions"]),
    ("hanok-instructions", &["hanok-decode"]),
    ("hanok-certificate-checker", &["hanok-analysis"]),
    ("hanok-task-model", &["hanok-analysis", "hanok-simulator"]),
];
/// The percentage of mutants that must be caught.
const CAUGHT_PERCENT: usize = 95;

/// The results of a package's mutants.
struct Judged<'a> {
    caught: usize,
    missed: Vec<&'a Mutant>,
}

fn run(root: &Path) -> Result<Tally> {
    let wanted = match env::var("HANOK_MUTANTS") {
        Ok(text) => Wanted::parse(&text)?,
        Err(_) => Wanted::All,
    };
    let packages = super::code::packages(root, &["core/", "lib/"])?;
    let mut mutants = mutant::list(&tool(root)?, root, &packages)?;
    mutants.retain(|one| wanted.has(one));
    (1..).zip(&mut mutants).for_each(|(id, one)| one.id = id);
    ensure!(!mutants.is_empty(), "HANOK_MUTANTS names no mutant");
    let folder = repo::target_dir(root).join("mutants");
    let built = build(root, &folder, &mutants)?;
    let step = ui::LongStep::new("Looking which tests reach which mutants");
    let tests = run::tests(&built.programs, &folder.join("notes"))?;
    step.done();
    let of_package = packages.iter().filter_map(|package| {
        let mine = mutants.iter().filter(|one| one.package == *package);
        let viable =
            |one: &&Mutant| !built.unviable.contains(&one.id) && !built.left_out.contains(&one.id);
        let mine: Vec<_> = mine.filter(viable).collect();
        (!mine.is_empty()).then(|| judge(package, &mine, &tests))
    });
    let judged = of_package.collect::<Result<Vec<_>>>()?;
    let missed = folder.join("missed.txt");
    fs::write(&missed, listed(&judged))?;
    ui::line(format_args!("     what was missed: {}", missed.display()));
    Ok(told(&judged, built.left_out.len()))
}

/// All packages in one build: their tests, and those of others that test them.
fn build(root: &Path, folder: &Path, mutants: &[Mutant]) -> Result<Built> {
    let own: BTreeSet<_> = mutants.iter().map(|one| one.package.as_str()).collect();
    let others = own.iter().flat_map(|package| testers(package)).copied();
    let packages: BTreeSet<_> = own.iter().copied().chain(others).collect();
    let packages: Vec<_> = packages.into_iter().map(str::to_owned).collect();
    let target = folder.join("build");
    let step = ui::LongStep::new(format!("Planting {} mutants", mutants.len()));
    let plan = build::Plan {
        root,
        copy: &folder.join("copy"),
        packages: &packages,
        cargo: &|folder| {
            let mut command = cargo(folder);
            command.env("CARGO_TARGET_DIR", &target).envs([
                ("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
                ("CARGO_PROFILE_DEV_DEBUG", "0"),
                ("CARGO_PROFILE_TEST_DEBUG", "0"),
            ]);
            command
        },
    };
    let built = build::build(plan, mutants)?;
    step.done();
    Ok(built)
}

/// Packages whose tests meet a package's mutants, beside its own.
fn testers(package: &str) -> &'static [&'static str] {
    let found = TESTED_BY.iter().find(|(name, _)| *name == package);
    found.map_or(&[], |(_, tests)| tests)
}

/// Runs the mutants of a package.
fn judge<'a>(package: &'a str, mutants: &[&'a Mutant], tests: &[Test]) -> Result<Judged<'a>> {
    let step = ui::LongStep::new(format!("{package}: {} mutants", mutants.len()));
    let is_its =
        |one: &&Test| one.package() == package || testers(package).contains(&one.package());
    let tests: Vec<_> = tests.iter().filter(is_its).collect();
    let ids: Vec<_> = mutants.iter().map(|one| one.id).collect();
    let verdicts = run::verdicts(&ids, &tests, |_| ())?;
    step.done();
    let is_caught = |id| verdicts.contains(&(id, Verdict::Caught));
    let (caught, missed) = mutants
        .iter()
        .partition::<Vec<&'a Mutant>, _>(|one| is_caught(one.id));
    let (caught, all) = (caught.len(), mutants.len());
    ui::line(format_args!("     {package}: caught {caught} of {all}"));
    Ok(Judged { caught, missed })
}

/// What was missed, a line each.
fn listed(judged: &[Judged<'_>]) -> String {
    let missed = judged.iter().flat_map(|one| &one.missed);
    missed.map(|mutant| mutant.words() + "\n").collect()
}

/// Each caught mutant counts as passed. Missed ones are shown, and count as failed if they are too
/// many.
fn told(judged: &[Judged<'_>], left_out: usize) -> Tally {
    let caught: usize = judged.iter().map(|one| one.caught).sum();
    let missed: usize = judged.iter().map(|one| one.missed.len()).sum();
    let all = caught + missed;
    let enough = caught * 100 >= all * CAUGHT_PERCENT && all > 0;
    let words = format!(
        "caught {caught} of {all} mutants, and {CAUGHT_PERCENT} % are wanted; {left_out} in \
         constants and the like were not tried"
    );
    Tally {
        passed: caught,
        failed: if enough { 0 } else { missed.max(1) },
        details: listed(judged) + &words,
        ..Tally::default()
    }
}

/// Which mutants are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    /// Each `count`-th, from the `index`-th on.
    Shard {
        index: u32,
        count: u32,
    },
    /// Those of packages, by their names.
    Packages(Vec<String>),
}

impl Wanted {
    fn parse(text: &str) -> Result<Self> {
        let is_name = |name: &str| !name.is_empty() && !name.contains(|c: char| c.is_ascii_digit());
        let Some((index, count)) = text.split_once('/') else {
            let names: Vec<_> = text
                .split(',')
                .map(|name| format!("hanok-{name}"))
                .collect();
            ensure!(text.split(',').all(is_name), Self::words(text));
            return Ok(Self::Packages(names));
        };
        match (index.parse(), count.parse()) {
            (Ok(index), Ok(count)) if index < count => Ok(Self::Shard { index, count }),
            _ => bail!(Self::words(text)),
        }
    }

    fn words(text: &str) -> String {
        format!(
            "HANOK_MUTANTS is SHARD/SHARDS, such as 3/200, or packages, such as vm,vgic, and not {text:?}"
        )
    }

    fn has(&self, mutant: &Mutant) -> bool {
        match self {
            Self::All => true,
            Self::Shard { index, count } => mutant.id % count == *index,
            Self::Packages(names) => names.contains(&mutant.package),
        }
    }
}

/// The tool, built into the build folder where it is not there yet.
fn tool(root: &Path) -> Result<PathBuf> {
    let folder = repo::target_dir(root).join("tools").join(VERSION);
    let path = folder.join("bin").join(TOOL);
    if !path.exists() {
        let step = ui::LongStep::new("Building cargo-mutants");
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

    fn judged(caught: usize, missed: &[Mutant]) -> Tally {
        let missed = missed.iter().collect();
        let one = Judged { caught, missed };
        told(&[one], 7)
    }

    fn mutants(number: u32) -> Vec<Mutant> {
        let one = r#"{"package": "hanok-vm", "file": "core/vm/src/a.rs", "genre": "FnValue",
            "function": null, "replacement": "0", "diff": "--- a\n+++ replace f with 0\n",
            "span": {"start": {"line": 3, "column": 5}, "end": {"line": 3, "column": 6}}}"#;
        let of = |id| -> Mutant {
            let mut mutant: Mutant = serde_json::from_str(one).unwrap();
            mutant.id = id;
            mutant
        };
        (1..=number).map(of).collect()
    }

    #[test]
    fn too_many_missed_ones_fail() {
        let tally = judged(19, &mutants(1));
        assert_eq!((tally.passed, tally.failed), (19, 0));
        let words = "core/vm/src/a.rs:3:5: replace f with 0\n";
        assert!(tally.details.contains(words), "{}", tally.details);
        assert!(
            tally.details.contains("caught 19 of 20 mutants") && tally.details.contains("7 in")
        );
        let tally = judged(18, &mutants(2));
        assert_eq!((tally.passed, tally.failed), (18, 2));
        assert_eq!(judged(0, &[]).failed, 1, "nothing tried is nothing shown");
    }

    #[test]
    fn a_part_is_a_shard_or_packages() {
        let shard = Wanted::parse("3/200").unwrap();
        let chosen = mutants(600).iter().filter(|one| shard.has(one)).count();
        assert_eq!(chosen, 3);
        let named = Wanted::parse("vm,vgic").unwrap();
        assert!(named.has(&mutants(1)[0]) && !Wanted::parse("vgic").unwrap().has(&mutants(1)[0]));
        for text in ["", "3", "3/3", "-1/3", "a/b", "vm,"] {
            assert!(Wanted::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_packages_test_some() {
        assert_eq!(testers("hanok-vm"), &[] as &[&str]);
        assert_eq!(testers("hanok-abi"), TESTED_BY[0].1);
    }
}
