//! What the boards boot: kernel, userland, payload, and the other hypervisors.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_bench::Side;
use hanok_system::Architecture;

use super::markers::with_markers;
use super::plan::Plan;
use hanok_artifacts::kernel::{Kernel, KernelSpec};
use hanok_artifacts::qemu::Qemu;
use hanok_artifacts::rewritten::Outcome;
use hanok_artifacts::{Store, runnable};
use hanok_artifacts::{cargo, initramfs};
use hanok_base::exit::{self, Blame, Code};
use hanok_base::repo;
use hanok_boot::system;

/// What is fetched for an architecture.
struct Names {
    /// The kernel of every guest, and of KVM's host.
    kernel: &'static str,
    /// From Debian's non-free: its licence binds what may be published of its results.
    lmbench: &'static str,
    /// The folder in which the package has its programs.
    rows: &'static str,
    /// For cyclictest.
    rt_tests: &'static str,
    xen: &'static str,
    /// What the name of Xen's image ends with.
    xen_image: &'static str,
    busybox: &'static str,
}

const ARM64: Names = Names {
    kernel: "debian:6.1",
    lmbench: "lmbench:arm64",
    rows: "usr/lib/lmbench/bin",
    rt_tests: "rt-tests:arm64",
    xen: "xen-hypervisor-4.17-arm64:arm64",
    xen_image: "arm64",
    busybox: Store::BUSYBOX,
};
/// The kernel is the one with long descriptors, which can be Xen's first domain.
const ARMHF: Names = Names {
    kernel: "debian:6.1-lpae:armhf",
    lmbench: "lmbench:armhf",
    rows: "usr/lib/lmbench/bin/armv7l-linux-gnu",
    rt_tests: "rt-tests:armhf",
    xen: "xen-hypervisor-4.17-armhf:armhf",
    xen_image: "armhf",
    busybox: Store::BUSYBOX_32,
};
/// What Xen's first domain needs to serve another one: the store, and the program that tells a domain of it that Xen began itself.
const XEN_TOOLS: &str = "xen-utils-4.17:arm64";
const STORE_TOOLS: &str = "xenstore-utils:arm64";
/// KVM's other half.
const VMM: &str = "qemu-system-arm:arm64";

const fn names(architecture: Architecture) -> &'static Names {
    match architecture {
        Architecture::Arm64 => &ARM64,
        Architecture::Arm => &ARMHF,
    }
}

/// The kernel of every guest, as a description names it: the board says for which architecture.
pub fn kernel(plan: &Plan) -> &'static str {
    let reference = kernel_reference(plan.architecture, plan.extensions);
    reference.strip_suffix(":armhf").unwrap_or(reference)
}

/// The kernel of every guest. CPUs without virtualization extensions have no long descriptors.
const fn kernel_reference(architecture: Architecture, extensions: bool) -> &'static str {
    match architecture {
        Architecture::Arm if !extensions => "debian:6.1:armhf",
        _ => names(architecture).kernel,
    }
}

/// The address of the 32-bit payload in Xen, which gives its first domain 256 MiB from 0x6000_0000
/// on: the payload's code has absolute addresses.
const XEN_PAYLOAD: u64 = 0x6080_0000;

/// The start of RAM of QEMU's `virt`, and of a VM.
const RAM: u64 = 0x4000_0000;

