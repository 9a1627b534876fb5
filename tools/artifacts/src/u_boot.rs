//! Debian's U-Boot for QEMU's boards: a VM's firmware, and a board's boot loader.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hanok_system::Architecture;

use crate::cache;
use crate::store::Store;

/// The package with all of its builds.
pub const PACKAGE: &str = "u-boot-qemu:all";
/// The build for 64-bit boards that are like QEMU's `virt`.
pub const ARM64: &str = "qemu_arm64";

/// The build for boards of `architecture` that are like QEMU's `virt`.
pub const fn virt(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Arm64 => ARM64,
        Architecture::Arm => "qemu_arm",
    }
}

/// The offsets in flash of an initramfs that U-Boot is to boot with, and of the kernel.
const INITRAMFS: usize = 0x20_0000;
const KERNEL: usize = 0x180_0000;

impl Store {
    /// U-Boot's image for the board that U-Boot calls `board`.
    pub fn u_boot(&self, board: &str) -> Result<PathBuf> {
        let image = image(&self.debian(PACKAGE)?, board);
        if !image.is_file() {
            bail!("{PACKAGE} has no U-Boot for a board {board}");
        }
        Ok(image)
    }

    /// U-Boot's image with an initramfs and a kernel behind it, as they are in flash. Zeros are
    /// between them, which an initramfs may end in.
    pub fn u_boot_with(&self, board: &str, kernel: &Path, initramfs: &Path) -> Result<PathBuf> {
        let u_boot = self.u_boot(board)?;
        let parts = [
            (0, u_boot.as_path()),
            (INITRAMFS, initramfs),
            (KERNEL, kernel),
        ];
        let name = format!("initramfs/{}.flash", cache::digest(format!("{parts:?}")));
        let path = self.cache.path(&name);
        if path.exists() {
            return Ok(path);
        }
        let _lock = self.cache.lock()?;
        let folder = self.cache.temporary()?;
        let draft = folder.path().join("flash");
        fs::write(&draft, laid_out(&parts)?)?;
        self.cache.publish(&draft, &name)
    }

    /// The path of U-Boot's image, as far as it is known without fetching it.
    pub fn u_boot_if_there(&self, board: &str) -> PathBuf {
        let found = self.cache.resolved(PACKAGE);
        found.map_or("u-boot.bin".into(), |found| {
            image(&self.cache.path(found.path), board)
        })
    }
}

/// The content of several files, each from its offset on.
fn laid_out(parts: &[(usize, &Path)]) -> Result<Vec<u8>> {
    let mut flash = Vec::new();
    for (at, path) in parts {
        if flash.len() > *at {
            bail!("what lies before {} in flash is too large", path.display());
        }
        flash.resize(*at, 0);
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        flash.extend(bytes);
    }
    Ok(flash)
}

fn image(package: &Path, board: &str) -> PathBuf {
    let builds = package.join("usr/lib/u-boot");
    builds.join(board).join("u-boot.bin")
}
