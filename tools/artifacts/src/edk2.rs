//! Debian's UEFI firmware (EDK2) for QEMU's `virt`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::newest;
use crate::store::Store;

/// The reference under which the cache remembers the firmware for `machine`, `aarch64` or `arm`, of a release, or of the
/// one that everything else is of.
pub fn reference(machine: &str, release: Option<&str>) -> String {
    let release = release.map(|release| format!("/{release}"));
    format!("edk2:{machine}{}", release.unwrap_or_default())
}

impl Store {
    /// The firmware's image for `machine`: what `-bios` takes, not filled up to a bank of flash.
    pub fn edk2(&self, machine: &str, release: Option<&str>) -> Result<PathBuf> {
        let name = format!("qemu-efi-{machine}:all");
        let missing = || format!("Debian has no {name}");
        let resolved = self.remembered(&reference(machine, release), || match release {
            None => self.fetch(&newest(self.apt()?.show(&name)?).with_context(missing)?),
            Some(release) => {
                let apt = self.apt_of(release, None)?;
                self.fetch_by(&apt, &newest(apt.show(&name)?).with_context(missing)?)
            }
        })?;
        image(&self.cache.path(resolved.path), machine)
    }
}

/// The image of an unpacked package. Only that for 64 bits has one that is not filled up.
fn image(package: &Path, machine: &str) -> Result<PathBuf> {
    let places = [
        format!("usr/share/qemu-efi-{machine}/QEMU_EFI.fd"),
        "usr/share/AAVMF/AAVMF32_CODE.fd".to_owned(),
    ];
    let mut images = places.map(|place| package.join(place)).into_iter();
    match images.find(|image| image.is_file()) {
        Some(image) => Ok(image),
        None => bail!("{} has no firmware", package.display()),
    }
}
