//! How late a real-time VM goes on beside hostile ones, measured, and the bound that `hanok sched check` prints for the
//! same description.
//!
//! The bench payload sleeps by its timer for 256 times of unlike lengths (`wake-spread`) with the most urgent server of a
//! core, of a kind that keeps its budget. The others of the core have all the rest, and do what costs the hypervisor
//! most. Time is a count of instructions. What was measured must be at most the bound.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::repo;
use hanok_boot::board::Start;
use hanok_boot::overrides::Overrides;
use hanok_boot::system;
use hanok_boot::{board, key};
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;
use hanok_paths::List;
use hanok_paths::latency::{self, SPEED};

use crate::step::{Tally, TestStep};

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "latency-gicv3",
        run: |root| Tally::told(beside(root, "qemu-virt", QUICK)),
    },
    TestStep {
        name: "latency-arm",
        run: |root| Tally::told(beside(root, "qemu-virt-arm", QUICK)),
    },
];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "latency-gicv2",
        run: |root| Tally::told(beside(root, "qemu-virt-gicv2", QUICK)),
    },
    TestStep {
        name: "latency-storms",
        run: |root| Tally::told(beside(root, "qemu-virt", SLOW)),
    },
    TestStep {
        name: "latency-storms-arm",
        run: |root| Tally::told(beside(root, "qemu-virt-arm", SLOW)),
    },
    TestStep {
        name: "latency-linux",
        run: |root| Tally::told(beside(root, "qemu-virt", &[Hostile::Linux])),
    },
];

/// A boot of some seconds of the board's time, on a PC that does other work as well.
const PATIENCE: Duration = Duration::from_secs(900);
/// What the payload says before a number, and at its end.
const MOST: &str = "wake-spread-most ";
const LEAST: &str = "wake-spread-least ";
const DONE: &str = "bench: done";
/// The payload's own instructions between its wake and its look at the counter, and the counter's grain.
const OWN: u64 = 64;

