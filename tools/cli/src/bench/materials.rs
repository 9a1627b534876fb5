//! What the boards boot: kernel, userland, payload, the other hypervisors.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_bench::Side;

use super::plan::Plan;
use crate::artifacts::kernel::{Kernel, KernelSpec};
use crate::artifacts::qemu::Qemu;
use crate::artifacts::{Store, runnable};
use crate::exit::{Blame, Code, Outcome};
use crate::{cargo, initramfs, repo, system};

/// The kernel of every guest, and of KVM's host.
const KERNEL: &str = "debian:6.1";
/// From Debian's non-free: its licence binds what may be published of its results.
const LMBENCH: &str = "lmbench:arm64";
/// For cyclictest.
const RT_TESTS: &str = "rt-tests:arm64";
const XEN: &str = "xen-hypervisor-4.17-arm64:arm64";
/// KVM's other half.
const VMM: &str = "qemu-system-arm:arm64";

/// The programs of lmbench that the script runs, and the one that they run.
const ROWS: [&str; 12] = [
    "lat_syscall",
    "lat_sig",
    "lat_pipe",
    "lat_select",
    "lat_proc",
    "lat_pagefault",
    "lat_mmap",
    "bw_mem",
    "bw_pipe",
    "lat_mem_rd",
    "lat_ctx",
    "hello",
];

/// Everything that is booted, found or made.
pub struct Materials {
    /// The emulator.
    pub qemu: Qemu,
    /// The guests' kernel.
    pub kernel: Kernel,
    /// The guests' initramfs, where Linux is one.
    pub userland: Option<PathBuf>,
    /// The bare-metal payload, where a figure needs it.
    pub payload: Option<PathBuf>,
    /// Xen's image, where Xen is measured.
    pub xen: Option<PathBuf>,
    /// What KVM's host boots with, without what a single run adds.
    pub host: Option<Vec<u8>>,
    /// Versions of what is compared, by a name.
    pub versions: Versions,
}

/// Versions of Debian's packages.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// The kernel.
    pub kernel: String,
    /// lmbench.
    pub lmbench: String,
    /// Xen.
    pub xen: Option<String>,
    /// KVM's VMM.
    pub vmm: Option<String>,
}

/// References in the cache for all that `sides` need, with Linux as a guest or without, and
/// words about them.
pub fn wanted(sides: &[Side], linux: bool) -> Vec<(String, String)> {
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    let kernel = KernelSpec::parse(KERNEL);
    all.extend(kernel.map(|spec| (spec.reference(), system::kernel_words(&spec))));
    let mut add = |reference: String, words: &str| all.push((reference, words.to_owned()));
    add(Store::BUSYBOX.to_owned(), system::BUSYBOX_WORDS);
    if linux {
        add(
            runnable::reference(LMBENCH),
            "lmbench, from Debian's non-free, with its libraries (5 MB)",
        );
        add(
            runnable::reference(RT_TESTS),
            "cyclictest with its libraries (2 MB)",
        );
    }
    if sides.contains(&Side::Xen) {
        add(XEN.to_owned(), "Xen 4.17 for arm64 (1 MB)");
    }
    if sides.contains(&Side::Kvm) {
        add(
            runnable::reference(VMM),
            "QEMU for arm64, which KVM needs inside, with its libraries (about 20 MB)",
        );
    }
    all
}

/// Fetches all that any side needs.
pub fn fetch(store: &Store) -> Result<()> {
    for program in [LMBENCH, RT_TESTS, VMM] {
        store.runnable(program)?;
    }
    store.debian(XEN).map(drop)
}

impl Materials {
    /// Asks for what is missing, fetches it, and builds the rest into `dir`.
    pub fn gather(root: &Path, store: &Store, plan: &Plan, dir: &Path) -> Outcome<Self> {
        let linux = plan.needs_linux();
        if linux {
            store.want_non_free();
        }
        system::agree(store, &wanted(&plan.sides, linux))?;
        let found = Self::found(root, store, plan, dir).blame(Code::Setup)?;
        if plan.wants(Side::Hanok) {
            cargo::hypervisor(root).blame(Code::Refused)?;
        }
        Ok(found)
    }

