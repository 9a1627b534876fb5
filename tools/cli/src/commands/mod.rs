//! The shorter subcommands.

pub mod attach;
mod black_box;
pub mod check;
pub mod previrt;
pub mod run;
pub mod sched;
pub mod top;
pub mod trace;

use std::path::{Path, PathBuf};

use hanok_system::Architecture;
use hanok_system::BuildKey;

use hanok_artifacts::cargo;
use hanok_artifacts::initramfs::modules::Selection;
use hanok_artifacts::kernel::KernelSpec;
use hanok_artifacts::{Store, runnable, u_boot};
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::outputs::Outputs;
use hanok_base::ui;
use hanok_bench_runner as bench;
use hanok_boot::overrides::Overrides;
use hanok_boot::{board, system};

/// The stock kernels that `setup` fetches: those that the systems and tests name.
const KERNELS: [&str; 6] = [
    "debian:6.1",
    "debian:6.12",
    "debian:6.1-rt",
    "debian:6.12-rt",
    "debian:6.1:armhf",
    "debian:6.12-lpae:armhf",
];

/// A 32-bit userland for the tests.
const TEST_PACKAGE: &str = "busybox-static:armhf";

/// Load for the tests, with the libraries it needs.
const TEST_PROGRAM: &str = "stress-ng:arm64";

/// `path` as the user means it: relative to the current folder, else to the repository
/// (`systems/demo.toml`).
pub fn find(root: &Path, path: &Path) -> PathBuf {
    let there = root.join(path);
    if !path.exists() && there.exists() {
        there
    } else {
        path.to_owned()
    }
}

/// `hanok build`.
pub fn build(root: &Path, file: &Path, output: &Path, key: &BuildKey, yes: bool) -> Outcome {
    let system = system::load(root, &find(root, file), &Overrides::default())?;
    let outputs = Outputs::default().reads_all(system::inputs(root, &system));
    outputs.writes("--output", output).check()?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let mut wanted = board::wanted_for_tree(&system);
    wanted.extend(system::wanted(&system.artifacts()));
    system::ask_consent(&store, &wanted)?;
    let tree = board::tree(&store, &system)?;
    let resolved = system::resolve_of(root, &store, &system)?;
    system::print_notes(&system);
    system::print_found(&system);
    let len = system::build_into(output, root, &system, &resolved, tree.as_deref(), key)?;
    ui::line(format_args!("{}: {len} bytes", output.display()));
    Ok(Code::Success)
}

/// `hanok boards`.
pub fn boards(root: &Path) -> Outcome {
    let boards = hanok_system::boards(&system::boards_dir(root)).map_err(system::refused)?;
    for board in boards {
        ui::line(format_args!("{:<16} {}", board.name, board.description));
        ui::line(format_args!("{:<16} CPUs: {}", "", board.cpus.join(", ")));
        let (cores, memory) = (board.cores, board.memory);
        let cores = if cores.min == cores.max {
            ui::counted(cores.max, "core")
        } else {
            format!("{} to {} cores", cores.min, cores.max)
        };
        let (min, max) = (memory.min >> 20, memory.max >> 20);
        let memory = if min == max {
            format!("{max} MB of memory")
        } else {
            format!("{min} to {max} MB of memory")
        };
        ui::line(format_args!("{:<16} {cores}, {memory}", ""));
    }
    Ok(Code::Success)
}

/// `hanok setup`.
pub fn setup(root: &Path, update: bool, yes: bool) -> Outcome {
    let store = Store::open(yes, update).blame(Code::Setup)?;
    store.want_non_free();
    system::ask_consent(&store, &everything())?;
    let qemu = store.qemu().blame(Code::Setup)?;
    ui::line(format_args!(
        "QEMU {}: {}",
        qemu.version(),
        qemu.program().display()
    ));
    let mut kernels = Vec::new();
    for reference in KERNELS {
        let Some(spec) = KernelSpec::parse(reference) else {
            continue;
        };
        let kernel = store.kernel(&spec).blame(Code::Setup)?;
        let resolved = &kernel.resolved;
        ui::line(format_args!(
            "{reference}: {} {}",
            resolved.package, resolved.version
        ));
        kernels.push(kernel);
    }
    for architecture in [Architecture::Arm64, Architecture::Arm] {
        store.busybox(architecture).blame(Code::Setup)?;
    }
    store.debian(TEST_PACKAGE).blame(Code::Setup)?;
    store.runnable(TEST_PROGRAM).blame(Code::Setup)?;
    store.u_boot(u_boot::ARM64).blame(Code::Setup)?;
    bench::fetch(&store).blame(Code::Setup)?;
    store.prune().blame(Code::Setup)?;
    for kernel in &kernels {
        store
            .initramfs(kernel, &Selection::Default)
            .blame(Code::Setup)?;
    }
    fetch_crates(root)?;
    ui::line(format_args!("Everything is there."));
    Ok(Code::Success)
}

fn everything() -> Vec<(String, String)> {
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    let kernels = KERNELS.iter().filter_map(|name| KernelSpec::parse(name));
    all.extend(kernels.map(|spec| (spec.reference(), system::kernel_words(&spec))));
    for busybox in [Store::BUSYBOX, Store::BUSYBOX_32] {
        all.push((busybox.to_owned(), system::BUSYBOX_WORDS.to_owned()));
    }
    all.push(system::wanted_u_boot());
    let program = system::program_words(TEST_PROGRAM);
    all.push((runnable::reference(TEST_PROGRAM), program));
    all.push((TEST_PACKAGE.to_owned(), system::package_words(TEST_PACKAGE)));
    for architecture in [Architecture::Arm64, Architecture::Arm] {
        let sides = bench::sides_on(architecture, true);
        all.extend(bench::wanted(architecture, true, sides, true));
    }
    all.sort();
    all.dedup();
    all
}

/// Downloads the crates of the workspace, so that later builds need no network.
fn fetch_crates(root: &Path) -> Outcome<()> {
    let mut fetch = cargo::cargo(root);
    fetch.args(["fetch", "--quiet"]);
    hanok_base::process::run(&mut fetch)
        .blame(Code::Setup)
        .map(drop)
}
