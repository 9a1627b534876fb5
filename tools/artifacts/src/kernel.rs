//! Stock Debian kernels for guests. They stay packed; `hanok_system` unpacks them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use hanok_system::{Architecture, Flavour};

use crate::apt::{Apt, Package, newest};
use crate::cache::Resolved;
use crate::store::{Store, entry_starting};

/// The suffix of a reference to a kernel for 32 bits.
const ARMHF: &str = ":armhf";
/// What the packages' names begin with that a kernel's files are in, since Debian divides them (7.0).
const PARTS: [&str; 3] = ["linux-base-", "linux-binary-", "linux-modules-"];

/// A stock kernel: a line of versions of Debian, real-time or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// `6.1` or `6.12`; of a release that goes on to newer ones, such as `sid`, `7` for any of 7.x.
    pub version: String,
    /// The flavour of its build.
    pub flavour: Flavour,
    /// The release that it is of, if that is not the one of everything else.
    pub release: Option<String>,
    /// The architecture that it is for.
    pub architecture: Architecture,
}

/// A kernel in the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its package.
    pub resolved: Resolved,
    /// The architecture that it is for.
    pub architecture: Architecture,
    /// Its file boot/vmlinuz-VERSION, or lib/modules/VERSION/vmlinuz.
    pub image: PathBuf,
    /// Its lib/modules/VERSION folder.
    pub modules: PathBuf,
    /// Its folder of boards' device trees.
    trees: PathBuf,
}

impl Kernel {
    /// The device tree of a board, such as `broadcom/bcm2711-rpi-4-b.dtb`.
    pub fn tree(&self, file: &str) -> Result<PathBuf> {
        let path = self.trees.join(file);
        if !path.is_file() {
            bail!("{} has no device tree {file}", self.resolved.package);
        }
        Ok(path)
    }
}

impl KernelSpec {
    /// Parses a reference such as `debian:6.12-rt`, `debian:6.1-lpae:armhf`,
    /// `debian:5.10/bullseye:armhf` or `debian:7/sid:armhf`.
    pub fn parse(reference: &str) -> Option<Self> {
        let name = reference.strip_prefix("debian:")?;
        let (name, architecture) = match name.strip_suffix(ARMHF) {
            Some(name) => (name, Architecture::Arm),
            None => (name, Architecture::Arm64),
        };
        let (name, release) = match name.split_once('/') {
            Some((name, release)) => (name, Some(release)),
            None => (name, None),
        };
        let (version, flavour) = Flavour::split(name);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        // Without a release, 6 would be two lines of versions of the one release that is meant.
        let parts = version.split('.').count();
        let well =
            (parts == 2 || parts == 1 && release.is_some()) && version.split('.').all(digits);
        let exists = flavour != Flavour::LongDescriptors || architecture == Architecture::Arm;
        // The release is part of paths in the cache.
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        let named = release.is_none_or(|name| !name.is_empty() && plain(name));
        (well && exists && named).then(|| Self {
            version: version.to_owned(),
            flavour,
            release: release.map(str::to_owned),
            architecture,
        })
    }

    /// `debian:VERSION`, with the flavour's suffix, `/RELEASE` if it is of another one, and `:armhf`
    /// for 32 bits.
    pub fn reference(&self) -> String {
        let architecture = match self.architecture {
            Architecture::Arm64 => "",
            Architecture::Arm => ARMHF,
        };
        let release = self.release.as_deref().map(|name| format!("/{name}"));
        format!(
            "debian:{}{}{}{architecture}",
            self.version,
            self.flavour.suffix(),
            release.unwrap_or_default()
        )
    }

    /// The name of its architecture in the archive.
    const fn debian_architecture(&self) -> &'static str {
        match self.architecture {
            Architecture::Arm64 => "arm64",
            Architecture::Arm => "armhf",
        }
    }

    fn meta_package(&self) -> &'static str {
        match (self.architecture, self.flavour) {
            (Architecture::Arm64, Flavour::Realtime) => "linux-image-rt-arm64:arm64",
            (Architecture::Arm64, _) => "linux-image-arm64:arm64",
            (Architecture::Arm, Flavour::Stock) => "linux-image-armmp:armhf",
            (Architecture::Arm, Flavour::Realtime) => "linux-image-rt-armmp:armhf",
            (Architecture::Arm, Flavour::LongDescriptors) => "linux-image-armmp-lpae:armhf",
        }
    }

    /// The real package that the newest meta package of this version depends on, and behind it those with
    /// its files, if they are in others.
    fn choose(&self, apt: &Apt) -> Result<Vec<Package>> {
        let line = format!("{}.", self.version);
        let metas = apt.show(self.meta_package())?;
        let fitting = metas
            .iter()
            .filter(|meta| meta.version.starts_with(&line))
            .cloned();
        let Some(meta) = newest(fitting) else {
            let known: Vec<_> = metas.iter().map(|meta| meta.version.as_str()).collect();
            bail!(
                "Debian has no kernel {} (it has {})",
                self.reference(),
                known.join(", ")
            );
        };
        let name = meta
            .dependency("linux-image-")
            .context("the meta package names no kernel")?;
        let named = |name: &str| apt.show(&format!("{name}:{}", self.debian_architecture()));
        let missing = |name: &str| format!("Debian's lists have no {name}");
        let real = newest(named(name)?).with_context(|| missing(name))?;
        let mut all = Vec::new();
        for name in parts(&real) {
            let mut part = named(name)?.into_iter();
            let part = part.find(|part| part.version == real.version);
            all.push(part.with_context(|| missing(name))?);
        }
        all.insert(0, real);
        Ok(all)
    }
}

