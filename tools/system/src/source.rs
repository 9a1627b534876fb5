//! Where kernels, firmware, initramfs and boards' trees come from.

use crate::diagnostic::{Words, did_you_mean};
use std::path::{Path, PathBuf};

/// The build of a stock kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// The usual build; for 32 bits the one with short descriptors.
    #[default]
    Stock,
    /// PREEMPT_RT: `-rt`.
    Realtime,
    /// For 32 bits, with long descriptors: `-lpae`.
    LongDescriptors,
}

impl Flavour {
    /// All flavours.
    pub const ALL: [Self; 3] = [Self::Stock, Self::Realtime, Self::LongDescriptors];

    /// The suffix of a reference to this flavour.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Stock => "",
            Self::Realtime => "-rt",
            Self::LongDescriptors => "-lpae",
        }
    }

    /// Splits `name` into a version and the flavour of its suffix.
    pub fn split(name: &str) -> (&str, Self) {
        let suffixed = [Self::Realtime, Self::LongDescriptors].into_iter();
        let found = suffixed
            .filter_map(|flavour| Some((name.strip_suffix(flavour.suffix())?, flavour)))
            .next();
        found.unwrap_or((name, Self::Stock))
    }
}

/// The suffix of a reference to a guest for 32 bits, on a board whose own guests are for 64.
const ARMHF: &str = ":armhf";

/// Where a VM's kernel comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelRef {
    /// `"debian:6.1"`, `"debian:6.12-rt"`, `"debian:5.10/bullseye"`: the stock kernel of the
    /// distribution for the VM's architecture.
    Debian {
        /// `6.1` or `6.12`; `7` for any of 7.x.
        version: String,
        /// The flavour of its build.
        flavour: Flavour,
        /// Another release of the distribution than the one that everything else is of.
        release: Option<String>,
    },
    /// `"guest:conformance"`: the program of this repository in `guests/conformance`, which is
    /// built when it is needed.
    Guest(String),
    /// A file.
    Path(PathBuf),
}

/// The versions of the distribution's kernels.
const DEBIAN_VERSIONS: [&str; 2] = ["6.1", "6.12"];

/// Versions of other releases, with their release. They are for tests: guests that are older or newer
/// than what the distribution has by itself. The last two go on to newer versions of the kernel.
const OTHER_RELEASES: [(&str, &str); 4] = [
    ("5.10", "bullseye"),
    ("6.12", "trixie"),
    ("7", "trixie-backports"),
    ("7", "sid"),
];

impl KernelRef {
    /// Parses a reference; a path is relative to `folder`. Refuses an unknown Debian kernel. The
    /// rules check whether a guest exists.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, Words> {
        let (name, _) = Self::split(text);
        if let Some(name) = name.strip_prefix("guest:") {
            return Ok(Self::Guest(name.to_owned()));
        }
        let Some(debian) = name.strip_prefix("debian:") else {
            return Ok(Self::Path(folder.join(name)));
        };
        let (debian, release) = match debian.split_once('/') {
            Some((debian, release)) => (debian, Some(release)),
            None => (debian, None),
        };
        let (version, flavour) = Flavour::split(debian);
        let known = match release {
            None => DEBIAN_VERSIONS.contains(&version),
            Some(release) => OTHER_RELEASES.contains(&(version, release)),
        };
        if !known {
            return Err(Self::unknown(text));
        }
        Ok(Self::Debian {
            version: version.to_owned(),
            flavour,
            release: release.map(str::to_owned),
        })
    }

    /// The names of all stock kernels.
    pub(crate) fn stock() -> Vec<String> {
        let own = DEBIAN_VERSIONS.map(|version| (version, String::new()));
        let other = OTHER_RELEASES.map(|(version, release)| (version, format!("/{release}")));
        let flavours = |(version, release): (&'static str, String)| {
            let of =
                move |flavour: Flavour| format!("debian:{version}{}{release}", flavour.suffix());
            Flavour::ALL.into_iter().map(of)
        };
        let names = own.into_iter().chain(other).flat_map(flavours);
        let both = names.flat_map(|name| [format!("{name}{ARMHF}"), name]);
        both.collect()
    }

    fn unknown(text: &str) -> Words {
        let what = format!("there is no kernel \"{text}\"");
        let why = format!(
            "of Debian's kernels there are {}, and {} of other releases, each also with -rt, and with \
             {ARMHF} at the end for 32 bits, where -lpae is one more",
            DEBIAN_VERSIONS.join(" and "),
            OTHER_RELEASES
                .map(|(version, release)| format!("{version}/{release}"))
                .join(" and ")
        );
        let remedy = did_you_mean(text, &Self::stock());
        Words::new(
            what,
            why,
            remedy.unwrap_or_else(|| {
                format!("write \"debian:6.1\", or for 32 bits \"debian:6.1{ARMHF}\"")
            }),
        )
    }
}

