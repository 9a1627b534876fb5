//! The busybox userland for guests: an initramfs that is made at build time.
//!
//! busybox runs as init with an inittab, so that plain `poweroff` and `reboot` work, and a shell
//! that ends is started again with job control. It is uncompressed: an emulated CPU copies faster
//! than it unpacks. It is kept in the cache under a name made from all its inputs.

mod cpio;
pub mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_system::Architecture;
use sha2::{Digest, Sha256};

use crate::cargo;
use crate::kernel::Kernel;
use crate::linux;
use crate::runnable::files_below;
use crate::store::Store;
use cpio::Archive;
use hanok_base::repo;
use hanok_base::ui::LongStep;
use modules::Selection;

/// A number that is raised by changes to the archive that do not change its inputs.
const GENERATION: &str = "1";

/// Our own files: name, mode, content.
const FILES: &[(&str, u32, &str)] = &[
    ("etc/inittab", 0o644, include_str!("../../guest/inittab")),
    ("etc/profile", 0o644, include_str!("../../guest/profile")),
    ("etc/passwd", 0o644, "root::0:0:root:/root:/bin/sh\n"),
    ("etc/group", 0o644, "root:x:0:\n"),
    ("etc/hostname", 0o644, "linux\n"),
    ("etc/init.d/rcS", 0o755, include_str!("../../guest/rcS")),
    (
        "etc/init.d/console",
        0o755,
        include_str!("../../guest/console"),
    ),
    ("usr/bin/resize", 0o755, include_str!("../../guest/resize")),
];

const FOLDERS: &[&str] = &[
    "bin",
    "sbin",
    "usr",
    "usr/bin",
    "usr/sbin",
    "dev",
    "proc",
    "sys",
    "tmp",
    "run",
    "root",
    "mnt",
    "etc",
    "etc/init.d",
    "var",
    "lib",
    "lib/modules",
];

impl Store {
    /// The busybox initramfs with modules of `kernel`, from the cache or newly made.
    pub fn initramfs(&self, kernel: &Kernel, selection: &Selection) -> Result<PathBuf> {
        self.make_initramfs(kernel.architecture, Some((kernel, selection)))
    }

    /// The busybox initramfs without modules, for a kernel that is not Debian's.
    pub fn bare_initramfs(&self, architecture: Architecture) -> Result<PathBuf> {
        self.make_initramfs(architecture, None)
    }

    fn make_initramfs(
        &self,
        architecture: Architecture,
        modules: Option<(&Kernel, &Selection)>,
    ) -> Result<PathBuf> {
        let busybox = self.busybox(architecture)?;
        let name = format!("initramfs/{}.cpio", key(&busybox.sha256, modules));
        let path = self.cache.path(&name);
        if path.exists() {
            return Ok(path);
        }
        let _lock = self.cache.lock()?;
        let step = LongStep::new("Making the guest's initramfs");
        let program = self.cache.path(&busybox.path).join("bin/busybox");
        let program =
            fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
        let bytes = archive(&program, modules)?;
        let folder = self.cache.temporary()?;
        let draft = folder.path().join("initramfs");
        fs::write(&draft, bytes)?;
        let path = self.cache.publish(&draft, &name)?;
        step.done();
        Ok(path)
    }
}

/// A name made from all inputs.
fn key(busybox: &str, modules: Option<(&Kernel, &Selection)>) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{GENERATION} {busybox} {FILES:?} {FOLDERS:?}"));
    let mut name = "bare";
    if let Some((kernel, selection)) = modules {
        hash.update(format!(
            "{} {selection:?} {:?}",
            kernel.resolved.sha256,
            modules::DEFAULT
        ));
        name = &kernel.resolved.package;
    }
    let hash: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|b| format!("{b:02x}"))
        .collect();
    format!("{name}-{hash}")
}

fn archive(busybox: &[u8], modules: Option<(&Kernel, &Selection)>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|name| archive.directory(name));
    // The kernel opens this before anything is mounted.
    archive.device("dev/console", 0o600, (5, 1));
    archive.device("dev/null", 0o666, (1, 3));
    archive.file("bin/busybox", 0o755, busybox);
    // busybox acts by the name it is started under; rcS makes the other links.
    archive.link("init", "bin/busybox");
    archive.link("bin/sh", "busybox");
    for (name, mode, content) in FILES {
        archive.file(name, *mode, content.as_bytes());
    }
    if let Some((kernel, selection)) = modules {
        add_modules(&mut archive, kernel, selection)?;
    }
    Ok(archive.finish())
}

