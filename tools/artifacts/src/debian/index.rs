//! Packages as the signed index describes them.

use std::cmp::Ordering;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use deb822_fast::Paragraph;
use sha2::{Digest, Sha256};

use super::paragraphs::paragraphs;

/// One version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version, epoch included.
    pub version: String,
    /// Its architecture, `all` included.
    pub architecture: String,
    /// Its dependencies, as the index writes them.
    pub depends: String,
    /// The SHA-256 of its file.
    pub sha256: String,
    /// Bytes of its file.
    pub size: u64,
}

impl Package {
    /// The names that it depends on; alternatives are listed one after the other.
    pub fn dependencies(&self) -> impl Iterator<Item = &str> {
        let names = self.depends.split([',', '|']);
        let names = names.filter_map(|entry| entry.split_whitespace().next());
        names.map(|name| name.split(':').next().unwrap_or(name))
    }

    /// The first dependency whose name starts with `prefix`.
    pub fn dependency(&self, prefix: &str) -> Option<&str> {
        self.dependencies().find(|name| name.starts_with(prefix))
    }

    /// Checks that `file` is what the signed index describes.
    pub fn verify(&self, file: &Path) -> Result<()> {
        let found = sha256(file)?;
        if found != self.sha256 {
            bail!(
                "{} is damaged: its SHA-256 is {found}, not {}",
                file.display(),
                self.sha256
            );
        }
        Ok(())
    }

    /// A name for its folder, without characters that a file name should not have.
    pub fn folder(&self) -> String {
        let version = self.version.replace([':', '/'], "_");
        format!("{}_{version}_{}", self.name, self.architecture)
    }
}

/// The SHA-256 of a file, in hex.
fn sha256(file: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut input = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The packages of `apt-cache show`.
pub fn parse(text: &str) -> Vec<Package> {
    paragraphs(text).filter_map(package).collect()
}

fn package(paragraph: Paragraph) -> Option<Package> {
    let field = |name: &str| paragraph.get(name).map(str::to_owned);
    // The second field names what must be there even before the package is unpacked (Debian's
    // policy, 7.2). For the libraries there is no difference.
    let depends: Vec<_> = ["Depends", "Pre-Depends"]
        .iter()
        .filter_map(|name| field(name))
        .collect();
    Some(Package {
        name: field("Package")?,
        version: field("Version")?,
        architecture: field("Architecture")?,
        depends: depends.join(","),
        sha256: field("SHA256")?,
        size: field("Size")?.parse().ok()?,
    })
}

/// The newest of `packages`, as dpkg orders versions.
pub fn newest(packages: impl IntoIterator<Item = Package>) -> Option<Package> {
    packages.into_iter().reduce(|a, b| {
        if order(&a.version, &b.version) == Ordering::Less {
            b
        } else {
            a
        }
    })
}

fn order(a: &str, b: &str) -> Ordering {
    let older = Command::new("dpkg")
        .args(["--compare-versions", a, "lt", b])
        .status();
    match older {
        Ok(status) if status.success() => Ordering::Less,
        _ => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOW: &str = "Package: linux-image-arm64\nVersion: 6.1.176-1\nArchitecture: arm64\n\
        Depends: linux-image-6.1.0-50-arm64 (= 6.1.176-1)\nSize: 1480\nSHA256: aa\n\
        Description: meta\n more words: with a colon\n\n\
        Package: linux-image-arm64\nVersion: 6.1.192-2\nArchitecture: arm64\n\
        Depends: foo, linux-image-6.1.0-56-arm64 (= 6.1.192-2)\nSize: 1484\nSHA256: bb\n";

    #[test]
    fn a_meta_package_leads_to_the_real_one() {
        let found = parse(SHOW);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[1].dependency("linux-image-"),
            Some("linux-image-6.1.0-56-arm64")
        );
        assert_eq!(found[1].folder(), "linux-image-arm64_6.1.192-2_arm64");
    }

    #[test]
    fn the_newest_wins_whatever_the_order() {
        let all = parse(SHOW);
        assert_eq!(newest(all.clone()).unwrap().version, "6.1.192-2");
        assert_eq!(newest(all.into_iter().rev()).unwrap().version, "6.1.192-2");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.deb");
        std::fs::write(&file, b"abc").unwrap();
        let mut package = parse(SHOW).remove(0);
        assert!(package.verify(&file).is_err());
        package.sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into();
        assert!(package.verify(&file).is_ok());
    }
}