impl KernelRef {
    /// A reference's text without its architecture, and whether it says 32 bits. A path says
    /// nothing.
    fn split(text: &str) -> (&str, bool) {
        let named = text.starts_with("guest:") || text.starts_with("debian:");
        let without = text.strip_suffix(ARMHF).filter(|_| named);
        let long = Flavour::LongDescriptors.suffix();
        let build = text.split('/').next().unwrap_or(text);
        let said = without.is_some() || text.starts_with("debian:") && build.ends_with(long);
        (without.unwrap_or(text), said)
    }

    /// Whether a reference of this text is for 32 bits on any board: it ends with `:armhf`, or
    /// there is no other build.
    pub(crate) fn is_for_32_bits(text: &str) -> bool {
        Self::split(text).1
    }
}

/// Where a VM's firmware comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirmwareRef {
    /// `"u-boot:qemu_arm64"`, on a 32-bit board `"u-boot:qemu_arm"`: the distribution's U-Boot
    /// for this machine.
    UBoot(String),
    /// `"u-boot:qemu_arm+debian:6.1"`: U-Boot with a stock kernel and a busybox initramfs behind it
    /// in flash, which it boots.
    UBootWith {
        /// The machine that U-Boot is for.
        machine: String,
        /// The kernel, one of Debian's.
        kernel: KernelRef,
    },
    /// `"edk2:aarch64"`, for 32 bits `"edk2:arm"`, `"edk2:aarch64/trixie"`: the distribution's UEFI firmware for
    /// this machine.
    Edk2 {
        /// The machine that it is for: [`EDK2S`].
        machine: String,
        /// Another release of the distribution than the one that everything else is of.
        release: Option<String>,
    },
    /// A file.
    Path(PathBuf),
}

/// The distribution's UEFI firmware for the virtual platform, by its packages' names.
const EDK2S: [&str; 2] = ["aarch64", "arm"];
/// Other releases that have it, with the machines.
const EDK2_RELEASES: [(&str, &str); 3] =
    [("aarch64", "trixie"), ("aarch64", "sid"), ("arm", "trixie")];

/// The distribution's U-Boots for the virtual platform.
const U_BOOTS: [&str; 2] = ["qemu_arm64", "qemu_arm"];

impl FirmwareRef {
    /// Parses a reference; a path is relative to `folder`. Refuses an unknown U-Boot.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, Words> {
        if let Some(name) = text.strip_prefix("edk2:") {
            return Self::edk2(name);
        }
        let Some(name) = text.strip_prefix("u-boot:") else {
            return Ok(Self::Path(folder.join(text)));
        };
        let (machine, kernel) = match name.split_once('+') {
            Some((machine, kernel)) => (machine, Some(KernelRef::parse(kernel, folder)?)),
            None => (name, None),
        };
        if !U_BOOTS.contains(&machine) {
            return Err(Self::unknown(machine));
        }
        let machine = machine.to_owned();
        match kernel {
            None => Ok(Self::UBoot(machine)),
            Some(kernel @ KernelRef::Debian { .. }) => Ok(Self::UBootWith { machine, kernel }),
            Some(KernelRef::Guest(_) | KernelRef::Path(_)) => Err(Words::new(
                "a kernel behind U-Boot that is none of Debian's",
                "only a stock kernel, with an initramfs, is put into flash for it",
                format!("write \"u-boot:{machine}+debian:6.1\""),
            )),
        }
    }

    fn edk2(name: &str) -> Result<Self, Words> {
        let (machine, release) = match name.split_once('/') {
            Some((machine, release)) => (machine, Some(release)),
            None => (name, None),
        };
        let known = match release {
            None => EDK2S.contains(&machine),
            Some(release) => EDK2_RELEASES.contains(&(machine, release)),
        };
        if known {
            return Ok(Self::Edk2 {
                machine: machine.to_owned(),
                release: release.map(str::to_owned),
            });
        }
        let all = Self::edk2s();
        let remedy = did_you_mean(&format!("edk2:{name}"), &all);
        Err(Words::new(
            format!("there is no UEFI firmware \"edk2:{name}\""),
            format!("of Debian's there are {}", all.join(", ")),
            remedy.unwrap_or_else(|| "write one of them".to_owned()),
        ))
    }

    fn edk2s() -> Vec<String> {
        let own = EDK2S.map(|machine| format!("edk2:{machine}"));
        let other = EDK2_RELEASES.map(|(machine, release)| format!("edk2:{machine}/{release}"));
        own.into_iter().chain(other).collect()
    }

    /// The names of all firmware of the distribution.
    pub(crate) fn stock() -> Vec<String> {
        let u_boots = U_BOOTS.map(|machine| format!("u-boot:{machine}"));
        u_boots.into_iter().chain(Self::edk2s()).collect()
    }

    /// Whether it is for 32-bit CPUs, and what to write for the others; `None` if it does not say.
    pub(crate) fn for_32_bits(&self) -> Option<(bool, &'static str)> {
        let arm = match self {
            Self::UBoot(machine) | Self::UBootWith { machine, .. } => machine == "qemu_arm",
            Self::Edk2 { machine, .. } => machine == "arm",
            Self::Path(_) => return None,
        };
        let other = match (self, arm) {
            (Self::Edk2 { .. }, true) => "edk2:aarch64",
            (Self::Edk2 { .. }, false) => "edk2:arm",
            (_, true) => "u-boot:qemu_arm64",
            (_, false) => "u-boot:qemu_arm",
        };
        Some((arm, other))
    }

    fn unknown(machine: &str) -> Words {
        let known = U_BOOTS.map(|machine| format!("u-boot:{machine}"));
        let what = format!("there is no U-Boot \"{machine}\"");
        let why = format!("of Debian's there are {}", U_BOOTS.join(" and "));
        let remedy = did_you_mean(&format!("u-boot:{machine}"), &known);
        Words::new(
            what,
            why,
            remedy.unwrap_or_else(|| format!("write \"{}\"", known.join("\" or \""))),
        )
    }
}

