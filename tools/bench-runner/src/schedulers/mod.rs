//! `hanok bench --schedulers`: the deadlines that the same tasks miss, and how late a VM wakes, beside a VM that is always
//! busy, in Hanok and under the schedulers that Debian's Xen has.

mod cases;
pub mod found;
mod table;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_bench::{Figure, Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;

use crate::apart;
use crate::args::BenchArgs;
use crate::boards::{Boards, XEN_INITRAMFS, XEN_KERNEL};
use crate::materials::Materials;
use crate::plan::{Plan, sides_on};
use crate::xen::{Domain, Domains};
use cases::{BUSY, Case, Load, MEMORY_MIB, SCHEDULERS, Scheduler};
use found::Found;
use hanok_artifacts::cargo;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{repo, ui};
use table::Results;

/// The table, for programs.
const TABLE: &str = "schedulers.tsv";
/// The number of the first domain that Xen begins by itself.
const FIRST: usize = 1;
/// No boot takes that long, on however slow a PC. It is no figure.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// `hanok bench --schedulers`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    let plan = plan(args)?;
    apart::run(root, args, yes, (&plan, false), |boards, consoles| {
        let schedulers = there(boards.materials)?;
        let Some((results, failed)) = measure(boards, &schedulers, consoles)? else {
            return Ok(None);
        };
        let tsv = table::separated(&results, &schedulers);
        repo::write_whole(&args.output.join(TABLE), tsv.as_bytes()).blame(Code::Output)?;
        ui::line(format_args!("{}", table::table(&results, &schedulers)));
        Ok(Some(failed))
    })
}

/// What is gathered: both hypervisors and the bare-metal payload.
fn plan(args: &BenchArgs) -> Outcome<Plan> {
    let plan = Plan {
        sides: vec![Side::Hanok, Side::Xen],
        figures: Figure::find("hypercall").into_iter().collect(),
        rounds: 1,
        ..Plan::of(args)?
    };
    if !sides_on(plan.architecture, plan.extensions).contains(&Side::Xen) {
        let why = "--schedulers: there is no Xen on a board without virtualization extensions\n  \
                   fix: choose another one with --board";
        return Err(failure(Code::Usage, why));
    }
    Ok(plan)
}

/// Boots all cases, one after the other; what they gave, and what went wrong. `None` where a signal asked for the end.
fn measure(
    boards: &Boards,
    schedulers: &[&'static Scheduler],
    consoles: &Path,
) -> Outcome<Option<(Results, Vec<String>)>> {
    let (mut results, mut failed) = (Results::new(), Vec::new());
    for case in Case::all(schedulers) {
        eprintln!("{} ...", case.name());
        match boot(case, prepare(boards, case)?, consoles) {
            Ok(Some(found)) => drop(results.insert(case.name(), found)),
            Ok(None) => return Ok(None),
            Err(error) => failed.push(format!("{}: {error:#}", case.name())),
        }
    }
    Ok(Some((results, failed)))
}

/// The schedulers that are measured: ours, and those that Xen was built with.
fn there(materials: &Materials) -> Outcome<Vec<&'static Scheduler>> {
    let image = materials.xen.as_ref().map(fs::read).transpose();
    let image = image.blame(Code::Setup)?.unwrap_or_default();
    let (there, lacks): (Vec<_>, Vec<_>) = SCHEDULERS.iter().partition(|one| one.is_in(&image));
    for scheduler in lacks {
        eprintln!("This Xen was built without {}.", scheduler.id);
    }
    Ok(there)
}

fn prepare(boards: &Boards, case: Case) -> Outcome<Ready> {
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    if let Some(words) = case.scheduler.xen {
        return in_xen(boards, case, gic, words);
    }
    let path = boards.dir.join(case.name()).with_extension("toml");
    let text = case.description(boards.plan.board(gic), &boards.plan.cpu);
    repo::write_whole(&path, text.as_bytes()).blame(Code::Output)?;
    boards.hanok_of(&case.name(), &path, &Default::default(), None)
}

fn in_xen(boards: &Boards, case: Case, gic: Gic, words: &str) -> Outcome<Ready> {
    let target = cargo::target(boards.plan.architecture);
    let domain = |guest, at, cmdline| -> Outcome<Domain> {
        Ok(Domain {
            kernel: cargo::guest(boards.root, guest, target).blame(Code::Refused)?,
            at,
            initramfs: None,
            is_enhanced: false,
            cmdline,
            memory: MEMORY_MIB << 10,
            has_console: true,
        })
    };
    let domains = Domains {
        first: None,
        initramfs: None,
        others: vec![
            domain(case.load.guest(), XEN_KERNEL, case.load.words())?,
            domain("bench", XEN_INITRAMFS, BUSY.to_owned())?,
        ],
        words,
    };
    boards.xen_of(&case.name(), gic, &domains)
}

/// Boots one board; what its consoles say is kept in `dir`. `None` where a signal asked for the end.
fn boot(case: Case, ready: Ready, dir: &Path) -> Result<Option<Found>> {
    let path = dir.join(format!("{}.console", case.name()));
    let typed = machine::typed(&ready.command) + "\n";
    fs::write(path.with_extension("command"), typed)?;
    let mut consoles = vec![Sink::create(&path)?];
    for _ in 1..ready.vms.len() {
        consoles.push(Sink::create(&path.with_extension("other"))?);
    }
    let report = run::run(Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first,
        until: Some(case.load.last_words().to_owned()),
        timeout: Some(PATIENCE),
        consoles,
        log: Sink::create(&path.with_extension("log"))?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    })
    .map_err(|failure| failure.error)?;
    if report.code == Code::Interrupted {
        return Ok(None);
    }
    if report.code != Code::Success {
        bail!("{}", report.why);
    }
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let found = read(case, &text);
    found.map(Some).context("the console has no results")
}

/// What a console gives.
fn read(case: Case, console: &str) -> Option<Found> {
    let own = match case.scheduler.xen {
        Some(_) => found::of_domain(console, FIRST),
        None => console.to_owned(),
    };
    match case.load {
        Load::Tasks(_) => found::tasks(&own).map(Found::Tasks),
        Load::Wakes => found::wakes(&own).map(Found::Wakes),
    }
}
