//! Where kernels and initramfs come from.

use std::path::{Path, PathBuf};

/// Where a VM's kernel comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelRef {
    /// `"debian:6.1"`, `"debian:6.12-rt"`: the stock kernel of the distribution.
    Debian {
        /// `6.1` or `6.12`.
        version: String,
        /// Whether it is the PREEMPT_RT build.
        rt: bool,
    },
    /// `"guest:conformance"`: the program of this repository in `guests/conformance`, built
    /// when it is needed.
    Guest(String),
    /// A file.
    Path(PathBuf),
}

/// The distribution's kernels.
const DEBIAN_VERSIONS: [&str; 2] = ["6.1", "6.12"];

impl KernelRef {
    /// From its text; a path is relative to `folder`. `None` for a Debian kernel that is
    /// not known, and for a guest without a name.
    pub(crate) fn parse(text: &str, folder: &Path) -> Option<Self> {
        if let Some(name) = text.strip_prefix("guest:") {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            let sound = !name.is_empty() && name.chars().all(plain);
            return sound.then(|| Self::Guest(name.to_owned()));
        }
        let Some(debian) = text.strip_prefix("debian:") else {
            return Some(Self::Path(folder.join(text)));
        };
        let (version, rt) = match debian.strip_suffix("-rt") {
            Some(version) => (version, true),
            None => (debian, false),
        };
        let known = DEBIAN_VERSIONS.contains(&version);
        let version = version.to_owned();
        known.then_some(Self::Debian { version, rt })
    }
}

/// Which kernel modules go into a busybox initramfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modules {
    /// A small usual set.
    Default,
    /// All of the kernel's.
    All,
    /// These, and what they need.
    List(Vec<String>),
}

/// Where a VM's initramfs comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitramfsRef {
    /// Made at build time from the distribution's busybox and the kernel's modules.
    Busybox {
        /// Which modules.
        modules: Modules,
    },
    /// A file.
    Path(PathBuf),
}