    fn found(root: &Path, store: &Store, plan: &Plan, dir: &Path) -> Result<Self> {
        let spec = KernelSpec::parse(KERNEL).context("no reference of a kernel")?;
        let kernel = store.kernel(&spec)?;
        let xen = plan.wants(Side::Xen).then(|| xen(store)).transpose()?;
        let host = plan
            .wants(Side::Kvm)
            .then(|| host(root, store))
            .transpose()?;
        let payload = plan.needs_payload();
        let payload = payload.then(|| cargo::guest(root, "bench", cargo::TARGET));
        let userland = plan.needs_linux().then(|| {
            let path = dir.join("userland");
            repo::write_whole(&path, &userland_of(root, store)?)?;
            anyhow::Ok(path)
        });
        Ok(Self {
            qemu: store.qemu()?,
            userland: userland.transpose()?,
            payload: payload.transpose()?,
            versions: versions(store, &kernel, plan),
            kernel,
            xen,
            host,
        })
    }
}

/// Only those of the sides that are measured.
fn versions(store: &Store, kernel: &Kernel, plan: &Plan) -> Versions {
    let of = |reference: &str| store.cache.resolved(reference).map(|found| found.version);
    let of_side = |side, reference: &str| plan.wants(side).then(|| of(reference)).flatten();
    Versions {
        kernel: kernel.resolved.version.clone(),
        lmbench: of(&runnable::reference(LMBENCH)).unwrap_or_default(),
        xen: of_side(Side::Xen, XEN),
        vmm: of_side(Side::Kvm, &runnable::reference(VMM)),
    }
}

/// Xen's image, as Debian's package has it.
fn xen(store: &Store) -> Result<PathBuf> {
    let boot = store.debian(XEN)?.join("boot");
    let names = fs::read_dir(&boot).with_context(|| format!("no {}", boot.display()))?;
    let mut images = names.filter_map(Result::ok).map(|entry| entry.path());
    let image = images.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("xen-") && name.ends_with("arm64")
    });
    image.with_context(|| format!("{XEN} has no image"))
}

/// The initramfs that is measured, equal on all sides.
fn userland_of(root: &Path, store: &Store) -> Result<Vec<u8>> {
    let lmbench = store.runnable(LMBENCH)?;
    let names: Vec<_> = ROWS
        .iter()
        .map(|name| {
            (
                format!("usr/lib/lmbench/bin/{name}"),
                format!("bench/bin/{name}"),
            )
        })
        .collect();
    let names: Vec<_> = names.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    let mut files = runnable::programs(&lmbench, &names)?;
    let cyclictest = [("usr/bin/cyclictest", "bench/bin/cyclictest")];
    files.extend(runnable::programs(&store.runnable(RT_TESTS)?, &cyclictest)?);
    files.push(script("bench/run", include_str!("../../guest/bench")));
    files.push(init(root)?);
    let mut bytes = fs::read(store.bare_initramfs(hanok_system::Architecture::Arm64)?)?;
    bytes.extend(initramfs::archive_of(&files));
    Ok(bytes)
}

/// The initramfs of KVM's host, as far as all of its runs have it in common.
fn host(root: &Path, store: &Store) -> Result<Vec<u8>> {
    let vmm = store.runnable(VMM)?;
    let program = [("usr/bin/qemu-system-aarch64", VMM_PROGRAM)];
    let mut files = runnable::programs(&vmm, &program)?;
    files.push(script("bench/host", include_str!("../../guest/bench-host")));
    files.push(init(root)?);
    let mut bytes = fs::read(store.bare_initramfs(hanok_system::Architecture::Arm64)?)?;
    bytes.extend(initramfs::archive_of(&files));
    Ok(bytes)
}

/// Where the VMM is in KVM's host.
pub const VMM_PROGRAM: &str = "bench/bin/qemu-system-aarch64";

fn script(name: &str, text: &str) -> (String, Vec<u8>) {
    (name.to_owned(), text.as_bytes().to_vec())
}

/// The program that reads the counter, first of all.
fn init(root: &Path) -> Result<(String, Vec<u8>)> {
    let elf = cargo::elf(root, "hanok-init-clock", cargo::TARGET)?;
    Ok(("bench/init".to_owned(), elf))
}
