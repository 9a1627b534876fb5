//! What a system needs besides our own code: QEMU, guest kernels, a guest userland.
//!
//! A `Store` is the cache, with an apt that is set up when something is missing for the first time.
//! So a run that finds everything in the cache uses no network.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_system::Architecture;

use crate::apt::{self, Apt, Package, newest};
use crate::cache::{Cache, Resolved};
use hanok_base::ui;

/// The folder of the cache in which toolchains are.
pub(crate) const TOOLCHAINS: &str = "toolchains";
/// The folder of the cache in which rewritten kernels are.
pub(crate) const REWRITTEN: &str = "rewritten";

/// The cache, and the private apt once it is needed.
pub struct Store {
    /// The cache.
    pub cache: Cache,
    /// Whether downloads are made without asking.
    yes: bool,
    /// Whether newer versions are looked for, even of what the cache holds.
    refresh: bool,
    /// Whether the user has agreed to this run's downloads.
    agreed: Cell<bool>,
    /// Whether Debian's component non-free is used, too.
    non_free: Cell<bool>,
    apt: OnceCell<Apt>,
}

impl Store {
    /// The reference under which the cache remembers busybox.
    pub const BUSYBOX: &str = "busybox:arm64";

    /// The user's cache.
    pub fn open(yes: bool, refresh: bool) -> Result<Self> {
        Ok(Self {
            yes,
            refresh,
            ..Self::of(Cache::open()?)
        })
    }

    /// The things in `cache`; what is missing is downloaded if the user agrees.
    pub(crate) fn of(cache: Cache) -> Self {
        Self {
            cache,
            yes: false,
            refresh: false,
            agreed: Cell::new(false),
            non_free: Cell::new(false),
            apt: OnceCell::new(),
        }
    }

    /// Adds Debian's component non-free to the private apt; must be called before that is first
    /// used.
    pub fn want_non_free(&self) {
        self.non_free.set(true);
    }

    /// The private apt. Its lists are fetched once in this process.
    pub fn apt(&self) -> Result<&Apt> {
        if let Some(apt) = self.apt.get() {
            return Ok(apt);
        }
        let apt = Apt::update(&self.cache, self.non_free.get())?;
        Ok(self.apt.get_or_init(|| apt))
    }

    /// The cache's entry for `reference`; `None` if this run looks for newer versions.
    pub(crate) fn cached(&self, reference: &str) -> Option<Resolved> {
        (!self.refresh)
            .then(|| self.cache.resolved(reference))
            .flatten()
    }

    /// The reference under which the cache remembers busybox for 32-bit guests.
    pub const BUSYBOX_32: &str = "busybox:armhf";

