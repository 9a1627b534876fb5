//! Where the repository is: files that are built and read by name are there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The root of the repository: `HANOK_ROOT` (set by the bootstrap script), else the folder that
/// this program was built in, else the first folder upwards from the current one that looks like
/// it.
pub fn root() -> Result<PathBuf> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let given = std::env::var_os("HANOK_ROOT").map(PathBuf::from);
    let here = std::env::current_dir()?;
    let upwards = here.ancestors().map(Path::to_owned);
    let candidates = given.into_iter().chain([built_in]).chain(upwards);
    for candidate in candidates {
        if is_root(&candidate) {
            return Ok(candidate.canonicalize()?);
        }
    }
    bail!("the Hanok repository was not found; start ./hanok in its folder, or set HANOK_ROOT")
}

fn is_root(dir: &Path) -> bool {
    ["Cargo.toml", "boards", "core", "hypervisor"]
        .iter()
        .all(|name| dir.join(name).exists())
}

/// Writes a file completely, or not at all: another process may be reading the old one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().context("a file needs a folder")?;
    std::fs::create_dir_all(dir)?;
    crate::outputs::put(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// The folder where cargo puts its output.
pub fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    }
}
