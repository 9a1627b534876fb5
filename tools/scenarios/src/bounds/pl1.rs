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

use super::{LIMIT, PATIENCE};
use crate::profile::{self, Course};
use hanok_base::repo;
use hanok_console::script::ScriptStep;

/// How long the exits of each kind may take.
type Ceilings = [(Entry, u64); 6];
/// The ceilings of payloads. What is over [`LIMIT`]: a fetch for which an entry is made, and the entries of
/// fifteen neighbours, each of which is looked up for itself; an access to a device whose register costs the virtual interrupt
/// controller much, with the way out and in; an interrupt that closes the doorbells, or that fills all list registers anew and then ends
/// the vCPU's turn, so that they are emptied, and another one's filled.
const PAYLOADS: Ceilings = [
    (Entry::Undefined, 7_000),
    (Entry::Call, LIMIT),
    (Entry::Prefetch, 18_000),
    (Entry::Data, 15_500),
    (Entry::Interrupt, 8_300),
    (Entry::Turn, 14_000),
];
/// The same for Linux. There a trap loads all registers of a mode, word by word; a store of several registers goes to a
/// page with code beside data; an invalidation takes a section of the shadow from all roots that have a copy of it, or goes through many pages in a loop of the kernel's; and nine typed keys arrive in one interrupt, while the doorbells are open.
const LINUX: Ceilings = [
    (Entry::Undefined, 12_500),
    (Entry::Call, 6_000),
    (Entry::Prefetch, 18_000),
    (Entry::Data, 20_000),
    (Entry::Interrupt, 7_000),
    (Entry::Turn, 14_000),
];
/// The number of causes that are printed of each run.
const TOLD: usize = 12;

/// A run of a payload.
struct Run {
    name: &'static str,
    /// The guest's boot arguments.
    cmdline: &'static str,
    vcpus: usize,
    /// What the guest says at its end.
    end: &'static str,
    /// The fewest exits.
    least: u64,
}

const RUNS: [Run; 4] = [
    Run {
        name: "registers",
        cmdline: "conformance.run=bounds bounds.part=registers",
        vcpus: 8,
        end: "bounds: done",
        least: 100_000,
    },
    Run {
        name: "together",
        cmdline: "conformance.run=bounds bounds.part=together",
        vcpus: 8,
        end: "bounds: done",
        least: 1_000,
    },
    Run {
        name: "conformance",
        cmdline: "conformance.run=all",
        vcpus: 4,
        end: " 0 failed",
        least: 10_000,
    },
    Run {
        name: "fuzz",
        cmdline: "conformance.run=fuzz fuzz.steps=1200",
        vcpus: 2,
        end: ", 0 wrong",
        least: 10_000,
    },
];

/// All runs of payloads.
pub fn bounded(root: &Path) -> Result<String> {
    let counting = Counting::prepare(root, Architecture::Arm)?;
    let mut found = Found::by(&PAYLOADS);
    for run in RUNS.iter().filter(|run| wanted(run.name)) {
        let described = format!(
            "board = \"qemu-virt-arm-pl1\"\ncores = 1\nslice = \"1ms\"\n[[vm]]\nname = \"bounds\"\n\
             kernel = \"guest:conformance\"\ncmdline = \"{} conformance.host=hanok\"\n\
             memory = \"64M\"\ncpus = {:?}\n",
            run.cmdline,
            vec![0; run.vcpus]
        );
        let said = found.add(root, &counting, (run.name, &described), Vec::new())?;
        let fault = said.lines().find(|line| line.contains("FAIL"));
        ensure!(fault.is_none(), "{}: {fault:?}", run.name);
        ensure!(said.contains(run.end), "{}: not to its end", run.name);
        let exits = found.runs.last().map_or(0, |one| one.exits);
        ensure!(exits >= run.least, "{}: {exits} exits alone", run.name);
    }
    found.judged()
}

/// The runs that are made each time, for which the ceilings were measured.
const ALWAYS: [&str; 2] = ["together", "conformance"];

/// Whether a run is to be made: those, or those that `HANOK_BOUNDS` names.
fn wanted(name: &str) -> bool {
    let named = std::env::var("HANOK_BOUNDS");
    named.map_or(ALWAYS.contains(&name), |names| {
        names.split(',').any(|one| one == name)
    })
}

