//! The same where there is no virtualization hardware: there every sensitive instruction and each fetch of a page for
//! the first time is an exit, so that not only registers are looked at but whole runs.
//!
//! The longest exits are printed by what caused them and where.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use hanok_bench_runner::counting::{Counting, What};
use hanok_profile::code::Entry;
use hanok_profile::report::{Reason, Report};
use hanok_system::Architecture;

use super::{LIMIT, NEIGHBOUR, PATIENCE};
use crate::profile::{self, Course};
use hanok_base::repo;

/// The number of causes that are printed of each run.
const TOLD: usize = 12;

/// A run of a payload.
struct Run {
    name: &'static str,
    /// The guest's boot arguments.
    cmdline: &'static str,
    vcpus: usize,
    /// More of the description.
    more: &'static str,
    /// What the guest says at its end.
    end: &'static str,
    /// Whether others go on then.
    cut: bool,
    /// The fewest exits.
    least: u64,
}

const RUNS: [Run; 5] = [
    Run {
        name: "registers",
        cmdline: "conformance.run=bounds bounds.part=registers",
        vcpus: 8,
        more: "",
        end: "bounds: done",
        cut: false,
        least: 100_000,
    },
    Run {
        name: "together",
        cmdline: "conformance.run=bounds bounds.part=together",
        vcpus: 8,
        more: "",
        end: "bounds: done",
        cut: false,
        least: 1_000,
    },
    Run {
        name: "lives",
        cmdline: "conformance.run=bounds bounds.part=lives",
        vcpus: 8,
        more: NEIGHBOUR,
        end: "bounds: done",
        cut: true,
        least: 1_000,
    },
    Run {
        name: "conformance",
        cmdline: "conformance.run=all",
        vcpus: 4,
        more: "",
        end: " 0 failed",
        cut: false,
        least: 10_000,
    },
    Run {
        name: "fuzz",
        cmdline: "conformance.run=fuzz fuzz.steps=1200",
        vcpus: 2,
        more: "",
        end: ", 0 wrong",
        cut: false,
        least: 10_000,
    },
];

/// All runs of payloads.
pub fn bounded(root: &Path) -> Result<String> {
    let counting = Counting::prepare(root, Architecture::Arm)?;
    let mut found = Found::default();
    for run in RUNS.iter().filter(|run| wanted(run.name)) {
        let described = format!(
            "board = \"qemu-virt-arm-pl1\"\ncores = 1\nslice = \"1ms\"\n[[vm]]\nname = \"bounds\"\n\
             kernel = \"guest:conformance\"\ncmdline = \"{} conformance.host=hanok\"\n\
             memory = \"64M\"\ncpus = {:?}\n{}",
            run.cmdline,
            vec![0; run.vcpus],
            run.more
        );
        let until = run.cut.then_some(run.end);
        let said = found.add(root, &counting, (run.name, &described), until)?;
        let fault = said.lines().find(|line| line.contains("FAIL"));
        ensure!(fault.is_none(), "{}: {fault:?}", run.name);
        ensure!(said.contains(run.end), "{}: not to its end", run.name);
        let exits = found.runs.last().map_or(0, |one| one.exits);
        ensure!(exits >= run.least, "{}: {exits} exits alone", run.name);
    }
    found.judged()
}

/// Whether a run is to be made: all, or those that `HANOK_BOUNDS` names.
fn wanted(name: &str) -> bool {
    std::env::var("HANOK_BOUNDS").map_or(true, |names| names.split(',').any(|one| one == name))
}

/// A stock kernel's boot to its shell.
pub fn linux(root: &Path) -> Result<String> {
    let counting = Counting::prepare(root, Architecture::Arm)?;
    let mut found = Found::default();
    let described = "board = \"qemu-virt-arm-pl1\"\ncores = 1\n[[vm]]\nname = \"linux\"\n\
         kernel = \"debian:6.1\"\ninitramfs = \"busybox\"\nmemory = \"256M\"\ncpus = [0]\n";
    found.add(root, &counting, ("linux", described), Some("linux:~# "))?;
    found.judged()
}

/// What was found in one run.
struct Counts {
    name: &'static str,
    exits: u64,
    over: u64,
    /// The longest exit of each cause, and how many of them are over the limit.
    causes: BTreeMap<String, (u64, u64)>,
}

#[derive(Default)]
struct Found {
    runs: Vec<Counts>,
}

impl Found {
    /// Counts a run, and returns what the guest has said.
    fn add(
        &mut self,
        root: &Path,
        counting: &Counting,
        (name, described): (&'static str, &str),
        until: Option<&str>,
    ) -> Result<String> {
        let dir = repo::target_dir(root).join(format!("hanok/test/bounds-pl1-{name}"));
        fs::create_dir_all(&dir)?;
        let course = Course {
            until,
            what: What::Run,
            ..Course::default()
        };
        let report = profile::count(root, counting, &dir, described, course, PATIENCE);
        let report = report.map_err(|failure| failure.error)?;
        self.runs.push(counts(name, &report));
        let console = fs::read(dir.join("vm.console"))?;
        Ok(String::from_utf8_lossy(&console).into_owned())
    }

    fn judged(&self) -> Result<String> {
        let mut said = String::new();
        for run in &self.runs {
            let Counts {
                name, exits, over, ..
            } = run;
            writeln!(said, "{name}: {exits} exits, {over} over {LIMIT}")?;
            let mut causes: Vec<_> = run.causes.iter().collect();
            causes.sort_by_key(|(_, (longest, _))| std::cmp::Reverse(*longest));
            for (cause, (longest, over)) in causes.into_iter().take(TOLD) {
                writeln!(said, "  {longest} {cause} ({over} over)")?;
            }
        }
        let over = self.runs.iter().any(|run| run.over != 0);
        ensure!(!over, "{said}");
        Ok(said)
    }
}

fn counts(name: &'static str, report: &Report) -> Counts {
    let mut counts = Counts {
        name,
        exits: 0,
        over: 0,
        causes: BTreeMap::new(),
    };
    let cpus = report.stretches.iter().flat_map(|stretch| &stretch.cpus);
    for exit in cpus.flat_map(|cpu| &cpu.exits) {
        for (cost, number) in &exit.costs {
            counts.exits += number;
            let over = if *cost > LIMIT { *number } else { 0 };
            counts.over += over;
            let cause = counts.causes.entry(cause(&exit.reason)).or_default();
            cause.0 = cause.0.max(*cost);
            cause.1 += over;
        }
    }
    counts
}

/// The cause in words, with the guest's PC.
fn cause(reason: &Reason) -> String {
    let kind = match (reason.entry, reason.syndrome) {
        (Entry::Undefined, Some(word)) => format!("{word:#010x}"),
        (Entry::Call, Some(word)) => format!("SVC {word:#010x}"),
        (Entry::Prefetch, _) => "fetch".to_owned(),
        (Entry::Data, _) => "access".to_owned(),
        (Entry::Interrupt, _) => return "interrupt".to_owned(),
        (Entry::Turn, _) => return "between two looks for interrupts".to_owned(),
        (entry, _) => format!("{entry:?}"),
    };
    let at = reason
        .detail
        .map_or(String::new(), |pc| format!(" at {pc:#x}"));
    kind + &at
}