/// The programs of lmbench that the script runs, and the one that they run.
const ROWS: [&str; 14] = [
    "lat_syscall",
    "lat_sig",
    "lat_pipe",
    "lat_select",
    "lat_sem",
    "lat_fcntl",
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
    /// The same with programs that execute markers, where operations are counted.
    pub marked: Option<PathBuf>,
    /// Where the unpacked kernel has its first instruction, natively as in a VM, where operations are counted.
    pub kernel_start: Option<u64>,
    /// The bare-metal payload, where a figure needs it.
    pub payload: Option<PathBuf>,
    /// The payload for Xen, if Xen gives its first domain RAM at another address.
    pub payload_in_xen: Option<PathBuf>,
    /// Xen's image, where Xen is measured.
    pub xen: Option<PathBuf>,
    /// The initramfs of KVM's host, without what a single run adds.
    pub host: Option<Vec<u8>>,
    /// The initramfs of Xen's first domain where that serves devices, but for the modules of its kernel.
    pub xen_host: Option<Vec<u8>>,
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

/// The references in the cache for everything that `sides` need on an architecture, with Linux as a
/// guest or without, and words about them.
pub fn wanted(
    architecture: Architecture,
    extensions: bool,
    sides: &[Side],
    linux: bool,
) -> Vec<(String, String)> {
    let names = names(architecture);
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    let kernel = KernelSpec::parse(kernel_reference(architecture, extensions));
    all.extend(kernel.map(|spec| (spec.reference(), system::kernel_words(&spec))));
    let mut add = |reference: String, words: &str| all.push((reference, words.to_owned()));
    add(names.busybox.to_owned(), system::BUSYBOX_WORDS);
    if linux {
        add(
            runnable::reference(names.lmbench),
            "lmbench, from Debian's non-free, with its libraries (5 MB)",
        );
        add(
            runnable::reference(names.rt_tests),
            "cyclictest with its libraries (2 MB)",
        );
    }
    if sides.contains(&Side::Xen) {
        add(names.xen.to_owned(), "Xen 4.17 (1 MB)");
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
    for names in [&ARM64, &ARMHF] {
        store.runnable(names.lmbench)?;
        store.runnable(names.rt_tests)?;
        store.debian(names.xen)?;
    }
    for name in [VMM, XEN_TOOLS, STORE_TOOLS] {
        store.runnable(name)?;
    }
    Ok(())
}

impl Materials {
    /// Asks for what is missing, fetches it, and builds the rest into `dir`.
    pub fn gather(root: &Path, store: &Store, plan: &Plan, dir: &Path) -> exit::Outcome<Self> {
        let linux = plan.needs_linux();
        if linux {
            store.want_non_free();
        }
        let mut all = wanted(plan.architecture, plan.extensions, &plan.sides, linux);
        if plan.needs_xen_host() {
            all.extend(wanted_for_xen_host());
        }
        system::ask_consent(store, &all)?;
        let found = Self::found(root, store, plan, dir).blame(Code::Setup)?;
        if plan.wants(Side::Hanok) {
            cargo::hypervisor_of(root, plan.architecture).blame(Code::Refused)?;
        }
        Ok(found)
    }

    fn found(root: &Path, store: &Store, plan: &Plan, dir: &Path) -> Result<Self> {
        let architecture = plan.architecture;
        let names = names(architecture);
        let reference = kernel_reference(architecture, plan.extensions);
        let spec = KernelSpec::parse(reference).context("no reference of a kernel")?;
        let kernel = store.kernel(&spec)?;
        let xen = plan.wants(Side::Xen).then(|| xen(store, names));
        let xen = xen.transpose()?;
        let host = plan
            .wants(Side::Kvm)
            .then(|| host(root, store))
            .transpose()?;
        let xen_host = plan.needs_xen_host().then(|| xen_host(store));
        let payload = plan.needs_payload();
        let moved = payload && plan.wants(Side::Xen) && architecture == Architecture::Arm;
        let moved = moved.then(|| cargo::guest_at(root, "bench", XEN_PAYLOAD));
        let payload = payload.then(|| cargo::guest(root, "bench", cargo::target(architecture)));
        let userland = plan.needs_linux().then(|| {
            let path = dir.join("userland");
            repo::write_whole(&path, &userland_of(root, store, architecture)?)?;
            anyhow::Ok(path)
        });
        let userland = userland.transpose()?;
        let marked = userland.as_ref().filter(|_| plan.operations).map(|from| {
            let path = dir.join("marked");
            let bytes = with_markers(fs::read(from)?, architecture);
            repo::write_whole(&path, &bytes)?;
            anyhow::Ok(path)
        });
        let kernel_start = if plan.operations {
            kernel_start(store, &kernel)?
        } else {
            None
        };
        Ok(Self {
            qemu: store.qemu()?,
            userland,
            marked: marked.transpose()?,
            kernel_start,
            payload: payload.transpose()?,
            payload_in_xen: moved.transpose()?,
            versions: versions(store, &kernel, plan),
            kernel,
            xen,
            host,
            xen_host: xen_host.transpose()?,
        })
    }
}

/// Where a zImage puts the kernel that it unpacks: at the same distance from the start of RAM as it is linked at from the
/// start of the kernel's mapping (Linux, arch/arm/boot/compressed/head.S, AUTO_ZRELADDR). `None` for a kernel of which that is
/// not known.
fn kernel_start(store: &Store, kernel: &Kernel) -> Result<Option<u64>> {
    let rewritten = store.rewritten(&kernel.image)?;
    Ok(rewritten.and_then(|kernel| match kernel.outcome {
        Outcome::Kernel { memory, .. } => Some(RAM + memory.offset),
        _ => None,
    }))
}

/// Only those of the sides that are measured.
fn versions(store: &Store, kernel: &Kernel, plan: &Plan) -> Versions {
    let names = names(plan.architecture);
    let of = |reference: &str| store.cache.resolved(reference).map(|found| found.version);
    let of_side = |side, reference: &str| plan.wants(side).then(|| of(reference)).flatten();
    Versions {
        kernel: kernel.resolved.version.clone(),
        lmbench: of(&runnable::reference(names.lmbench)).unwrap_or_default(),
        xen: of_side(Side::Xen, names.xen),
        vmm: of_side(Side::Kvm, &runnable::reference(VMM)),
    }
}

/// Xen's image, as Debian's package has it.
fn xen(store: &Store, names: &Names) -> Result<PathBuf> {
    let boot = store.debian(names.xen)?.join("boot");
    let files = fs::read_dir(&boot).with_context(|| format!("no {}", boot.display()))?;
    let mut images = files.filter_map(Result::ok).map(|entry| entry.path());
    let image = images.find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("xen-") && name.ends_with(names.xen_image)
    });
    image.with_context(|| format!("{} has no image", names.xen))
}

