//! The boards: each system with the devices that it is measured with, and what counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use hanok_artifacts::initramfs::modules::Selection;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;
use hanok_bench::{Gic, Side};
use hanok_boot::board::Ready;
use hanok_boot::overrides::Overrides;

use super::cases::{self, DISKS, Disk, System, Work};
use super::{networks, screens, xen};
use crate::boards::{BOARD_MEMORY, Boards, CMDLINE};
use crate::counting::What;
use crate::materials;

/// The modules of Linux that the devices need.
const MODULES: [&str; 5] = [
    "virtio_mmio",
    "virtio_blk",
    "virtio_net",
    "xen_blkfront",
    "xen_netfront",
];

/// The busybox initramfs with the modules of the devices.
pub fn with_modules(boards: &Boards) -> Result<PathBuf> {
    let modules = MODULES.map(str::to_owned).to_vec();
    let kernel = &boards.materials.kernel;
    boards.store.initramfs(kernel, &Selection::Named(modules))
}

/// What one boot takes besides its system.
pub struct Inputs<'a> {
    /// The initramfs.
    pub userland: &'a Path,
    /// Where somebody outside waits for the board, if it is measured what comes from there.
    pub outside: Option<&'a Path>,
}

/// What Linux is told of what to run.
fn words(work: Work) -> String {
    let role = match work {
        Work::Incoming => " bench.role=take",
        _ => "",
    };
    format!("rdinit=/bench/devices bench.work={}{role}", work.program())
}

/// The board of `system`, which counts; `None` for what cannot be measured yet.
pub fn prepare(
    boards: &Boards,
    (system, work): (System, Work),
    inputs: &Inputs,
) -> Outcome<Option<Ready>> {
    let userland = inputs.userland;
    let gic = boards.plan.gics.first().copied().unwrap_or(Gic::V3);
    let mut ready = match system {
        _ if work.is_screen() => {
            let userland = userland.to_owned();
            match screens::prepare(boards, (system, work), userland, &words(work))? {
                Some(ready) => ready,
                None => return Ok(None),
            }
        }
        System::Native => {
            let mut ready = boards.native_linux(gic, userland, &words(work));
            ready.command.args(devices(system, work, inputs.outside));
            ready
        }
        System::Hanok | System::HanokApart => hanok(boards, (system, work), gic, inputs)?,
        // Its host would have to have a bridge.
        System::Kvm if work == Work::Incoming => return Ok(None),
        System::Kvm => kvm(boards, work, gic, userland)?,
        System::Xen => match xen::prepare(boards, (work, gic), userland, &words(work))? {
            Some(mut ready) => {
                ready.command.args(devices(system, work, inputs.outside));
                ready
            }
            None => return Ok(None),
        },
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
            if matches!(system.side(), Side::Hanok | Side::Xen) {
                ready.command.args(networks::OTHER_END);
            }
            // Where time does not go on while all cores sleep, QEMU gives the turn to a core that sleeps, again and again.
            if system == System::HanokApart {
                ready.command = with_pauses(&ready.command);
            }
        }
        // The answer from outside takes the PC's time, as a disk's does.
        Work::Incoming => {
            ready.command.args(networks::BY_TIMER);
            ready.command = with_pauses(&ready.command);
        }
        Work::Kills | Work::Screens | Work::ScreensPl1 => {}
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
        Work::Networks => networks::both_ends(),
        _ => [
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
    };
    let own: Vec<_> = own.iter().map(String::as_str).collect();
    let name = work.name(System::Kvm);
    let mut ready = boards.kvm_linux((&name, gic), (&host, &own), userland, &words(work))?;
    if work == Work::Disks {
        ready.command.args(devices(System::Kvm, work, None));
    }
    Ok(ready)
}

/// Where the plugin writes what it counted.
pub fn report_path(boards: &Boards, system: System, work: Work) -> PathBuf {
    boards.dir.join(work.name(system)).with_extension("report")
}

/// What is measured of the emulated machine.
fn devices(system: System, work: Work, outside: Option<&Path>) -> Vec<String> {
    let own = match (work, outside) {
        // Both ends are domains.
        (Work::Networks | Work::Incoming, _) if system == System::Xen => networks::board_s(outside),
        (Work::Incoming, Some(outside)) => networks::one_end(outside),
        (Work::Networks, _) => networks::both_ends(),
        _ => disks(),
    };
    let version = ["-global", "virtio-mmio.force-legacy=false"].map(str::to_owned);
    version.into_iter().chain(own).collect()
}

/// The disks of the emulated machine.
fn disks() -> Vec<String> {
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
    disks.collect()
}

/// A client of a driver VM with what is measured of it, on our hypervisor.
pub fn hanok(
    boards: &Boards,
    (system, work): (System, Work),
    gic: Gic,
    inputs: &Inputs,
) -> Outcome<Ready> {
    let name = work.name(system);
    let path = boards.dir.join(&name).with_extension("toml");
    let cmdline = format!("{CMDLINE} {}", words(work));
    let (board, kernel) = (boards.plan.board(gic), materials::kernel(boards.plan));
    let text = match work {
        Work::Networks | Work::Incoming => {
            networks::description(board, system, (kernel, &cmdline), inputs.outside)
        }
        _ => cases::description(board, system, kernel, &cmdline),
    };
    repo::write_whole(&path, text.as_bytes()).blame(Code::Output)?;
    let overrides = Overrides {
        cpu: Some(boards.plan.cpu.clone()),
        memory: Some(BOARD_MEMORY),
        ..Overrides::default()
    };
    let userland = Some(inputs.userland.to_owned());
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
pub fn with_pauses(command: &Command) -> Command {
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