    /// The reference of the busybox for guests of an architecture.
    pub const fn busybox_of(architecture: Architecture) -> &'static str {
        match architecture {
            Architecture::Arm64 => Self::BUSYBOX,
            Architecture::Arm => Self::BUSYBOX_32,
        }
    }

    /// The static busybox for guests, as a resolved package.
    pub fn busybox(&self, architecture: Architecture) -> Result<Resolved> {
        let name = match architecture {
            Architecture::Arm64 => "busybox-static:arm64",
            Architecture::Arm => "busybox-static:armhf",
        };
        self.package(Self::busybox_of(architecture), |apt| {
            newest(apt.show(name)?).with_context(|| format!("Debian has no {name}"))
        })
    }

    /// The folder in which the newest package called `name` (`package:arch`) is unpacked.
    pub fn debian(&self, name: &str) -> Result<PathBuf> {
        let resolved = self.package(name, |apt| {
            newest(apt.show(name)?).with_context(|| format!("Debian has no {name}"))
        })?;
        Ok(self.cache.path(resolved.path))
    }

    /// The package of `reference`, from the cache or, chosen by `choose`, from Debian.
    pub(crate) fn package(
        &self,
        reference: &str,
        choose: impl FnOnce(&Apt) -> Result<Package>,
    ) -> Result<Resolved> {
        self.remembered(reference, || self.fetch(&choose(self.apt()?)?))
    }

    /// What the cache has for `reference`; else what `make` puts there, which the cache is locked for.
    pub(crate) fn remembered(
        &self,
        reference: &str,
        make: impl FnOnce() -> Result<Resolved>,
    ) -> Result<Resolved> {
        if let Some(found) = self.cached(reference) {
            return Ok(found);
        }
        let _lock = self.cache.lock()?;
        if let Some(found) = self.cached(reference) {
            return Ok(found);
        }
        let resolved = make()?;
        self.cache.remember(reference, &resolved)?;
        Ok(resolved)
    }

    /// Downloads and unpacks a package into the cache, unless that version is there.
    pub(crate) fn fetch(&self, package: &Package) -> Result<Resolved> {
        self.fetch_by(self.apt()?, package)
    }

    /// As [`Self::fetch`], from the releases that `apt` knows.
    pub(crate) fn fetch_by(&self, apt: &Apt, package: &Package) -> Result<Resolved> {
        self.fetch_all(apt, std::slice::from_ref(package))
    }

    /// As [`Self::fetch_by`], several packages in one folder, which is called after the first of them.
    pub(crate) fn fetch_all(&self, apt: &Apt, packages: &[Package]) -> Result<Resolved> {
        let first = packages.first().context("no package was chosen")?;
        let path = PathBuf::from("packages").join(first.folder());
        if !self.cache.path(&path).exists() {
            let folder = self.cache.temporary()?;
            let tree = folder.path().join("tree");
            fs::create_dir(&tree)?;
            for package in packages {
                let downloads = folder.path().join(package.folder());
                fs::create_dir(&downloads)?;
                apt::unpack(&apt.download(package, &downloads)?, &tree)?;
            }
            self.cache.publish(&tree, &path)?;
        }
        Ok(Resolved::of(first, path))
    }

    /// The words about what the cache lacks of `wanted`, which are references and words for the
    /// user. Each reference occurs once, however many VMs and boards want it.
    pub fn missing(&self, wanted: &[(String, String)]) -> Vec<String> {
        let mut seen = BTreeSet::new();
        wanted
            .iter()
            .filter(|(reference, _)| self.cached(reference).is_none() && seen.insert(reference))
            .map(|(_, words)| words.clone())
            .collect()
    }

    /// Asks the user whether what the cache lacks may be downloaded; `wanted` are references and
    /// words for the user.
    pub fn ask_consent(&self, wanted: &[(String, String)]) -> ui::Consent {
        let missing = self.missing(wanted);
        if missing.is_empty() || self.agreed.get() {
            return ui::Consent::Given;
        }
        let missing: Vec<_> = missing.iter().map(|words| format!("  {words}\n")).collect();
        let cache = self.cache.path("");
        let text = format!(
            "About to download from this machine's Debian archive into {}\n\
             (nothing is installed outside of it):\n{}",
            cache.display(),
            missing.concat()
        );
        let consent = ui::ask_consent(text.trim_end(), self.yes);
        self.agreed.set(consent == ui::Consent::Given);
        consent
    }

    /// Cleans up after an update: removes unpacked packages that no reference leads to, and all
    /// initramfs files, boards' trees and rewritten kernels, which are made again when they are
    /// needed.
    pub fn prune(&self) -> Result<()> {
        if !self.refresh {
            return Ok(());
        }
        let _lock = self.cache.lock()?;
        let kept = self.cache.all_resolved();
        for made in ["initramfs", "trees", REWRITTEN].map(|name| self.cache.path(name)) {
            if made.exists() {
                fs::remove_dir_all(made)?;
            }
        }
        for folder in ["packages", "qemu", "runnable", "vmlinux", TOOLCHAINS] {
            for path in self.cache.entries(folder)? {
                if !kept.contains(&path) {
                    fs::remove_dir_all(self.cache.path(&path))?;
                }
            }
        }
        Ok(())
    }
}

/// The single entry of `dir` whose name starts with `prefix`.
pub(crate) fn entry_starting(dir: &Path, prefix: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name());
    let fits = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(prefix);
    let name = names.find(fits);
    let name = name.with_context(|| format!("{} holds no {prefix}*", dir.display()))?;
    Ok(dir.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_vms_want_is_missing_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::of(Cache::at(dir.path()).unwrap());
        let one = |name: &str| (name.to_owned(), format!("some {name}"));
        let wanted = [one("kernel"), one("busybox"), one("kernel"), one("busybox")];
        assert_eq!(store.missing(&wanted), ["some kernel", "some busybox"]);
    }
}
