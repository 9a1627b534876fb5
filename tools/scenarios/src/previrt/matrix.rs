//! Kernels of more Debian releases than guests are taken from, from a list that is data
//! (`tests/previrt/kernels.toml`), each with the vmlinux of its debug package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use hanok_artifacts::Store;
use hanok_artifacts::apt::Package;
use hanok_artifacts::cache::Resolved;
use hanok_base::process;

/// The list.
const LIST: &str = "tests/previrt/kernels.toml";
/// What a package's name begins with that has an image.
const PREFIXES: [&str; 2] = ["linux-image-", "linux-binary-"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    kernel: Vec<Entry>,
}

/// A kernel of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    release: String,
    architecture: String,
    /// The package that has the kernel.
    pub image: String,
}

impl Entry {
    /// The kernel's release, as `uname -r` says it.
    fn version(&self) -> Result<&str> {
        let mut prefixes = PREFIXES.iter();
        prefixes
            .find_map(|prefix| self.image.strip_prefix(prefix))
            .with_context(|| format!("{LIST}: {} has no kernel", self.image))
    }
}

/// A kernel, and the vmlinux that its scan is compared with.
pub struct Pair {
    /// What to call it.
    pub name: String,
    /// The file that is scanned by the flow of its code.
    pub image: PathBuf,
    /// The ELF file of the same build, with mapping symbols.
    pub vmlinux: PathBuf,
}

/// Each kernel of the list.
pub fn entries(root: &Path) -> Result<Vec<Entry>> {
    let text =
        fs::read_to_string(root.join(LIST)).with_context(|| format!("cannot read {LIST}"))?;
    let list: List = toml::from_str(&text).with_context(|| format!("{LIST} is broken"))?;
    ensure!(!list.kernel.is_empty(), "{LIST} names no kernel");
    Ok(list.kernel)
}

/// Compares a kernel of the list with its vmlinux.
pub fn pair(store: &Store, entry: &Entry) -> Result<Pair> {
    let reference = format!("previrt {} {}", entry.release, entry.image);
    let found = match store.cache.resolved(&reference) {
        Some(found) => found,
        None => {
            let found = fetch(store, entry)?;
            store.cache.remember(&reference, &found)?;
            found
        }
    };
    let tree = store.cache.path(found.path);
    Ok(Pair {
        name: entry.image.clone(),
        image: tree.join("vmlinuz"),
        vmlinux: tree.join("vmlinux"),
    })
}

/// Image and vmlinux of one version into the cache.
fn fetch(store: &Store, entry: &Entry) -> Result<Resolved> {
    let _lock = store.cache.lock()?;
    let apt = store.apt_of(&entry.release, Some(&entry.architecture))?;
    let version = entry.version()?;
    let named = |name: &str| apt.show(&format!("{name}:{}", entry.architecture));
    let images = named(&entry.image)?;
    let debug = named(&format!("linux-image-{version}-dbg"))?;
    let same = |image: &Package| debug.iter().find(|one| one.version == image.version);
    let pair = images.iter().find_map(|image| Some((image, same(image)?)));
    let (image, debug) = pair.with_context(|| format!("no debug package for {}", entry.image))?;
    let folder = store.cache.temporary()?;
    let tree = folder.path().join("tree");
    fs::create_dir(&tree)?;
    let wanted = [
        (
            image,
            "vmlinuz",
            [
                format!("./boot/vmlinuz-{version}"),
                modules(version, "vmlinuz"),
            ],
        ),
        (
            debug,
            "vmlinux",
            [
                format!("./usr/lib/debug/boot/vmlinux-{version}"),
                format!("./usr/lib/debug/lib/modules/{version}/vmlinux"),
            ],
        ),
    ];
    for (package, name, places) in wanted {
        let downloads = folder.path().join(name);
        fs::create_dir(&downloads)?;
        let deb = apt.download(package, &downloads)?;
        extract(&deb, &places, &tree.join(name))?;
        fs::remove_file(&deb)?;
    }
    let path = PathBuf::from("previrt-kernels").join(image.folder());
    store.cache.publish(&tree, &path)?;
    Ok(Resolved::of(image, path))
}

fn modules(version: &str, name: &str) -> String {
    format!("./usr/lib/modules/{version}/{name}")
}

/// The one of `places` that is a file of a package, to `to`.
fn extract(deb: &Path, places: &[String], to: &Path) -> Result<()> {
    for place in places {
        let script = "dpkg-deb --fsys-tarfile \"$1\" | tar -x -O \"$2\" >\"$3\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(deb)
            .arg(place)
            .arg(to);
        let there = process::run(&mut command).is_ok();
        // A link has no content of its own.
        if there && fs::metadata(to)?.len() > 0 {
            return Ok(());
        }
    }
    ensure!(false, "{} has none of {places:?}", deb.display());
    Ok(())
}
