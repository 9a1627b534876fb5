//! Building our own code with cargo.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};
use hanok_system::Architecture;

use crate::image;
use hanok_base::ui::LongStep;
use hanok_base::{process, repo};

/// The target of the 64-bit image.
pub const TARGET: &str = "aarch64-unknown-none-softfloat";
/// The target of 32-bit programs.
pub const TARGET_32: &str = "armv7a-none-eabi";
const HYPERVISOR: &str = "hanok-hypervisor";
/// The crates that long exits run through: T32 saves enough space to build them for speed. And some that they do not.
const T32_LEVELS: [&str; 18] = [
    "--config",
    "profile.release.package.hanok-paging.opt-level=2",
    "--config",
    "profile.release.package.hanok-cpu32.opt-level=2",
    "--config",
    "profile.release.package.hanok-vgic.opt-level=3",
    "--config",
    "profile.release.package.hanok-armv7.opt-level=2",
    "--config",
    "profile.release.package.hanok-sched.opt-level='z'",
    "--config",
    "profile.release.package.hanok-pcpu.opt-level=2",
    "--config",
    "profile.release.package.hanok-devices.opt-level='z'",
    "--config",
    "profile.release.package.heapless.opt-level='z'",
    "--config",
    "profile.release.package.hanok-trace.opt-level='s'",
];
/// Makes the compiler emit T32 for [`TARGET_32`], in cargo's environment. Only the hypervisor is
/// built in this way: it has a size limit, and shares no crate's code with a guest.
const T32: (&str, &str) = (
    "CARGO_TARGET_ARMV7A_NONE_EABI_RUSTFLAGS",
    "-Ctarget-feature=+thumb-mode,+aapcs-frame-chain -Cllvm-args=-inlinehint-threshold=225",
);

/// cargo in the repository, with the toolchain that the repository pins.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    // If this process was started by a cargo of another toolchain, that choice would be inherited.
    command
        .current_dir(root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command
}

/// The target of programs for an architecture.
pub const fn target(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => TARGET,
        Architecture::Arm => TARGET_32,
    }
}

/// One of an architecture's images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// The image for use.
    #[default]
    Shipped,
    /// The image for tests of fault containment: it knows `hanok.selftest=`.
    Selftest,
    /// The image for descriptions with a global pool that the board enforces.
    Pools,
    /// Both.
    PoolsSelftest,
}

impl Variant {
    /// The number of variants.
    const COUNT: usize = 4;

    /// This one, or its counterpart with pools if `pools`.
    #[must_use]
    pub const fn with_pools(self, pools: bool) -> Self {
        match self {
            Self::Shipped if pools => Self::Pools,
            Self::Selftest if pools => Self::PoolsSelftest,
            own => own,
        }
    }

    /// The cargo features that make it, and what is said while it is built.
    const fn made_by(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::Shipped => (None, "Building the hypervisor"),
            Self::Selftest => (
                Some("selftest"),
                "Building the hypervisor with faults on demand",
            ),
            Self::Pools => (Some("pools"), "Building the hypervisor with pools"),
            Self::PoolsSelftest => (
                Some("pools,selftest"),
                "Building the hypervisor with pools and faults on demand",
            ),
        }
    }

    /// The folder where cargo puts it.
    fn target_dir(self, root: &Path) -> PathBuf {
        let shared = repo::target_dir(root);
        match self.made_by().0 {
            None => shared,
            Some(features) => shared.join("hanok").join(features.replace(',', "-")),
        }
    }

    /// Adds the arguments of this variant to a `cargo build`. The parts that all variants share are
    /// built once: only the last steps use a folder of their own, so that no image is taken for the
    /// other.
    fn asked_of(self, build: &mut Command, root: &Path) {
        if let Some(features) = self.made_by().0 {
            build
                .env("CARGO_BUILD_BUILD_DIR", repo::target_dir(root))
                .args(["--features", features, "--target-dir"])
                .arg(self.target_dir(root));
        }
    }
}

/// The 64-bit hypervisor's flat binary. It is built if its sources changed, once in this process.
pub fn hypervisor(root: &Path) -> Result<&'static [u8]> {
    hypervisor_of(root, Architecture::Arm64)
}

/// The hypervisor's flat binary for boards whose guests are of this architecture.
pub fn hypervisor_of(root: &Path, architecture: Architecture) -> Result<&'static [u8]> {
    variant_of(root, architecture, Variant::Shipped)
}