/// The packages that have the files of the kernel `real`, if those are in several.
fn parts(real: &Package) -> impl Iterator<Item = &str> {
    let part = |name: &&str| PARTS.iter().any(|prefix| name.starts_with(prefix));
    real.dependencies().filter(part)
}

/// The folder lib/modules/VERSION of an unpacked kernel. The tree may be merged: lib/ in bookworm,
/// usr/lib/ in later releases.
fn modules_folder(tree: &Path) -> Result<PathBuf> {
    let lib = ["lib/modules", "usr/lib/modules"].map(|dir| tree.join(dir));
    let found = lib.iter().find(|dir| dir.exists());
    entry_starting(found.context("the package has no modules")?, "")
}

impl Store {
    /// A stock kernel, from the cache or from Debian.
    pub fn kernel(&self, spec: &KernelSpec) -> Result<Kernel> {
        let resolved = self.remembered(&spec.reference(), || match &spec.release {
            None => {
                let apt = self.apt()?;
                self.fetch_all(apt, &spec.choose(apt)?)
            }
            Some(release) => {
                let apt = self.apt_of(release, Some(spec.debian_architecture()))?;
                self.fetch_all(&apt, &spec.choose(&apt)?)
            }
        })?;
        let tree = self.cache.path(&resolved.path);
        let modules = modules_folder(&tree)?;
        // Beside the modules since 7.0.
        let beside = modules.join("vmlinuz");
        let image = if beside.exists() {
            beside
        } else {
            entry_starting(&tree.join("boot"), "vmlinuz-")?
        };
        let trees = tree.join("usr/lib").join(&resolved.package);
        Ok(Kernel {
            resolved,
            architecture: spec.architecture,
            image,
            modules,
            trees,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        let rt = KernelSpec::parse("debian:6.12-rt").unwrap();
        assert_eq!(
            (rt.version.as_str(), rt.flavour),
            ("6.12", Flavour::Realtime)
        );
        let long = KernelSpec::parse("debian:6.1-lpae:armhf").unwrap();
        assert_eq!(long.flavour, Flavour::LongDescriptors);
        assert_eq!(long.reference(), "debian:6.1-lpae:armhf");
        let old = KernelSpec::parse("debian:5.10-rt/bullseye:armhf").unwrap();
        let parts = (old.flavour, old.release.as_deref(), old.architecture);
        let wanted = (Flavour::Realtime, Some("bullseye"), Architecture::Arm);
        assert_eq!(parts, wanted);
        assert_eq!(old.reference(), "debian:5.10-rt/bullseye:armhf");
        assert_eq!(rt.reference(), "debian:6.12-rt");
        let newest = KernelSpec::parse("debian:7/sid:armhf").unwrap();
        assert_eq!(newest.version, "7");
        assert_eq!(newest.reference(), "debian:7/sid:armhf");
        for bad in [
            "debian:",
            "debian:6",
            "debian:6.1.2",
            "debian:6.x",
            "debian:6.1-lpae",
            "debian:6.1/",
            "debian:6.1/../x",
            "debian:7./sid",
            "debian:/sid",
            "fedora:6.1",
        ] {
            assert_eq!(KernelSpec::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_kernel_may_be_in_several_packages() {
        let package = |depends: &str| Package {
            name: "linux-image-7.2.13+deb14-armmp".into(),
            version: "7.2.13-1".into(),
            architecture: "armhf".into(),
            depends: depends.into(),
            sha256: String::new(),
            size: 1,
        };
        let divided = package(
            "dracut | initramfs-tools (>= 0.120), linux-base-7.2.13+deb14-armmp (= 7.2.13-1), \
             linux-binary-7.2.13+deb14-armmp (= 7.2.13-1), linux-modules-7.2.13+deb14-armmp (= 7.2.13-1)",
        );
        let found: Vec<_> = parts(&divided).collect();
        let wanted = PARTS.map(|prefix| format!("{prefix}7.2.13+deb14-armmp"));
        assert_eq!(found, wanted);
        // This one has the scripts of all kernels.
        let whole = package("kmod, linux-base (>= 4.3~), initramfs-tools");
        assert_eq!(parts(&whole).count(), 0);
    }

    #[test]
    fn modules_are_found_in_either_place() {
        for lib in ["lib/modules", "usr/lib/modules"] {
            let dir = tempfile::tempdir().unwrap();
            assert!(modules_folder(dir.path()).is_err());
            let folder = dir.path().join(lib).join("7.2.13");
            std::fs::create_dir_all(&folder).unwrap();
            assert_eq!(modules_folder(dir.path()).unwrap(), folder);
        }
    }
}
