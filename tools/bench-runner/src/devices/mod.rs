//! `hanok bench --devices`: what requests to a device take natively, in the client of a driver VM, and under other
//! hypervisors.
//!
//! Instructions are counted by QEMU's plugin, not read from a clock. A device of QEMU's answers from another thread of the PC's, so that
//! the guest's clock says how busy the PC is: with time as a count of instructions, a guest that sleeps until its disk
//! answers sleeps for no time, or to its next timer.

pub mod cases;
mod found;
mod kills;
mod networks;
mod outside;
mod prepare;
mod screens;
mod table;
mod xen;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_bench::{Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;

use crate::apart;
use crate::args::BenchArgs;
use crate::boards::Boards;
use crate::counting::{self, Counted, Counting, What};
use crate::materials;
use crate::plan::Plan;
use crate::schedulers::found::of_domain;
use cases::{ROWS, System, Work};
use found::{Counts, Found};
use hanok_artifacts::{cargo, initramfs};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{repo, ui};
use kills::Kills;
use outside::Outside;
use prepare::{Inputs, prepare, report_path, with_modules, with_pauses};
use table::Results;

/// The table, for programs.
const TABLE: &str = "devices.tsv";
/// The last line of what is measured.
const DONE: &str = "bench: done";
/// No boot takes that long, on however slow a PC. It is no figure.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// `hanok bench --devices`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    let asked = |screens: bool| {
        let mut all = Work::ALL.iter().filter(|work| wanted(args, **work));
        all.any(|work| work.is_screen() == screens)
    };
    let main = asked(false).then(|| plan(args)).transpose()?;
    let lcd = asked(true).then(|| screens::plan(args)).transpose()?;
    let plans: Vec<_> = main.iter().chain(&lcd).collect();
    apart::run_all(root, args, yes, (&plans, true), |boards, consoles| {
        let (mut results, mut failed, mut killed) = (Results::new(), Vec::new(), None);
        for boards in boards {
            let userland = userland(boards).blame(Code::Refused)?;
            let into = (&mut results, &mut failed);
            let screens = lcd
                .as_ref()
                .is_some_and(|lcd| std::ptr::eq(lcd, boards.plan));
            if measure((args, screens), boards, &userland, consoles, into)?.is_none() {
                return Ok(None);
            }
            if screens || !boards.plan.wants(Side::Hanok) || !wanted(args, Work::Kills) {
                continue;
            }
            eprintln!("{} ...", Work::Kills.name(System::Hanok));
            match kill(boards, args.kills, &userland, consoles) {
                Ok(Some(found)) => killed = Some(found),
                Ok(None) => return Ok(None),
                Err(error) => failed.push(format!("hanok-kills: {:#}", error.error)),
            }
        }
        show(args, &results, killed.as_ref())?;
        if killed.is_some_and(|killed| killed.faults() > 0) {
            failed.push("hanok-kills: blocks were lost, old or doubled".to_owned());
        }
        Ok(Some(failed))
    })
}

/// Shows what was found, and keeps it for programs.
fn show(args: &BenchArgs, results: &Results, killed: Option<&Kills>) -> Outcome<()> {
    let mut tsv = table::separated(results);
    let mut text = table::table(results);
    if let Some(killed) = killed {
        tsv += &killed.separated();
        text += &killed.table();
    }
    repo::write_whole(&args.output.join(TABLE), tsv.as_bytes()).blame(Code::Output)?;
    ui::line(format_args!("{text}"));
    Ok(())
}

/// Whether this is measured.
fn wanted(args: &BenchArgs, work: Work) -> bool {
    args.only.is_empty() || args.only.contains(&work)
}

/// Kills the driver VM so often. `None` where a signal asked for the end.
fn kill(boards: &Boards, kills: u32, userland: &Path, consoles: &Path) -> Outcome<Option<Kills>> {
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    let of = (System::Hanok, Work::Kills);
    let inputs = Inputs {
        userland,
        outside: None,
    };
    let mut ready = prepare::hanok(boards, of, gic, &inputs)?;
    // As for disks: else time would hang on the turns of QEMU's threads.
    ready.command.args(["-global", "virtio-mmio.ioeventfd=off"]);
    ready.command = with_pauses(&ready.command);
    ready.first.extend(kills::steps(kills));
    let path = consoles.join(Work::Kills.name(System::Hanok));
    let text = watch(ready, &path.with_extension("console")).blame(Code::TestsFailed)?;
    let Some(text) = text else { return Ok(None) };
    let found = kills::read(&text, kills).context("hanok-kills: the console has no results");
    found.map(Some).blame(Code::TestsFailed)
}

/// What is gathered: Linux, and the hypervisors of the sides. Neither lmbench nor the bare-metal payload.
fn plan(args: &BenchArgs) -> Outcome<Plan> {
    let plan = Plan::of(args)?;
    if !plan.extensions {
        let why = "--devices: disks are not served on a board without virtualization extensions\n  \
                   fix: choose another one with --board";
        return Err(failure(Code::Usage, why));
    }
    Ok(Plan {
        figures: Vec::new(),
        rounds: 1,
        operations: false,
        devices: true,
        ..plan
    })
}