/// The initramfs in `made`, with the agent behind it: its program and what starts it, as a file.
pub fn with_agent(root: &Path, made: &Path, architecture: Architecture) -> Result<PathBuf> {
    let step = LongStep::new("Building the agent");
    let program = cargo::guest_elf(root, "agent", cargo::target(architecture))?;
    let start = include_bytes!("../../guest/agent").to_vec();
    let files = [("bin/hanok-agent", program), ("etc/init.d/agent", start)];
    let path = with_files(root, made, "agent", files)?;
    step.done();
    Ok(path)
}

/// Modules that the program of a VM that serves others needs besides those that were chosen: for its interrupt, for its disks and for its
/// networks.
pub const DRIVER_MODULES: &[&str] = &[
    "gpio_keys",
    "evdev",
    "virtio_mmio",
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "ext4",
    "tun",
    "bridge",
];

/// The initramfs in `made`, with the program behind it that serves devices to other VMs, and what init starts it by, as a file.
pub fn with_driver(
    root: &Path,
    store: &Store,
    made: &Path,
    architecture: Architecture,
) -> Result<PathBuf> {
    let step = LongStep::new("Building the program that serves devices");
    let program = linux::program(root, store, "driver-linux", architecture)?;
    let inittab = include_str!("../../guest/inittab");
    let inittab = format!("{inittab}::respawn:/etc/init.d/driver\n").into_bytes();
    let start = include_bytes!("../../guest/driver").to_vec();
    let tap_up = include_bytes!("../../guest/tap-up").to_vec();
    let files = [
        ("bin/hanok-driver", program),
        ("etc/init.d/driver", start),
        ("etc/hanok/tap-up", tap_up),
        ("etc/inittab", inittab),
    ];
    let path = with_files(root, made, "driver", files)?;
    step.done();
    Ok(path)
}

/// The archive in `made` with these behind it, as a file in the folder `kind`. A file that is there twice is as in the last.
fn with_files<const N: usize>(
    root: &Path,
    made: &Path,
    kind: &str,
    files: [(&str, Vec<u8>); N],
) -> Result<PathBuf> {
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
    let mut bytes = fs::read(made).with_context(|| format!("cannot read {}", made.display()))?;
    bytes.extend(archive_of(&files));
    let name = made.file_name().context("an initramfs has a name")?;
    let folder = repo::target_dir(root).join("hanok").join(kind);
    let path = folder.join(name);
    repo::write_whole(&path, &bytes)?;
    Ok(path)
}

/// An archive of only these files, with their folders, to be put behind another one.
pub fn archive_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Archive::default();
    for (name, bytes) in files {
        let name = name.trim_start_matches('/');
        for (at, _) in name.match_indices('/') {
            archive.directory(&name[..at]);
        }
        archive.file(name, 0o755, bytes);
    }
    archive.finish()
}

/// An archive of everything below `dir`, to be put behind another one.
pub fn archive_of_tree(dir: &Path) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut made = BTreeSet::new();
    for path in files_below(dir)? {
        let inside = path.strip_prefix(dir)?.to_string_lossy().into_owned();
        for (at, _) in inside.match_indices('/') {
            if made.insert(inside[..at].to_owned()) {
                archive.directory(&inside[..at]);
            }
        }
        match fs::read_link(&path) {
            Ok(target) => archive.link(&inside, &target.to_string_lossy()),
            Err(_) => {
                let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
                archive.file(&inside, mode, &fs::read(&path)?);
            }
        }
    }
    Ok(archive.finish())
}

fn add_modules(archive: &mut Archive, kernel: &Kernel, selection: &Selection) -> Result<()> {
    let version = kernel
        .modules
        .file_name()
        .context("a folder of modules has a name")?;
    let root = format!("lib/modules/{}", version.to_string_lossy());
    archive.directory(&root);
    let mut made = BTreeSet::new();
    for (name, content) in modules::collect(&kernel.modules, selection)? {
        let folders: Vec<_> = name.match_indices('/').map(|(at, _)| &name[..at]).collect();
        for folder in folders {
            if made.insert(folder.to_owned()) {
                archive.directory(&format!("{root}/{folder}"));
            }
        }
        archive.file(&format!("{root}/{name}"), 0o644, &content);
    }
    Ok(())
}
