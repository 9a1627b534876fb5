//! What stock kernels are compared with: the vmlinux from a kernel's debug package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::newest;
use crate::cache::Resolved;
use crate::kernel::Kernel;
use crate::store::Store;
use hanok_base::process;

/// The name of the kernel's ELF file, and of the cache's folder of such files.
const VMLINUX: &str = "vmlinux";

impl Store {
    /// The vmlinux of a stock kernel, from its debug package. Nothing else of that package is kept.
    pub fn vmlinux(&self, kernel: &Kernel) -> Result<PathBuf> {
        let name = format!("{}-dbg:armhf", kernel.resolved.package);
        let reference = format!("vmlinux {name} {}", kernel.resolved.version);
        if let Some(found) = self.cache.resolved(&reference) {
            return Ok(self.cache.path(found.path).join(VMLINUX));
        }
        let _lock = self.cache.lock()?;
        let apt = self.apt()?;
        let all = apt.show(&name)?.into_iter();
        let same = all.filter(|package| package.version == kernel.resolved.version);
        let package =
            newest(same).with_context(|| format!("Debian has no {name} of that version"))?;
        let folder = self.cache.temporary()?;
        let deb = apt.download(&package, folder.path())?;
        let release = kernel.resolved.package.trim_start_matches("linux-image-");
        let inside = format!("./usr/lib/debug/boot/vmlinux-{release}");
        extract(&deb, &inside, folder.path())?;
        let path = PathBuf::from(VMLINUX).join(package.folder());
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        fs::rename(folder.path().join(&inside), tree.join(VMLINUX))?;
        self.cache.publish(&tree, &path)?;
        let resolved = Resolved::of(&package, path);
        self.cache.remember(&reference, &resolved)?;
        Ok(self.cache.path(resolved.path).join(VMLINUX))
    }
}

/// One file of a package, without unpacking the rest.
fn extract(deb: &Path, inside: &str, to: &Path) -> Result<()> {
    let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -x -C \"$2\" \"$3\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh"])
        .args([deb, to])
        .arg(inside);
    process::run(&mut command).map(drop)
}
