//! `hanok bench --devices`: what requests to a device take natively, in the client of a driver VM, and under other
//! hypervisors.
//!
//! Instructions are counted by QEMU's plugin, not read from a clock. A device of QEMU's answers from another thread of the PC's, so that
//! the guest's clock says how busy the PC is: with time as a count of instructions, a guest that sleeps until its disk
//! answers sleeps for no time, or to its next timer.

mod cases;
mod found;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_bench::{Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_boot::overrides::{Overrides, VmOverrides};
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;

use crate::args::BenchArgs;
use crate::boards::{BOARD_MEMORY, Boards, CMDLINE};
use crate::counting::{self, Counted, Counting, What};
use crate::folders::{fresh, work_dir};
use crate::materials::{self, Materials};
use crate::plan::Plan;
use crate::{output_is_ours, report};
use cases::{DISKS, ROWS, System};
use found::{Counts, Found};
use hanok_artifacts::initramfs::modules::Selection;
use hanok_artifacts::{Store, cargo, initramfs};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{repo, ui};
use table::Results;

/// The table, for programs.
const TABLE: &str = "devices.tsv";
/// The last line of what is measured.
const DONE: &str = "bench: done";
/// What Linux is told of what to run.
const WORK: &str = "rdinit=/bench/devices bench.work=disk-work";
/// No boot takes that long, on however slow a PC. It is no figure.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// The modules of Linux that a disk needs.
const MODULES: [&str; 2] = ["virtio_mmio", "virtio_blk"];

/// `hanok bench --devices`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    let plan = plan(args)?;
    plan.check(root)?;
    output_is_ours(&args.output)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let dir = work_dir(root).blame(Code::Output)?;
    let materials = Materials::gather(root, &store, &plan, dir.path())?;
    let counting = Counting::prepare(root, plan.architecture).blame(Code::Refused)?;
    let boards = Boards {
        root,
        store: &store,
        plan: &plan,
        materials: &materials,
        counting: Some(counting),
        images: Vec::new(),
        dir: dir.path(),
    };
    let consoles = args.output.join(report::CONSOLES);
    // These results mark the folder as ours from now on.
    report::write_so_far(&mut report::started(root), &boards, &[], &args.output)?;
    fresh(&consoles).blame(Code::Output)?;
    let Some((results, failed)) = measure(&boards, &consoles)? else {
        return Ok(Code::Interrupted);
    };
    let tsv = table::separated(&results);
    repo::write_whole(&args.output.join(TABLE), tsv.as_bytes()).blame(Code::Output)?;
    ui::line(format_args!("{}", table::table(&results)));
    if failed.is_empty() {
        return Ok(Code::Success);
    }
    Err(failure(Code::TestsFailed, failed.join("\n")))
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
        ..plan
    })
}

/// Boots all systems, one after the other, because the PC's load is not to differ between them; what they gave, and what went
/// wrong. `None` where a signal asked for the end.
fn measure(boards: &Boards, consoles: &Path) -> Outcome<Option<(Results, Vec<String>)>> {
    let userland = userland(boards).blame(Code::Refused)?;
    let (mut results, mut failed) = (Results::new(), Vec::new());
    let systems = System::ALL.into_iter();
    for system in systems.filter(|system| boards.plan.wants(system.side())) {
        let Some(ready) = prepare(boards, system, &userland)? else {
            continue;
        };
        eprintln!("{} ...", system.id());
        match boot(boards, system, ready, consoles) {
            Ok(Some(found)) => drop(results.insert(system, found)),
            Ok(None) => return Ok(None),
            Err(error) => failed.push(format!("{}: {error:#}", system.id())),
        }
    }
    Ok(Some((results, failed)))
}

/// The initramfs that is measured, equal on all sides.
fn userland(boards: &Boards) -> Result<PathBuf> {
    let architecture = boards.plan.architecture;
    let target = cargo::target(architecture);
    let work = cargo::elf(boards.root, "hanok-disk-work", target)?;
    let files = [
        materials::script("bench/devices", include_str!("../../guest/devices")),
        ("bench/bin/disk-work".to_owned(), work),
    ];
    let mut bytes = fs::read(with_modules(boards)?)?;
    bytes.extend(initramfs::archive_of(&files));
    let path = boards.dir.join("devices.initramfs");
    repo::write_whole(&path, &bytes)?;
    Ok(path)
}

/// The busybox initramfs with the modules of a disk.
fn with_modules(boards: &Boards) -> Result<PathBuf> {
    let modules = MODULES.map(str::to_owned).to_vec();
    let kernel = &boards.materials.kernel;
    boards.store.initramfs(kernel, &Selection::Named(modules))
}

