//! Tests how long the hypervisor works at a time with interrupts masked: at most [`LIMIT`]
//! instructions, whatever a guest does.
//!
//! A guest of eight vCPUs on one core, `conformance.run=bounds`, tries every register and every
//! call while the interrupt controller is in one disordered state after another. QEMU's plugin
//! counts each exit from the vector to `eret`; where the hypervisor checks for interrupts itself,
//! as between two pieces of a VM's loading, the count ends there.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use hanok_profile::report::{Report, Stretch};
use hanok_system::Architecture;

use super::profile;
use crate::step::{Tally, TestStep};
use hanok_base::repo;
use hanok_bench_runner::counting::Counting;

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "bounds-gicv3",
        run: |root| told(bounded(root, &GICV3)),
    },
    TestStep {
        name: "bounds-gicv2",
        run: |root| told(bounded(root, &GICV2)),
    },
    TestStep {
        name: "bounds-arm",
        run: |root| told(bounded(root, &ARM)),
    },
];

/// A board.
struct Board {
    name: &'static str,
    architecture: Architecture,
}

const GICV3: Board = Board {
    name: "qemu-virt",
    architecture: Architecture::Arm64,
};
const GICV2: Board = Board {
    name: "qemu-virt-gicv2",
    architecture: Architecture::Arm64,
};
const ARM: Board = Board {
    name: "qemu-virt-arm",
    architecture: Architecture::Arm,
};

/// The largest number of the hypervisor's instructions at a time: the limit of the design.
const LIMIT: u64 = 5000;
/// The time limit, on a PC that does other work as well.
const PATIENCE: Duration = Duration::from_secs(1200);
/// The number of rows that are printed.
const TOLD: usize = 12;
/// The parts of the guest (`bounds.part`), and the smallest number of rows of each, so that a lost
/// one is noticed.
const PARTS: [(&str, usize); 4] = [
    ("registers", 500),
    ("together", 5),
    ("fuzz", 1),
    ("lives", 1),
];
/// Another VM on the same core, for the part in which a neighbour boots again and again: it resets
/// itself for ever.
const NEIGHBOUR: &str = "[[vm]]\nname = \"neighbour\"\nkernel = \"guest:conformance\"\n\
     cmdline = \"conformance.run=reset-loop conformance.host=hanok\"\n\
     memory = \"32M\"\ncpus = [0, 0, 0, 0, 0, 0, 0, 0]\n";
/// A device of the board that the VM has for itself, in the part that tries everything: the guest
/// makes it interrupt.
const DEVICE: &str = "devices = [\"pl061@9030000\"]\n";
/// The smallest number of the neighbour's boots.
const LIVES: usize = 3;

fn told(result: Result<String>) -> Tally {
    match result {
        Ok(details) => Tally {
            details,
            ..Tally::pass()
        },
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

/// The longest exit of a row, and its cause.
struct Row {
    name: String,
    longest: u64,
    reason: String,
}

fn bounded(root: &Path, board: &Board) -> Result<String> {
    let counting = Counting::prepare(root, board.architecture)?;
    let name = board.name;
    let mut rows = Vec::new();
    for (part, least) in PARTS {
        let dir = repo::target_dir(root).join(format!("hanok/test/bounds-{name}-{part}"));
        fs::create_dir_all(&dir)?;
        // Not on a GICv2, where the payload leaves SGIs active: they mask the timer by which it
        // ends one of its programs that never returns.
        let device = part == "fuzz" && name == GICV3.name;
        let given = if device {
            " conformance.device=yes"
        } else {
            ""
        };
        let described = format!(
            "board = \"{name}\"\ncores = 1\nslice = \"1ms\"\n[[vm]]\nname = \"bounds\"\n\
             kernel = \"guest:conformance\"\n\
             cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part={part}{given}\"\n\
             memory = \"64M\"\ncpus = [0, 0, 0, 0, 0, 0, 0, 0]\n"
        );
        let more = match part {
            _ if device => DEVICE,
            "lives" => NEIGHBOUR,
            _ => "",
        };
        let described = described + more;
        // The neighbour goes on for ever.
        let until = (part == "lives").then_some("bounds: done");
        let report = profile::count(root, &counting, &dir, &described, until, PATIENCE);
        let report = report.map_err(|failure| failure.error)?;
        if part == "lives" {
            let said = fs::read_to_string(dir.join("vm2.console"))?;
            let lives = said.matches("canary: clean").count();
            ensure!(
                lives >= LIVES,
                "the neighbour had {lives} lives alone: {said}"
            );
        }
        let console = fs::read(dir.join("vm.console"))?;
        let found = read(&report, &String::from_utf8_lossy(&console))?;
        ensure!(found.len() >= least, "{part}: {} rows alone", found.len());
        rows.extend(found);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.longest));
    let over = rows.iter().filter(|row| row.longest > LIMIT).count();
    let mut said = format!("{} rows, {over} over {LIMIT} instructions:\n", rows.len());
    for row in rows.iter().take(TOLD) {
        writeln!(said, "{} {} ({})", row.longest, row.name, row.reason)?;
    }
    ensure!(over == 0, "{said}");
    Ok(said)
}

/// The rows that the guest names, each with its stretch.
fn read(report: &Report, console: &str) -> Result<Vec<Row>> {
    let fault = console.lines().find(|line| line.contains("FAIL"));
    ensure!(fault.is_none(), "the guest found a fault: {fault:?}");
    let done = ["bounds: done", "fuzz: done"];
    ensure!(
        done.iter().any(|done| console.contains(done)),
        "the guest did not come to its end"
    );
    let names = console
        .lines()
        .filter_map(|line| line.split_once("bounds: row "));
    let names: Vec<_> = names.map(|(_, name)| name.trim().to_owned()).collect();
    let stretches = &report.stretches;
    // The fuzzer may execute a marker by chance: then there is one row, and each stretch belongs to
    // it.
    let last = names.last().cloned().unwrap_or_default();
    ensure!(
        names.len() == stretches.len() || names.len() == 1,
        "{} names, {} stretches",
        names.len(),
        stretches.len()
    );
    let rows = names
        .into_iter()
        .chain(std::iter::repeat(last))
        .zip(stretches);
    Ok(rows
        .filter_map(|(name, stretch)| row(name, stretch))
        .collect())
}

/// `None` where no exit was in it.
fn row(name: String, stretch: &Stretch) -> Option<Row> {
    let longest = stretch.cpus.iter().filter_map(|cpu| cpu.longest_exit());
    let (longest, reason) = longest.max_by_key(|(longest, _)| *longest)?;
    Some(Row {
        name,
        longest,
        reason: hanok_profile::reason::words(reason),
    })
}
