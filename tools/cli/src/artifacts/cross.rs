//! What 32-bit kernels are built with, and what their builds are compared with: Debian's cross
//! compiler, the kernel's source, and the vmlinux of a stock kernel out of its debug package.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Store;
use super::kernel::Kernel;
use crate::apt::{self, newest};
use crate::cache::Resolved;
use crate::process;

/// The release that all of it comes from.
const RELEASE: &str = "bookworm";
/// The compiler, and what Linux's own build needs besides a host's compiler.
const PACKAGES: [&str; 3] = ["gcc-12-arm-linux-gnueabihf", "flex", "bison"];
/// The reference under which the cache remembers them.
const REFERENCE: &str = "cross:armhf";
/// The source of a stock kernel.
const SOURCE: &str = "linux-source-6.1:all";
/// The kernel's ELF file, and the cache's folder of such.
const VMLINUX: &str = "vmlinux";
/// What the compiler's programs are called before their own name.
pub const PREFIX: &str = "arm-linux-gnueabihf-";
/// The programs of the build, the compiler aside, which has its version behind its name.
const PROGRAMS: [&str; 8] = [
    "as", "ld", "nm", "objcopy", "objdump", "ar", "strip", "readelf",
];

/// A cross compiler in the cache.
#[derive(Debug)]
pub struct Cross {
    tree: PathBuf,
}

impl Store {
    /// The cross compiler, unpacked into the cache. Nothing is installed.
    pub fn cross(&self) -> Result<Cross> {
        let resolved = match self.cache.resolved(REFERENCE) {
            Some(found) => found,
            None => self.fetch_cross()?,
        };
        Ok(Cross {
            tree: self.cache.path(resolved.path),
        })
    }

    fn fetch_cross(&self) -> Result<Resolved> {
        let _lock = self.cache.lock()?;
        let apt = self.apt()?;
        let folder = self.cache.temporary()?;
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        for package in PACKAGES {
            let folder = folder.path().join(package);
            // What the machine has already is downloaded all the same, so that it is the same
            // everywhere; what it needs is the machine's then.
            let debs = match apt.download_closure(package, RELEASE, &folder) {
                Ok(debs) => debs,
                Err(_) => vec![self.one(package, &folder)?],
            };
            for deb in debs {
                apt::unpack(&deb, &tree)?;
            }
        }
        let main = apt.candidate(&format!("{}:{}", PACKAGES[0], apt.native))?;
        let path = PathBuf::from("cross").join(&main.version);
        self.cache.publish(&tree, &path)?;
        let resolved = Resolved {
            package: main.name,
            version: main.version,
            sha256: main.sha256,
            path,
        };
        self.cache.remember(REFERENCE, &resolved)?;
        Ok(resolved)
    }

    fn one(&self, package: &str, folder: &Path) -> Result<PathBuf> {
        let apt = self.apt()?;
        let found = apt.candidate(&format!("{package}:{}", apt.native))?;
        fs::create_dir_all(folder)?;
        apt.download(&found, folder)
    }

    /// The packed source of a stock kernel.
    pub fn kernel_source(&self) -> Result<PathBuf> {
        let tree = self.debian(SOURCE)?.join("usr/src");
        super::entry_starting(&tree, "linux-source-")
    }

    /// The vmlinux of a stock kernel: out of its debug package, of which nothing else is kept.
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
        let resolved = Resolved {
            package: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
            path,
        };
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

impl Cross {
    /// Writes the programs as a build calls them into `dir`: each finds its libraries.
    pub fn wrap(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        let own = PROGRAMS
            .iter()
            .map(|name| (*name, format!("{PREFIX}{name}")));
        let gcc = [("gcc", format!("{PREFIX}gcc-12"))];
        for (name, program) in own.chain(gcc) {
            let (libraries, program) = (self.libraries(), self.tree.join("usr/bin").join(program));
            let text = format!(
                "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
                libraries.display(),
                program.display()
            );
            let path = dir.join(format!("{PREFIX}{name}"));
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    fn libraries(&self) -> PathBuf {
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        self.tree.join("usr/lib").join(triple)
    }

    /// `make` with what else Linux's build needs.
    pub fn make(&self, wrapped: &Path) -> Result<Command> {
        let bin = self.tree.join("usr/bin");
        let mut path = OsString::from(wrapped);
        path.push(":");
        path.push(std::env::var_os("PATH").context("there is no PATH")?);
        let mut command = Command::new("make");
        command
            .env("PATH", path)
            .env("M4", bin.join("m4"))
            .env("BISON_PKGDATADIR", self.tree.join("usr/share/bison"))
            .arg(format!("LEX={}", bin.join("flex").display()))
            .arg(format!("YACC={}", bin.join("bison").display()))
            .args(["ARCH=arm", &format!("CROSS_COMPILE={PREFIX}")]);
        for name in ["TIMESTAMP=2026-01-01", "USER=hanok", "HOST=hanok"] {
            command.arg(format!("KBUILD_BUILD_{name}"));
        }
        Ok(command)
    }
}
