//! Makes the results, in the form in which they are kept, from what the boots gave.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use hanok_bench::{Failure, Gic, Machine, Profile, Results, Run, Side};
use hanok_system::Architecture;

use super::boards::{Boards, GUEST_MEMORY};
use super::job::{self, Given};
use super::materials::Materials;
use super::plan::{Job, Plan};
use hanok_artifacts::cargo;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui::tail;
use hanok_base::{process, repo, ui};

/// Where, beside the results, each board's console is.
pub const CONSOLES: &str = "consoles";
/// The results, for programs.
pub const RESULTS: &str = "results.json";
/// How much of a failing side's console is kept.
const SHOWN: usize = 25;

/// The outcome of one boot.
pub type Done = (Job, Result<Given, String>);

/// Results that know their commit and nothing else.
pub fn started(root: &Path) -> Results {
    let git = |args: &[&str]| {
        let git = &mut Command::new("git");
        // Dates in UTC can be ordered as text.
        let said = process::text(git.current_dir(root).args(args).env("TZ", "UTC"));
        said.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    Results {
        date: git(&[
            "show",
            "--no-patch",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            "--format=%cd",
        ]),
        modified: !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty(),
        ..Results::new(git(&["rev-parse", "HEAD"]))
    }
}

/// Writes the results so far, for programs and for `--show`: a run that is interrupted is not lost.
pub fn write_so_far(
    results: &mut Results,
    boards: &Boards,
    done: &[Done],
    output: &Path,
) -> Outcome<()> {
    results.runs.clear();
    let consoles = output.join(CONSOLES);
    for gic in &boards.plan.gics {
        if done.iter().any(|(job, _)| job.gic == *gic) {
            results.runs.push(run_of(*gic, boards, done, &consoles)?);
        }
    }
    write(results, output).blame(Code::Output)
}

/// Everything about one machine.
fn run_of(gic: Gic, boards: &Boards, done: &[Done], consoles: &Path) -> Outcome<Run> {
    let mut run = Run::new(machine(gic, boards));
    for (job, given) in done.iter().filter(|(job, _)| job.gic == gic) {
        match given {
            Ok(given) => {
                for (figure, value) in &given.values {
                    run.add(figure, job.side, *value).blame(Code::Refused)?;
                }
                run.operations.extend(given.operations.iter().cloned());
                if !given.lacking.is_empty() {
                    let why = given.lacking.join("; ");
                    run.failures.push(failure(job, &why, consoles));
                }
            }
            Err(why) => run.failures.push(failure(job, why, consoles)),
        }
    }
    run.profiles = profiles(gic, boards, done).blame(Code::Refused)?;
    for (side, bytes) in &boards.images {
        run.add("image", *side, *bytes as f64)
            .blame(Code::Refused)?;
    }
    Ok(run)
}

/// Where the hypervisor's instructions went, in the first repetition; the others are alike.
fn profiles(gic: Gic, boards: &Boards, done: &[Done]) -> Result<Vec<Profile>> {
    let Some(counting) = &boards.counting else {
        return Ok(Vec::new());
    };
    let first = |job: &Job| job.gic == gic && job.round == 0;
    let given = done.iter().filter(|(job, _)| first(job));
    let given = given.filter_map(|(_, given)| given.as_ref().ok());
    let counted = given.flat_map(|given| &given.counted);
    counted.map(|counted| counted.kept(counting)).collect()
}

/// Bytes of the hypervisors' images, as they are loaded.
pub fn images(root: &Path, plan: &Plan, materials: &Materials) -> Result<Vec<(Side, u64)>> {
    let mut all = Vec::new();
    if !plan.figures.iter().any(|figure| figure.id == "image") {
        return Ok(all);
    }
    if plan.wants(Side::Hanok) {
        all.push((
            Side::Hanok,
            cargo::hypervisor_of(root, plan.architecture)?.len() as u64,
        ));
    }
    if let Some(xen) = &materials.xen {
        all.push((Side::Xen, fs::metadata(xen)?.len()));
    }
    Ok(all)
}

fn machine(gic: Gic, boards: &Boards) -> Machine {
    let versions = &boards.materials.versions;
    let mut peers = BTreeMap::new();
    peers.extend(versions.xen.clone().map(|version| (Side::Xen, version)));
    let vmm = versions.vmm.as_ref();
    peers.extend(vmm.map(|version| {
        (
            Side::Kvm,
            format!("Linux {}, QEMU {version}", versions.kernel),
        )
    }));
    Machine {
        cpu: boards.plan.cpu.clone(),
        bits: bits(boards.plan.architecture),
        extensions: boards.plan.extensions,
        gic,
        memory_mib: GUEST_MEMORY >> 20,
        qemu: boards.materials.qemu.version().to_owned(),
        kernel: format!("Debian {}", versions.kernel),
        lmbench: versions.lmbench.clone(),
        peers,
        settings: settings(boards.plan),
    }
}

fn bits(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Arm64 => 64,
        Architecture::Arm => 32,
    }
}

fn settings(plan: &Plan) -> Vec<String> {
    let lmbench = format!(
        "lmbench: ENOUGH=20000 TIMING_O=0 LOOP_O=0, -P 1 -W 0 -N {} (ctx-2: -N {})",
        plan.inner_rounds,
        25 * plan.inner_rounds
    );
    let kvm = match plan.architecture {
        Architecture::Arm64 => KVM,
        Architecture::Arm => NO_KVM,
    };
    let rest = SETTINGS.into_iter().chain([kvm]).map(str::to_owned);
    rest.chain([lmbench]).collect()
}

/// What a reader needs to judge or repeat a run, whatever is measured.
const SETTINGS: [&str; 6] = [
    "QEMU: -icount shift=0,sleep=off, one core, -seed 1, -rtc base=2026-01-01T00:00:00,clock=vm, \
     its=off (and highmem=off on a 32-bit machine); 256 MiB for the machine itself, 1 GiB under a hypervisor",
    "Every Linux: quiet norandmaps nokaslr kpti=off mitigations=off; one kernel and one initramfs \
     on all sides",
    "nanosleep: the Min of cyclictest --threads=1 --priority=80 --interval=200 --loops=1000 --nsecs",
    "boot: CNTVCT_EL0 in init's first instruction plus CNTVOFF_EL2 as QEMU's gdb stub tells it",
    "Xen: the guest is dom0, dom0_mem=256M dom0_max_vcpus=1, all else as by default",
    "image: Hanok's flat image without guests; Xen's is the package's, which is not compressed",
];

const KVM: &str = "KVM: the same kernel as host, Debian's qemu-system-arm as VMM, -cpu host, its=off; boot \
     includes the host's own start";
const NO_KVM: &str = "KVM: there is none; Linux has no 32-bit host since 5.7";

fn failure(job: &Job, why: &str, consoles: &Path) -> Failure {
    let said = fs::read(job::console_path(job, consoles)).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    Failure {
        side: job.side,
        why: format!("{}: {why}", job.name()),
        console: tail(&said, SHOWN).lines().map(ui::plain).collect(),
    }
}

/// Writes the results for programs, the page's source.
fn write(results: &Results, dir: &Path) -> Result<()> {
    let json = dir.join(RESULTS);
    repo::write_whole(&json, results.to_json()?.as_bytes())
}
