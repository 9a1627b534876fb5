//! Debian's U-Boot for QEMU's boards: a VM's firmware, and a board's boot loader.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::Store;

/// The package with all of its builds.
pub const PACKAGE: &str = "u-boot-qemu:all";
/// The build for 64-bit boards that are like QEMU's `virt`.
pub const ARM64: &str = "qemu_arm64";

impl Store {
    /// U-Boot's image for the board that U-Boot calls `board`.
    pub fn u_boot(&self, board: &str) -> Result<PathBuf> {
        let image = image(&self.debian(PACKAGE)?, board);
        if !image.is_file() {
            bail!("{PACKAGE} has no U-Boot for a board {board}");
        }
        Ok(image)
    }

    /// The same as far as it is known without fetching it.
    pub fn u_boot_if_there(&self, board: &str) -> PathBuf {
        let found = self.cache.resolved(PACKAGE);
        found.map_or("u-boot.bin".into(), |found| {
            image(&self.cache.path(found.path), board)
        })
    }
}

fn image(package: &Path, board: &str) -> PathBuf {
    let builds = package.join("usr/lib/u-boot");
    builds.join(board).join("u-boot.bin")
}