/// A stock kernel's boot to its shell.
pub fn linux(root: &Path) -> Result<String> {
    let counting = Counting::prepare(root, Architecture::Arm)?;
    let mut found = Found::by(&LINUX);
    let described = "board = \"qemu-virt-arm-pl1\"\ncores = 1\n[[vm]]\nname = \"linux\"\n\
         kernel = \"debian:6.1\"\ninitramfs = \"busybox\"\nmemory = \"256M\"\ncpus = [0]\n";
    let steps = vec![
        ScriptStep::Expect("linux:~# ".to_owned()),
        ScriptStep::Send(b"poweroff\n".to_vec()),
    ];
    found.add(root, &counting, ("linux", described), steps)?;
    found.judged()
}

/// What was found in one run.
struct Counts {
    name: &'static str,
    exits: u64,
    /// How many are over [`LIMIT`], and over their ceiling.
    over: u64,
    beyond: u64,
    causes: BTreeMap<String, Cause>,
}

/// The exits of one cause.
#[derive(Default)]
struct Cause {
    longest: u64,
    /// How many are over [`LIMIT`].
    over: u64,
    /// By how much the longest is over its ceiling.
    excess: u64,
}

struct Found {
    ceilings: &'static Ceilings,
    runs: Vec<Counts>,
}

impl Found {
    /// Nothing, to be judged by `ceilings`.
    fn by(ceilings: &'static Ceilings) -> Self {
        let runs = Vec::new();
        Self { ceilings, runs }
    }

    /// Counts a run, and returns what the guest has said.
    fn add(
        &mut self,
        root: &Path,
        counting: &Counting,
        (name, described): (&'static str, &str),
        steps: Vec<ScriptStep>,
    ) -> Result<String> {
        let dir = repo::target_dir(root).join(format!("hanok/test/bounds-pl1-{name}"));
        fs::create_dir_all(&dir)?;
        let course = Course {
            steps,
            what: What::Run,
            ..Course::default()
        };
        let report = profile::count(root, counting, &dir, described, course, PATIENCE);
        let report = report.map_err(|failure| failure.error)?;
        self.runs.push(counts(name, &report, self.ceilings));
        let console = fs::read(dir.join("vm.console"))?;
        Ok(String::from_utf8_lossy(&console).into_owned())
    }

    fn judged(&self) -> Result<String> {
        let mut said = String::new();
        for run in &self.runs {
            let Counts {
                name,
                exits,
                over,
                beyond,
                ..
            } = run;
            writeln!(
                said,
                "{name}: {exits} exits, {over} over {LIMIT}, {beyond} over the ceiling of their kind"
            )?;
            let mut causes: Vec<_> = run.causes.iter().collect();
            // What is over its ceiling comes first.
            causes.sort_by_key(|(_, one)| std::cmp::Reverse((one.excess, one.longest)));
            for (cause, one) in causes.into_iter().take(TOLD) {
                writeln!(said, "  {} {cause} ({} over)", one.longest, one.over)?;
            }
        }
        let beyond = self.runs.iter().any(|run| run.beyond != 0);
        ensure!(!beyond, "{said}");
        Ok(said)
    }
}

fn counts(name: &'static str, report: &Report, ceilings: &Ceilings) -> Counts {
    let mut counts = Counts {
        name,
        exits: 0,
        over: 0,
        beyond: 0,
        causes: BTreeMap::new(),
    };
    let cpus = report.stretches.iter().flat_map(|stretch| &stretch.cpus);
    for exit in cpus.flat_map(|cpu| &cpu.exits) {
        let found = ceilings.iter().find(|(kind, _)| *kind == exit.reason.entry);
        let ceiling = found.map_or(LIMIT, |(_, ceiling)| *ceiling);
        for (cost, number) in &exit.costs {
            counts.exits += number;
            let over = if *cost > LIMIT { *number } else { 0 };
            counts.over += over;
            if *cost > ceiling {
                counts.beyond += number;
            }
            let cause = counts.causes.entry(cause(&exit.reason)).or_default();
            cause.longest = cause.longest.max(*cost);
            cause.over += over;
            let excess = cost.saturating_sub(ceiling);
            cause.excess = cause.excess.max(excess);
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