/// Boots all systems, one after the other, because the PC's load is not to differ between them: those of screens, or all others. Adds what they gave, and
/// what went wrong. `None` where a signal asked for the end.
fn measure(
    (args, screens): (&BenchArgs, bool),
    boards: &Boards,
    userland: &Path,
    consoles: &Path,
    (results, failed): (&mut Results, &mut Vec<String>),
) -> Outcome<Option<()>> {
    let works = Work::ROWS.into_iter();
    let works = works.filter(|work| work.is_screen() == screens && wanted(args, *work));
    let systems = System::ALL.into_iter();
    for system in systems.filter(|system| boards.plan.wants(system.side())) {
        for work in works.clone() {
            let outside = (work == Work::Incoming).then(Outside::listen);
            let outside = outside.transpose().blame(Code::Output)?;
            let inputs = Inputs {
                userland,
                outside: outside.as_ref().map(Outside::path),
            };
            let Some(ready) = prepare(boards, (system, work), &inputs)? else {
                continue;
            };
            let name = work.name(system);
            eprintln!("{name} ...");
            match boot(boards, (system, work), ready, consoles) {
                Ok(Some(found)) => results.entry(system).or_default().extend(found),
                Ok(None) => return Ok(None),
                Err(error) => failed.push(format!("{name}: {error:#}")),
            }
        }
    }
    Ok(Some(()))
}

/// The initramfs that is measured, equal on all sides.
fn userland(boards: &Boards) -> Result<PathBuf> {
    let architecture = boards.plan.architecture;
    let target = cargo::target(architecture);
    let mut files = vec![materials::script(
        "bench/devices",
        include_str!("../../guest/devices"),
    )];
    for work in [Work::Disks, Work::Networks, Work::Screens] {
        let (elf, program) = (
            cargo::elf(boards.root, work.package(), target)?,
            work.program(),
        );
        files.push((format!("bench/bin/{program}"), elf));
    }
    let mut bytes = fs::read(with_modules(boards)?)?;
    bytes.extend(initramfs::archive_of(&files));
    let path = boards.dir.join(format!("devices-{target}.initramfs"));
    repo::write_whole(&path, &bytes)?;
    Ok(path)
}

/// Boots one board with what counts; what its consoles say is kept in `dir`. `None` where a signal asked for the end.
fn boot(
    boards: &Boards,
    (system, work): (System, Work),
    ready: Ready,
    dir: &Path,
) -> Result<Option<Found>> {
    let path = dir.join(work.name(system)).with_extension("console");
    let Some(text) = watch(ready, &path)? else {
        return Ok(None);
    };
    // Xen's console has all domains' words.
    let text = match system {
        System::Xen => of_domain(&text, 1),
        _ => text,
    };
    let from = report_path(boards, system, work);
    // Kept beside the console: it has each exit and each instruction.
    fs::copy(&from, path.with_extension("report"))?;
    let counted = counting::read(&from, &text, What::Stretches)?;
    if let Some(counting) = boards
        .counting
        .as_ref()
        .filter(|_| system.side() == Side::Hanok)
    {
        let profile = profile(counting, &counted)?;
        repo::write_whole(&path.with_extension("profile"), profile.as_bytes())?;
    }
    let mut found = Found::new();
    for row in ROWS.iter().filter(|row| row.work == work) {
        let counted = counted.iter().find(|counted| counted.figure == row.told());
        let counts = counted.and_then(Counts::of);
        found.insert(
            row.id,
            counts.with_context(|| format!("{} gave nothing", row.id))?,
        );
    }
    Ok(Some(found))
}

/// Boots one board: what the first console said, which is kept at `path` with all others beside it. `None` where a signal asked for the end.
fn watch(ready: Ready, path: &Path) -> Result<Option<String>> {
    let typed = machine::typed(&ready.command) + "\n";
    fs::write(path.with_extension("command"), typed)?;
    let mut consoles = vec![Sink::create(path)?];
    for vm in ready.vms.iter().skip(1) {
        consoles.push(Sink::create(&path.with_extension(format!("{vm}.console")))?);
    }
    let report = run::run(Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: ready.first,
        until: Some(DONE.to_owned()),
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
    Ok(Some(String::from_utf8_lossy(&fs::read(path)?).into_owned()))
}

/// Where our hypervisor's instructions went, in instructions for each request.
fn profile(counting: &Counting, counted: &[Counted]) -> Result<String> {
    let mut text = String::new();
    for one in counted {
        let profile = one.kept(counting)?;
        let rounds = profile.rounds.max(1) as f64;
        text += &format!("{}\n", profile.figure);
        for function in &profile.functions {
            let each = function.instructions as f64 / rounds;
            text += &format!("{each:>10.1}  {}\n", function.name);
        }
    }
    Ok(text)
}
