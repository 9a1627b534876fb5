//! Building our own code with cargo.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use crate::ui::Step;
use crate::{image, process, repo};

/// The target of the 64-bit image.
pub const TARGET: &str = "aarch64-unknown-none-softfloat";
const HYPERVISOR: &str = "hanok-hypervisor";

/// cargo in the repository, with the toolchain that the repository pins.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    // Were this process started by a cargo of another toolchain, its choice would be inherited.
    command
        .current_dir(root)
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command
}

/// The hypervisor's flat binary, built if its sources changed; once in this process.
pub fn hypervisor(root: &Path) -> Result<&'static [u8]> {
    static BUILT: OnceLock<Vec<u8>> = OnceLock::new();
    if let Some(built) = BUILT.get() {
        return Ok(built);
    }
    let step = Step::new("Building the hypervisor");
    let mut build = cargo(root);
    build.args(["build", "--release", "-p", HYPERVISOR, "--target", TARGET]);
    process::run(&mut build)?;
    step.done();
    let elf = elf_path(root);
    let bytes = std::fs::read(&elf).with_context(|| format!("cannot read {}", elf.display()))?;
    let flat = image::flatten(&bytes).with_context(|| format!("in {}", elf.display()))?;
    Ok(BUILT.get_or_init(|| flat))
}

/// The hypervisor as a debugger wants it.
fn elf_path(root: &Path) -> PathBuf {
    repo::target_dir(root)
        .join(TARGET)
        .join("release")
        .join(HYPERVISOR)
}