/// Who shares the core.
#[derive(Clone, Copy, Debug)]
pub enum Hostile {
    /// A VM of two vCPUs with one attack of the conformance guest's, and eight VMs that sleep and wake.
    Storm(&'static str),
    /// A VM of eight vCPUs that brings the interrupt controller into one disordered state after another.
    Bounds(&'static str),
    /// A stock Linux that forks and writes without end.
    Linux,
}

/// Those that are tried each time, which were the latest; and the others.
const QUICK: &[Hostile] = &[Hostile::Storm("wfi-storm"), Hostile::Storm("timer-resets")];
const SLOW: &[Hostile] = &[
    Hostile::Storm("mask"),
    Hostile::Storm("sgi-storm"),
    Hostile::Storm("hypercall-storm"),
    Hostile::Storm("mmio-storm"),
    Hostile::Storm("console-storm"),
    Hostile::Bounds("together"),
    Hostile::Bounds("registers"),
];

impl Hostile {
    fn name(self) -> String {
        match self {
            Self::Storm(attack) => attack.to_owned(),
            Self::Bounds(part) => format!("bounds, {part}"),
            Self::Linux => "Linux".to_owned(),
        }
    }

    /// The VMs, which are best effort or have budgets: both have time that the real-time VM does not use.
    fn described(self) -> String {
        const VM: &str = "kernel = \"guest:conformance\"\nmemory = \"32M\"\n";
        match self {
            Self::Storm(attack) => {
                let mut text = format!(
                    "[[vm]]\nname = \"hostile\"\n{VM}cpus = [0, 0]\n\
                     cmdline = \"conformance.run={attack} conformance.host=hanok\"\n"
                );
                for sleeper in 0..8 {
                    let _ = write!(
                        text,
                        "[[vm]]\nname = \"s{sleeper}\"\n{VM}cpus = [0]\n\
                         cmdline = \"conformance.run=wfi-storm conformance.host=hanok\"\n\
                         [vm.schedule]\nperiod = \"{}us\"\nbudget = \"90us\"\npriority = {}\n",
                        1_100 + 130 * sleeper,
                        sleeper + 1
                    );
                }
                text
            }
            Self::Bounds(part) => format!(
                "[[vm]]\nname = \"hostile\"\n{VM}cpus = [0, 0, 0, 0, 0, 0, 0, 0]\n\
                 cmdline = \"conformance.run=bounds conformance.host=hanok bounds.part={part}\"\n"
            ),
            Self::Linux => {
                "[[vm]]\nname = \"hostile\"\nkernel = \"debian:6.1\"\ninitramfs = \"busybox\"\n\
                 memory = \"256M\"\ncpus = [0]\ncmdline = \"console=ttyAMA0\"\n"
                    .to_owned()
            }
        }
    }
}

/// A row for each of `all`, and an error if one of them is over its bound.
fn beside(root: &Path, board: &str, all: &[Hostile]) -> Result<String> {
    let mut said = format!(
        "{:<20} {:>8} {:>8} {:>8}\n",
        "beside", "least", "most", "bound"
    );
    let mut over = 0;
    for hostile in all {
        let name = hostile.name();
        let one = one(root, board, *hostile).with_context(|| name.clone())?;
        let most = one.most.saturating_sub(OWN);
        over += usize::from(most > one.bound);
        let mark = if most > one.bound { "  OVER" } else { "" };
        writeln!(
            said,
            "{name:<20} {:>8} {most:>8} {:>8}{mark}",
            one.least.saturating_sub(OWN),
            one.bound
        )?;
    }
    ensure!(over == 0, "{over} are later than the bound:\n{said}");
    Ok(said)
}

/// What one run has found, in instructions.
struct Latencies {
    least: u64,
    most: u64,
    bound: u64,
}

fn one(root: &Path, board: &str, hostile: Hostile) -> Result<Latencies> {
    let name = hostile.name().replace([',', ' '], "");
    let dir = repo::target_dir(root).join(format!("hanok/test/latency-{board}-{name}"));
    fs::create_dir_all(&dir)?;
    let described = format!(
        "board = \"{board}\"\ncores = 1\nmemory = \"1G\"\n[schedule]\nenforce = true\nslack = \"share\"\n\
         [[schedule.pool]]\nname = \"all\"\ncores = [0]\npolicy = \"fixed\"\n\
         [[vm]]\nname = \"rt\"\nkernel = \"guest:bench\"\nmemory = \"64M\"\ncpus = [0]\n\
         cmdline = \"bench.figures=wake-spread\"\n\
         [vm.schedule]\nperiod = \"1ms\"\nbudget = \"200us\"\nserver = \"deferrable\"\npriority = 0\n{}",
        hostile.described()
    );
    let file = dir.join("system.toml");
    fs::write(&file, &described)?;
    let boots = boot(root, &dir, &file).map_err(|failure| failure.error);
    let bound = boots?;
    let said = fs::read_to_string(dir.join("rt.console"))?;
    Ok(Latencies {
        least: number(&said, LEAST)?,
        most: number(&said, MOST)?,
        bound,
    })
}

fn number(said: &str, before: &str) -> Result<u64> {
    let behind = said.split_once(before).map(|(_, behind)| behind);
    let behind = behind.with_context(|| format!("nobody said {before}: {said}"))?;
    let word = behind.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("{before}{word}"))
}

/// Boots the description until the payload is done; returns the bound of its first VM.
fn boot(root: &Path, dir: &Path, file: &Path) -> Outcome<u64> {
    let store = Store::open(true, false).blame(Code::Setup)?;
    let system = system::load(root, file, &Overrides::default())?;
    let list = List::own().blame(Code::Refused)?;
    let latencies = latency::of(&list, &system, SPEED).blame(Code::Refused)?;
    let first = latencies.into_iter().next().map(|latency| latency.bound);
    let bound = match first {
        Some(Ok(bound)) => bound.total(),
        Some(Err(why)) => return Err(failure(Code::Refused, why)),
        None => return Err(failure(Code::Refused, "nobody has a promise")),
    };
    let start = Start {
        icount: true,
        ..Start::default()
    };
    let tools = start.tools(&store, &system)?;
    let resolved = system::resolve(root, &store, &system.artifacts())?;
    let tree = board::tree(&store, &system)?;
    let bytes = system::build(root, &system, &resolved, tree.as_deref(), &key::NONE)?;
    let image = dir.join("image");
    repo::write_whole(&image, &bytes).blame(Code::Usage)?;
    let ready = tools.ready(&system, &image, &start);
    let console = |name: &str| Sink::create(&dir.join(format!("{name}.console")));
    let consoles: Result<_> = system.vms.iter().map(|vm| console(vm.name())).collect();
    let request = Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first,
        until: Some(DONE.to_owned()),
        timeout: Some(PATIENCE),
        consoles: consoles.blame(Code::Usage)?,
        log: Sink::create(&dir.join("hanok.log")).blame(Code::Usage)?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    };
    let ended = run::run(request)?;
    match ended.code {
        Code::Success => Ok(bound),
        code => Err(failure(code, ended.why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_words() {
        let said =
            "bench: wake-spread-least 12 instructions\nbench: wake-spread-most 3456 instructions\n";
        assert_eq!(number(said, LEAST).unwrap(), 12);
        assert_eq!(number(said, MOST).unwrap(), 3456);
        assert!(number("bench: wake-spread-most many", MOST).is_err());
        assert!(number("", MOST).is_err());
    }
}
