//! The shorter subcommands.

pub mod run;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::artifacts::Store;
use crate::artifacts::kernel::KernelSpec;
use crate::cargo;
use crate::exit::{Blame, Code, Outcome};
use crate::initramfs::modules::Selection;
use crate::system::{self, Overrides};

/// The stock kernels that `setup` fetches: those that the systems and tests name.
const KERNELS: [&str; 4] = [
    "debian:6.1",
    "debian:6.12",
    "debian:6.1-rt",
    "debian:6.12-rt",
];

/// A 32-bit userland for the tests.
const TEST_PACKAGE: &str = "busybox-static:armhf";

/// `path` as the user means it: from here, else from the repository (`systems/demo.toml`).
pub fn find(root: &Path, path: &Path) -> PathBuf {
    let there = root.join(path);
    if !path.exists() && there.exists() {
        there
    } else {
        path.to_owned()
    }
}

/// `hanok check`.
pub fn check(root: &Path, file: &Path) -> Outcome {
    let system = system::load(root, &find(root, file), &Overrides::default())?;
    let vms = system.vms.len();
    println!(
        "{}: sound ({vms} VM on board {})",
        file.display(),
        system.board.name
    );
    Ok(Code::Success)
}

/// `hanok build`.
pub fn build(root: &Path, file: &Path, output: &Path, yes: bool) -> Outcome {
    let system = system::load(root, &find(root, file), &Overrides::default())?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let resolved = system::resolve(root, &store, &system.artifacts())?;
    let image = system::build(root, &system, &resolved)?;
    fs::write(output, &image)
        .with_context(|| format!("cannot write {}", output.display()))
        .blame(Code::Refused)?;
    println!("{}: {} bytes", output.display(), image.len());
    Ok(Code::Success)
}

/// `hanok boards`.
pub fn boards(root: &Path) -> Outcome {
    let boards = hanok_system::boards(&system::boards_dir(root)).map_err(system::refused)?;
    for board in boards {
        println!("{:<16} {}", board.name, board.description);
        println!("{:<16} CPUs: {}", "", board.cpus.join(", "));
        let (cores, memory) = (board.cores, board.memory);
        println!(
            "{:<16} {} to {} cores, {} to {} MB of memory",
            "",
            cores.min,
            cores.max,
            memory.min >> 20,
            memory.max >> 20
        );
    }
    Ok(Code::Success)
}

/// `hanok setup`.
pub fn setup(root: &Path, update: bool, yes: bool) -> Outcome {
    let store = Store::open(yes, update).blame(Code::Setup)?;
    system::agree(&store, &everything())?;
    let qemu = store.qemu().blame(Code::Setup)?;
    println!("QEMU {}: {}", qemu.version(), qemu.program().display());
    let mut kernels = Vec::new();
    for reference in KERNELS {
        let Some(spec) = KernelSpec::parse(reference) else {
            continue;
        };
        let kernel = store.kernel(&spec).blame(Code::Setup)?;
        let resolved = &kernel.resolved;
        println!("{reference}: {} {}", resolved.package, resolved.version);
        kernels.push(kernel);
    }
    store.busybox().blame(Code::Setup)?;
    store.debian(TEST_PACKAGE).blame(Code::Setup)?;
    store.prune().blame(Code::Setup)?;
    for kernel in &kernels {
        store
            .initramfs(kernel, &Selection::Default)
            .blame(Code::Setup)?;
    }
    fetch_crates(root)?;
    println!("Everything is there.");
    Ok(Code::Success)
}

fn everything() -> Vec<(String, String)> {
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    let kernels = KERNELS.iter().filter_map(|name| KernelSpec::parse(name));
    all.extend(kernels.map(|spec| (spec.reference(), system::kernel_words(&spec))));
    all.push((Store::BUSYBOX.to_owned(), system::BUSYBOX_WORDS.to_owned()));
    all.push((TEST_PACKAGE.to_owned(), system::package_words(TEST_PACKAGE)));
    all
}

/// The crates of the workspace, so that later builds need no network.
fn fetch_crates(root: &Path) -> Outcome<()> {
    let mut fetch = cargo::cargo(root);
    fetch.args(["fetch", "--quiet"]);
    crate::process::run(&mut fetch).blame(Code::Setup).map(drop)
}
