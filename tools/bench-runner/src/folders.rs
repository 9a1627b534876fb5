//! Folders in which boards run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use hanok_base::repo;
use hanok_base::scratch::Scratch;

/// Where images and initramfs files of all boards are while they run: they are large.
pub fn work_dir(root: &Path) -> Result<Scratch> {
    Scratch::new(&repo::target_dir(root).join("hanok"), "bench-")
}

/// Where boards' gdb stubs listen: a socket's name must be short (108 bytes, unix(7)).
pub fn sockets() -> Result<Scratch> {
    Scratch::new(&std::env::temp_dir(), "hanok-")
}

/// An empty folder.
pub fn fresh(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}