/// The initramfs that is measured, equal on all sides.
fn userland_of(root: &Path, store: &Store, architecture: Architecture) -> Result<Vec<u8>> {
    let packages = names(architecture);
    let lmbench = store.runnable(packages.lmbench)?;
    let names: Vec<_> = ROWS
        .iter()
        .map(|name| {
            (
                format!("{}/{name}", packages.rows),
                format!("bench/bin/{name}"),
            )
        })
        .collect();
    let names: Vec<_> = names.iter().map(|(a, b)| (&a[..], &b[..])).collect();
    let mut files = runnable::programs(&lmbench, &names)?;
    let cyclictest = [("usr/bin/cyclictest", "bench/bin/cyclictest")];
    let rt_tests = store.runnable(packages.rt_tests)?;
    files.extend(runnable::programs(&rt_tests, &cyclictest)?);
    files.push(script("bench/run", include_str!("../guest/bench")));
    let work = cargo::elf(root, "hanok-integer-work", cargo::target(architecture))?;
    files.push(("bench/bin/integer-work".to_owned(), work));
    files.push(init(root, architecture)?);
    let mut bytes = fs::read(store.bare_initramfs(architecture)?)?;
    bytes.extend(initramfs::archive_of(&files));
    Ok(bytes)
}

/// The initramfs of KVM's host, as far as all of its runs have it in common.
fn host(root: &Path, store: &Store) -> Result<Vec<u8>> {
    let vmm = store.runnable(VMM)?;
    let program = [("usr/bin/qemu-system-aarch64", VMM_PROGRAM)];
    let mut files = runnable::programs(&vmm, &program)?;
    files.push(script("bench/host", include_str!("../guest/bench-host")));
    files.push(init(root, Architecture::Arm64)?);
    let mut bytes = fs::read(store.bare_initramfs(Architecture::Arm64)?)?;
    bytes.extend(initramfs::archive_of(&files));
    Ok(bytes)
}

/// What is fetched for Xen's first domain, and words about it.
fn wanted_for_xen_host() -> [(String, String); 2] {
    [
        (XEN_TOOLS, "tools of Xen's first domain (10 MB)"),
        (STORE_TOOLS, "tools for Xen's store (1 MB)"),
    ]
    .map(|(name, words)| (runnable::reference(name), words.to_owned()))
}

/// The initramfs of Xen's first domain that serves devices, but for the modules of its kernel.
fn xen_host(store: &Store) -> Result<Vec<u8>> {
    let tools = ["xenstored", "init-dom0less"].map(|name| {
        (
            format!("usr/lib/xen-4.17/bin/{name}"),
            format!("bench/bin/{name}"),
        )
    });
    let tools = tools.each_ref().map(|(from, to)| (&**from, &**to));
    let mut files = runnable::programs(&store.runnable(XEN_TOOLS)?, &tools)?;
    let tools = ["xenstore-write", "xenstore-chmod", "xenstore-read"]
        .map(|name| (format!("usr/bin/{name}"), format!("bench/bin/{name}")));
    let tools = tools.each_ref().map(|(from, to)| (&**from, &**to));
    files.extend(runnable::programs(&store.runnable(STORE_TOOLS)?, &tools)?);
    files.push(script("bench/xen-host", include_str!("../guest/xen-host")));
    Ok(initramfs::archive_of(&files))
}

/// Where the VMM is in KVM's host.
pub const VMM_PROGRAM: &str = "bench/bin/qemu-system-aarch64";

/// A file of an initramfs.
pub fn script(name: &str, text: &str) -> (String, Vec<u8>) {
    (name.to_owned(), text.as_bytes().to_vec())
}

/// The program that reads the counter, first of all.
fn init(root: &Path, architecture: Architecture) -> Result<(String, Vec<u8>)> {
    let elf = cargo::elf(root, "hanok-init-clock", cargo::target(architecture))?;
    Ok(("bench/init".to_owned(), elf))
}
