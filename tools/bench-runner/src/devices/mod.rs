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
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hanok_bench::{Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::machine;
use hanok_boot::overrides::Overrides;
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;

use crate::apart;
use crate::args::BenchArgs;
use crate::boards::{BOARD_MEMORY, Boards, CMDLINE};
use crate::counting::{self, Counted, Counting, What};
use crate::materials;
use crate::plan::Plan;
use cases::{DISKS, Disk, ROWS, System, Work};
use found::{Counts, Found};
use hanok_artifacts::initramfs::modules::Selection;
use hanok_artifacts::{cargo, initramfs};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{repo, ui};
use kills::Kills;
use table::Results;

/// The table, for programs.
const TABLE: &str = "devices.tsv";
/// The last line of what is measured.
const DONE: &str = "bench: done";
/// No boot takes that long, on however slow a PC. It is no figure.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// The modules of Linux that the devices need.
const MODULES: [&str; 3] = ["virtio_mmio", "virtio_blk", "virtio_net"];

/// `hanok bench --devices`.
pub fn run(root: &Path, args: &BenchArgs, yes: bool) -> Outcome {
    let plan = plan(args)?;
    apart::run(root, args, yes, (&plan, true), |boards, consoles| {
        let userland = userland(boards).blame(Code::Refused)?;
        let Some((results, mut failed)) = measure(args, boards, &userland, consoles)? else {
            return Ok(None);
        };
        let mut tsv = table::separated(&results);
        let mut text = table::table(&results);
        if boards.plan.wants(Side::Hanok) && wanted(args, Work::Kills) {
            eprintln!("{} ...", Work::Kills.name(System::Hanok));
            match kill(boards, args.kills, &userland, consoles) {
                Ok(Some(found)) => {
                    tsv += &found.separated();
                    text += &found.table();
                    if found.faults() > 0 {
                        failed.push("hanok-kills: blocks were lost, old or doubled".to_owned());
                    }
                }
                Ok(None) => return Ok(None),
                Err(error) => failed.push(format!("hanok-kills: {:#}", error.error)),
            }
        }
        repo::write_whole(&args.output.join(TABLE), tsv.as_bytes()).blame(Code::Output)?;
        ui::line(format_args!("{text}"));
        Ok(Some(failed))
    })
}

/// Whether this is measured.
fn wanted(args: &BenchArgs, work: Work) -> bool {
    args.only.is_empty() || args.only.contains(&work)
}

/// Kills the driver VM so often. `None` where a signal asked for the end.
fn kill(boards: &Boards, kills: u32, userland: &Path, consoles: &Path) -> Outcome<Option<Kills>> {
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    let of = (System::Hanok, Work::Kills);
    let mut ready = hanok(boards, of, gic, userland)?;
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
        ..plan
    })
}