/// [`hypervisor_of`], for this variant.
pub fn variant_of(
    root: &Path,
    architecture: Architecture,
    variant: Variant,
) -> Result<&'static [u8]> {
    static BUILT: [[OnceLock<Vec<u8>>; Variant::COUNT]; 2] =
        [const { [const { OnceLock::new() }; Variant::COUNT] }; 2];
    let built = match architecture {
        Architecture::Arm64 => &BUILT[0],
        Architecture::Arm => &BUILT[1],
    };
    let built = &built[variant as usize];
    let (_, what) = variant.made_by();
    if let Some(built) = built.get() {
        return Ok(built);
    }
    let step = LongStep::new(what);
    let target = target(architecture);
    let mut build = cargo(root);
    build_args(&mut build, HYPERVISOR, target);
    if architecture == Architecture::Arm {
        let (name, value) = T32;
        build.env(name, value).args(T32_LEVELS);
    }
    variant.asked_of(&mut build, root);
    process::run(&mut build)?;
    let elf = elf_path(&variant.target_dir(root), HYPERVISOR, target);
    let flat = image::flatten(&read(&elf)?).with_context(|| format!("in {HYPERVISOR}"))?;
    step.done();
    Ok(built.get_or_init(|| flat))
}

/// The flat binary of the program in `guests/NAME` for `target`, as a file; built once in
/// this process.
pub fn guest(root: &Path, name: &str, target: &'static str) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<(String, &str), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (name.to_owned(), target);
    if let Some(path) = built.get(&key) {
        return Ok(path.clone());
    }
    let step = LongStep::new(format!("Building the guest {name}"));
    let package = package_in(&root.join("guests").join(name))?;
    let flat = flat(root, &package, target)?;
    let bits = if target == TARGET { "" } else { "-arm" };
    let path = repo::target_dir(root).join("hanok").join("guests");
    let path = path.join(format!("{name}{bits}.bin"));
    repo::write_whole(&path, &flat)?;
    step.done();
    built.insert(key, path.clone());
    Ok(path)
}

/// The flat binary, as a file, of the 32-bit program in `guests/NAME`, linked to run at `base`: for
/// machines whose RAM is not where a VM's is.
pub fn guest_at(root: &Path, name: &str, base: u64) -> Result<PathBuf> {
    let step = LongStep::new(format!("Building the guest {name} for {base:#x}"));
    let package = package_in(&root.join("guests").join(name))?;
    let mut build = cargo(root);
    build.env("HANOK_IMAGE_BASE", format!("{base:#x}"));
    let flat = image::flatten(&built(root, build, &package, TARGET_32)?)?;
    let path = repo::target_dir(root).join("hanok").join("guests");
    let path = path.join(format!("{name}-arm-{base:x}.bin"));
    repo::write_whole(&path, &flat)?;
    step.done();
    Ok(path)
}

/// The name of the package in `folder`.
pub(crate) fn package_in(folder: &Path) -> Result<String> {
    let path = folder.join("Cargo.toml");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = toml::from_str(&text)?;
    let package = manifest.get("package");
    let name = package.and_then(|package| package.get("name")?.as_str());
    Ok(name
        .context("a manifest without a package's name")?
        .to_owned())
}

/// Builds the bare-metal image of `package` and flattens it.
fn flat(root: &Path, package: &str, target: &str) -> Result<Vec<u8>> {
    image::flatten(&elf(root, package, target)?).with_context(|| format!("in {package}"))
}

/// The ELF file of the program in `guests/NAME` for `target`.
pub fn guest_elf(root: &Path, name: &str, target: &str) -> Result<Vec<u8>> {
    elf(root, &package_in(&root.join("guests").join(name))?, target)
}

/// Builds `package` for `target`: its ELF file.
pub fn elf(root: &Path, package: &str, target: &str) -> Result<Vec<u8>> {
    built(root, cargo(root), package, target)
}

pub(crate) fn built(
    root: &Path,
    mut build: Command,
    package: &str,
    target: &str,
) -> Result<Vec<u8>> {
    build_args(&mut build, package, target);
    process::run(&mut build)?;
    read(&elf_path(&repo::target_dir(root), package, target))
}

fn build_args(build: &mut Command, package: &str, target: &str) {
    build.args(["build", "--release", "-p", package, "--target", target]);
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The 64-bit hypervisor's ELF file with debugging information, from the last build.
pub fn hypervisor_elf(root: &Path) -> PathBuf {
    hypervisor_elf_of(root, Architecture::Arm64)
}

/// The hypervisor's ELF file with debugging information, from the last build.
pub fn hypervisor_elf_of(root: &Path, architecture: Architecture) -> PathBuf {
    variant_elf_of(root, architecture, Variant::Shipped)
}

/// [`hypervisor_elf_of`], for this variant.
pub fn variant_elf_of(root: &Path, architecture: Architecture, variant: Variant) -> PathBuf {
    elf_path(&variant.target_dir(root), HYPERVISOR, target(architecture))
}

fn elf_path(target_dir: &Path, package: &str, target: &str) -> PathBuf {
    target_dir.join(target).join("release").join(package)
}