/// What becomes of a firmware's variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariablesRef {
    /// They are kept in a file.
    Kept(PathBuf),
    /// They begin erased, and end with the board.
    Forgotten,
}

impl VariablesRef {
    /// The file in which they are kept.
    pub(crate) fn path(self) -> Option<PathBuf> {
        match self {
            Self::Kept(path) => Some(path),
            Self::Forgotten => None,
        }
    }
}

/// What a VM boots, and by which of the virtual platform's two rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// As QEMU's `-kernel`: an arm64 Image in RAM, by Linux's boot protocol.
    Kernel(KernelRef),
    /// As QEMU's `-bios`: an image at 0, in flash; the tree at the start of RAM.
    Firmware(FirmwareRef),
}

/// The source of a board's tree, for boards for which QEMU makes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DtbRef {
    /// `"debian:6.1:broadcom/bcm2711-rpi-4-b.dtb"`: from the stock kernel's package.
    Debian {
        /// The kernel's version: `6.1` or `6.12`.
        version: String,
        /// The file in the package's folder of trees.
        file: String,
    },
    /// A file.
    Path(PathBuf),
}

impl DtbRef {
    /// Parses a reference; a path is relative to `folder`. Refuses an unknown Debian kernel, and a
    /// file outside its folder.
    pub(crate) fn parse(text: &str, folder: &Path) -> Result<Self, Words> {
        let Some(debian) = text.strip_prefix("debian:") else {
            return Ok(Self::Path(folder.join(text)));
        };
        let (version, file) = debian.split_once(':').unwrap_or((debian, ""));
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        if DEBIAN_VERSIONS.contains(&version) && file.split('/').all(plain) {
            Ok(Self::Debian {
                version: version.to_owned(),
                file: file.to_owned(),
            })
        } else {
            Err(Words::new(
                format!("there is no device tree \"{text}\""),
                format!(
                    "of Debian's kernels there are {}; after the second colon comes a file in the \
                     package's folder of trees",
                    DEBIAN_VERSIONS.join(" and ")
                ),
                "write it as \"debian:6.1:broadcom/bcm2711-rpi-4-b.dtb\", or give a path",
            ))
        }
    }
}

/// The kernel modules that go into a busybox initramfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modules {
    /// A small default set.
    Default,
    /// All modules of the kernel.
    All,
    /// These modules, and those that they need.
    List(Vec<String>),
}

/// The name of an initramfs that is made at build time.
pub(crate) const BUSYBOX: &str = "busybox";

/// Where a VM's initramfs comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitramfsRef {
    /// Made at build time from the distribution's busybox and the kernel's modules.
    Busybox {
        /// The modules that go into it.
        modules: Modules,
        /// Whether `hanok-agent` is in it, and is started.
        agent: bool,
    },
    /// A file.
    Path(PathBuf),
}