/// Boots all systems, one after the other, because the PC's load is not to differ between them; what they gave, and what went
/// wrong. `None` where a signal asked for the end.
fn measure(
    args: &BenchArgs,
    boards: &Boards,
    userland: &Path,
    consoles: &Path,
) -> Outcome<Option<(Results, Vec<String>)>> {
    let (mut results, mut failed) = (Results::new(), Vec::new());
    let systems = System::ALL.into_iter();
    for system in systems.filter(|system| boards.plan.wants(system.side())) {
        for work in Work::ROWS.into_iter().filter(|work| wanted(args, *work)) {
            let Some(ready) = prepare(boards, (system, work), userland)? else {
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
    Ok(Some((results, failed)))
}

/// The initramfs that is measured, equal on all sides.
fn userland(boards: &Boards) -> Result<PathBuf> {
    let architecture = boards.plan.architecture;
    let target = cargo::target(architecture);
    let mut files = vec![materials::script(
        "bench/devices",
        include_str!("../../guest/devices"),
    )];
    for work in Work::ROWS {
        let (elf, program) = (
            cargo::elf(boards.root, work.package(), target)?,
            work.program(),
        );
        files.push((format!("bench/bin/{program}"), elf));
    }
    let mut bytes = fs::read(with_modules(boards)?)?;
    bytes.extend(initramfs::archive_of(&files));
    let path = boards.dir.join("devices.initramfs");
    repo::write_whole(&path, &bytes)?;
    Ok(path)
}

/// The busybox initramfs with the modules of the devices.
fn with_modules(boards: &Boards) -> Result<PathBuf> {
    let modules = MODULES.map(str::to_owned).to_vec();
    let kernel = &boards.materials.kernel;
    boards.store.initramfs(kernel, &Selection::Named(modules))
}

/// What Linux is told of what to run.
fn words(work: Work) -> String {
    format!("rdinit=/bench/devices bench.work={}", work.program())
}

/// The board of `system`, which counts; `None` for what cannot be measured yet.
fn prepare(
    boards: &Boards,
    (system, work): (System, Work),
    userland: &Path,
) -> Outcome<Option<Ready>> {
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    // Not measured yet: where time does not go on while all cores sleep, three VMs on two cores boot too slowly.
    if (system, work) == (System::HanokApart, Work::Networks) {
        return Ok(None);
    }
    let mut ready = match system {
        System::Native => {
            let mut ready = boards.native_linux(gic, userland, &words(work));
            ready.command.args(devices(work));
            ready
        }
        System::Hanok | System::HanokApart => hanok(boards, (system, work), gic, userland)?,
        System::Kvm => kvm(boards, work, gic, userland)?,
        System::Xen => return Ok(None),
    };
    match work {
        // QEMU serves a notification as the guest makes it: what a request is answered with does not hang on another
        // thread's turn.
        Work::Disks => {
            ready.command.args(["-global", "virtio-mmio.ioeventfd=off"]);
            ready.command = with_pauses(&ready.command);
        }
        Work::Networks => {
            ready.command.args(networks::BY_TIMER);
            if system.side() == Side::Hanok {
                ready.command.args(networks::OTHER_END);
            }
        }
        Work::Kills => {}
    }
    if let Some(counting) = &boards.counting {
        let report = report_path(boards, system, work);
        match system.side() {
            Side::Hanok => counting.attach(&mut ready.command, &report, What::Stretches),
            _ => counting.attach_alone(&mut ready.command, &report, boards.plan.architecture),
        }
    }
    Ok(Some(ready))
}

/// A Linux as the host, whose VMM has the host's disks, or both ends of a network.
fn kvm(boards: &Boards, work: Work, gic: Gic, userland: &Path) -> Outcome<Ready> {
    let mut host = fs::read(with_modules(boards).blame(Code::Setup)?).blame(Code::Setup)?;
    host.extend(boards.materials.host.as_deref().unwrap_or_default());
    let own = match work {
        Work::Disks | Work::Kills => [
            "-drive",
            "if=none,id=disk0,file=/dev/vda,format=raw,cache=none,aio=native",
            "-device",
            "virtio-blk-device,drive=disk0",
            "-drive",
            "if=none,id=disk1,file=/dev/vdb,format=raw,cache=none,aio=native",
            "-device",
            "virtio-blk-device,drive=disk1",
        ]
        .map(str::to_owned)
        .to_vec(),
        Work::Networks => networks::both_ends(),
    };
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    let name = work.name(System::Kvm);
    let mut ready = boards.kvm_linux((&name, gic), (&host, &own), userland, &words(work))?;
    if work == Work::Disks {
        ready.command.args(devices(work));
    }
    Ok(ready)
}

fn report_path(boards: &Boards, system: System, work: Work) -> PathBuf {
    boards.dir.join(work.name(system)).with_extension("report")
}

/// What is measured of the emulated machine.
fn devices(work: Work) -> Vec<String> {
    match work {
        Work::Disks | Work::Kills => disks(),
        Work::Networks => {
            let version = ["-global", "virtio-mmio.force-legacy=false"].map(str::to_owned);
            version.into_iter().chain(networks::both_ends()).collect()
        }
    }
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

fn hanok(
    boards: &Boards,
    (system, work): (System, Work),
    gic: Gic,
    userland: &Path,
) -> Outcome<Ready> {
    let name = work.name(system);
    let path = boards.dir.join(&name).with_extension("toml");
    let cmdline = format!("{CMDLINE} {}", words(work));
    let (board, kernel) = (boards.plan.board(gic), materials::kernel(boards.plan));
    let text = match work {
        Work::Disks | Work::Kills => cases::description(board, system, kernel, &cmdline),
        Work::Networks => networks::description(board, system, kernel, &cmdline),
    };
    repo::write_whole(&path, text.as_bytes()).blame(Code::Output)?;
    let overrides = Overrides {
        cpu: Some(boards.plan.cpu.clone()),
        memory: Some(BOARD_MEMORY),
        ..Overrides::default()
    };
    let userland = Some(userland.to_owned());
    let mut ready = boards.hanok_of(&name, &path, &overrides, userland)?;
    ready.command = match work {
        // What is written is read back: that disk keeps it for as long as the board runs.
        Work::Kills => with_disks(&ready.command, &DISKS[..1]),
        _ => with_disks(&ready.command, &DISKS),
    };
    Ok(ready)
}

/// `command` with these disks of all sides in the places of empty ones, which QEMU would keep in files until the end.
fn with_disks(command: &Command, disks: &[Disk]) -> Command {
    changed(command, |word| {
        let mut disks = disks.iter().enumerate();
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
        let counted = counted.iter().find(|counted| counted.figure == row.id);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_time_are_replaced_and_nothing_else() {
        let mut command = Command::new("qemu");
        let empty = "if=none,id=disk1,driver=null-co,size=9,snapshot=on";
        command.args(["-drive", empty, "-icount", "shift=0,sleep=off", "-m", "1"]);
        command.env("A", "b");
        let other = with_pauses(&with_disks(&command, &DISKS));
        let words: Vec<_> = other.get_args().collect();
        let drive = DISKS[1].drive(1);
        assert!(drive.ends_with(",size=128M,latency-ns=500000"), "{drive}");
        let wanted = ["-drive", &drive, "-icount", "shift=0,sleep=on", "-m", "1"];
        assert_eq!(words, wanted);
        assert_eq!(other.get_envs().count(), 1);
    }
}