/// The board of `system`, which counts; `None` for what cannot be measured yet.
fn prepare(boards: &Boards, system: System, userland: &Path) -> Outcome<Option<Ready>> {
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    let mut ready = match system {
        System::Native => {
            let mut ready = boards.native_linux(gic, userland, WORK);
            ready.command.args(disks());
            ready
        }
        System::Hanok | System::HanokApart => hanok(boards, system, gic, userland)?,
        System::Kvm => {
            let mut host = fs::read(with_modules(boards).blame(Code::Setup)?).blame(Code::Setup)?;
            host.extend(boards.materials.host.as_deref().unwrap_or_default());
            let words = [
                "-drive",
                "if=none,id=disk0,file=/dev/vda,format=raw,cache=none,aio=native",
                "-device",
                "virtio-blk-device,drive=disk0",
                "-drive",
                "if=none,id=disk1,file=/dev/vdb,format=raw,cache=none,aio=native",
                "-device",
                "virtio-blk-device,drive=disk1",
            ];
            let named = (system.id(), gic);
            let mut ready = boards.kvm_linux(named, (&host, &words), userland, WORK)?;
            ready.command.args(disks());
            ready
        }
        System::Xen => return Ok(None),
    };
    // QEMU serves a notification as the guest makes it: what a request is answered with does not hang on another
    // thread's turn.
    ready.command.args(["-global", "virtio-mmio.ioeventfd=off"]);
    ready.command = with_pauses(&ready.command);
    if let Some(counting) = &boards.counting {
        let report = report_path(boards, system);
        match system.side() {
            Side::Hanok => counting.attach(&mut ready.command, &report, What::Stretches),
            _ => counting.attach_alone(&mut ready.command, &report, boards.plan.architecture),
        }
    }
    Ok(Some(ready))
}

fn report_path(boards: &Boards, system: System) -> PathBuf {
    boards.dir.join(format!("{}.report", system.id()))
}

/// The disks of the emulated machine.
fn disks() -> Vec<String> {
    let version = ["-global", "virtio-mmio.force-legacy=false"].map(str::to_owned);
    let disks = DISKS.iter().enumerate().flat_map(|(index, disk)| {
        let bus = disk.transport;
        let device = format!("virtio-blk-device,drive=disk{index},bus=virtio-mmio-bus.{bus}");
        [
            "-drive".to_owned(),
            disk.drive(index),
            "-device".to_owned(),
            device,
        ]
    });
    version.into_iter().chain(disks).collect()
}

fn hanok(boards: &Boards, system: System, gic: Gic, userland: &Path) -> Outcome<Ready> {
    let path = boards.dir.join(system.id()).with_extension("toml");
    let words = format!("{CMDLINE} {WORK}");
    let text = cases::description(boards.plan.board(gic), system, &words);
    repo::write_whole(&path, text.as_bytes()).blame(Code::Output)?;
    let overrides = Overrides {
        cpu: Some(boards.plan.cpu.clone()),
        memory: Some(BOARD_MEMORY),
        vm: VmOverrides {
            kernel: Some(materials::kernel(boards.plan).to_owned()),
            ..VmOverrides::default()
        },
        ..Overrides::default()
    };
    let userland = Some(userland.to_owned());
    let mut ready = boards.hanok_of(system.id(), &path, &overrides, userland)?;
    ready.command = with_disks(&ready.command);
    Ok(ready)
}

/// `command` with the disks of all sides in the places of empty ones, which QEMU would keep in files until the end.
fn with_disks(command: &Command) -> Command {
    changed(command, |word| {
        let mut disks = DISKS.iter().enumerate();
        disks.find_map(|(index, disk)| {
            let same = word.starts_with(&format!("if=none,id=disk{index},"));
            same.then(|| disk.drive(index))
        })
    })
}

/// `command` where time goes on while no emulated CPU runs, by the PC's clock. Else a CPU that sleeps until its disk answers goes on to its
/// next timer at once, and to the next one.
fn with_pauses(command: &Command) -> Command {
    changed(command, |word| {
        (word == "shift=0,sleep=off").then(|| "shift=0,sleep=on".to_owned())
    })
}

/// `command` with other words for some.
fn changed(command: &Command, other: impl Fn(&str) -> Option<String>) -> Command {
    let mut changed = Command::new(command.get_program());
    for word in command.get_args() {
        match other(&word.to_string_lossy()) {
            Some(other) => changed.arg(other),
            None => changed.arg(word),
        };
    }
    keep_environment(command, &mut changed);
    changed
}

fn keep_environment(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Boots one board; what its consoles say is kept in `dir`. `None` where a signal asked for the end.
fn boot(boards: &Boards, system: System, ready: Ready, dir: &Path) -> Result<Option<Found>> {
    let path = dir.join(format!("{}.console", system.id()));
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
    let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
    let from = report_path(boards, system);
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
    for row in &ROWS {
        let counted = counted.iter().find(|counted| counted.figure == row.id);
        let counts = counted.and_then(Counts::of);
        found.insert(
            row.id,
            counts.with_context(|| format!("{} gave nothing", row.id))?,
        );
    }
    Ok(Some(found))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_time_are_replaced_and_nothing_else() {
        let mut command = Command::new("qemu");
        let empty = "if=none,id=disk1,driver=null-co,size=9,snapshot=on";
        command.args(["-drive", empty, "-icount", "shift=0,sleep=off", "-m", "1"]);
        command.env("A", "b");
        let other = with_pauses(&with_disks(&command));
        let words: Vec<_> = other.get_args().collect();
        let drive = DISKS[1].drive(1);
        assert!(drive.ends_with(",size=128M,latency-ns=500000"), "{drive}");
        let wanted = ["-drive", &drive, "-icount", "shift=0,sleep=on", "-m", "1"];
        assert_eq!(words, wanted);
        assert_eq!(other.get_envs().count(), 1);
    }
}
