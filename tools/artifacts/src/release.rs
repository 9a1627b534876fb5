//! A release of Debian for another machine: packages, with all that they depend on.
//!
//! Its apt knows one architecture, and no package is installed to it, so that nothing of this
//! machine satisfies a dependency. What was downloaded stays in the cache: a second image needs no
//! second download.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::{self, Apt, DATED, KEYRING, size_of_uri, watch};
use crate::cache::Cache;
use crate::debian::sources::Archives;
use hanok_base::process;
use hanok_base::ui::{self, LongStep};

/// A release of Debian, for one architecture.
pub struct Release {
    apt: Apt,
    /// Where downloaded packages are.
    archives: PathBuf,
    /// The sources of packages, for the installed system.
    pub sources: String,
}

/// The release has no package of this name.
#[derive(Debug)]
pub struct NoPackage(String);

impl Display for NoPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoPackage {}

/// The folder of the cache in which the apt of a release is.
pub fn folder(name: &str, architecture: &str) -> String {
    format!("image-{name}-{architecture}")
}

impl Release {
    /// Fetches the lists of the release called `name`.
    pub fn update(cache: &Cache, name: &str, architecture: &str) -> Result<Self> {
        let dir = cache.path(folder(name, architecture));
        fs::create_dir_all(&dir)?;
        let (conf, native) = (dir.join("apt.conf"), architecture.to_owned());
        let apt = Apt { conf, native };
        let found = apt::archives()?;
        let status = dir.join("status");
        fs::write(&status, "")?;
        fs::create_dir_all(dir.join("cache/archives/nowhere/partial"))?;
        let ours = |_: &str| Ok(lines(&found, name, &format!("{DATED} target=Packages")));
        apt.write_configuration(&dir, ours, &[], &status)?;
        apt.fetch(&dir)?;
        Ok(Self {
            apt,
            archives: dir.join("cache/archives"),
            sources: lines(&found, name, ""),
        })
    }

    /// The files of `names` and of all that they depend on, in no order. A name may be a pattern of
    /// apt, such as `?essential`.
    pub fn plan(&self, names: &[&str]) -> Result<Plan> {
        let mut command = self.install();
        // With the downloads in sight it would leave out what is there already.
        let nowhere = format!("Dir::Cache::archives={}/nowhere", self.archives.display());
        command.args(["-o", &nowhere, "--print-uris"]);
        let text = process::text(command.args(names));
        let text = text.map_err(explained)?;
        Ok(Plan {
            files: text.lines().filter_map(file_of_uri).collect(),
            sizes: text.lines().filter_map(size_of_uri).collect(),
        })
    }

    /// Downloads `names` and all that they depend on; gives the folder with the files.
    pub fn download(&self, names: &[&str], plan: &Plan) -> Result<PathBuf> {
        let (count, total) = plan.missing(&self.archives);
        if count > 0 {
            let what = ui::counted(count, "package");
            let step = LongStep::bytes(format!("Downloading {what} ({})", ui::size(total)), total);
            let mut command = self.install();
            command.arg("--download-only").args(names);
            watch(&mut command, step, &self.archives)?;
        }
        // What a newer version has replaced is no longer needed.
        process::run(self.apt.tool("apt-get").args(["-q", "-y", "autoclean"]))?;
        Ok(self.archives.clone())
    }

    fn install(&self) -> std::process::Command {
        let mut command = self.apt.tool("apt-get");
        command.args(["-q", "-y", "install", "--no-install-recommends"]);
        command
    }
}

/// What is needed, downloaded or not.
pub struct Plan {
    /// The names of the packages' files.
    pub files: Vec<String>,
    /// Their bytes, in the same order.
    sizes: Vec<u64>,
}

impl Plan {
    /// How many files are not in `dir` yet, and their bytes.
    fn missing(&self, dir: &Path) -> (u64, u64) {
        let files = self.files.iter().zip(&self.sizes);
        files
            .filter(|(name, _)| !dir.join(name).exists())
            .fold((0, 0), |(count, sum), (_, size)| (count + 1, sum + size))
    }
}

/// The file in a line of `apt-get --print-uris`: `'URI' FILE SIZE HASH`.
fn file_of_uri(line: &str) -> Option<String> {
    let mut words = line.strip_prefix('\'')?.split_whitespace();
    words.nth(1).map(str::to_owned)
}

/// The error, as one of its own kind where a package does not exist.
fn explained(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    let unknown = [
        "Unable to locate package",
        "has no installation candidate",
        "Couldn't find",
    ];
    let mut lines = text.lines().filter(|line| line.starts_with("E: "));
    match lines.find(|line| unknown.iter().any(|words| line.contains(words))) {
        Some(line) => NoPackage(line.trim_start_matches("E: ").to_owned()).into(),
        None => error,
    }
}

/// The lines of sources.list(5) for a release, with its updates where it has any.
fn lines(archives: &Archives, name: &str, options: &str) -> String {
    let line = |uri: &str, suite: &str| {
        let options = format!("signed-by={KEYRING} {options}");
        format!("deb [{}] {uri} {suite} main\n", options.trim_end())
    };
    let mut text = line(&archives.main, name);
    if name != "sid" {
        text += &line(&archives.main, &format!("{name}-updates"));
        if let Some(security) = &archives.security {
            text += &line(security, &format!("{name}-security"));
        }
    }
    text
}

/// The bytes that a package's files have when they are installed.
pub fn installed_size(deb: &Path) -> Result<u64> {
    let mut field = std::process::Command::new("dpkg-deb");
    let text = process::text(field.arg("-f").arg(deb).arg("Installed-Size"))?;
    let kilobytes: u64 = text.trim().parse().with_context(|| {
        format!(
            "{} does not say how large it is when installed",
            deb.display()
        )
    })?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_updates_and_sid_has_none() {
        let archives = Archives {
            main: "http://m/".into(),
            security: Some("http://s/".into()),
        };
        let trixie = lines(&archives, "trixie", "");
        assert_eq!(trixie.lines().count(), 3);
        assert!(trixie.contains(" http://s/ trixie-security main\n"));
        assert!(trixie.lines().all(|line| line.contains("signed-by=")));
        assert_eq!(lines(&archives, "sid", "").lines().count(), 1);
    }

    #[test]
    fn a_package_that_does_not_exist_is_told_from_other_faults() {
        let fault = anyhow::anyhow!("apt-get failed:\nE: Unable to locate package x");
        assert!(explained(fault).is::<NoPackage>());
        let fault = anyhow::anyhow!("apt-get failed:\nE: no network");
        assert!(!explained(fault).is::<NoPackage>());
    }

    #[test]
    fn what_is_in_the_cache_is_not_downloaded() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let files = ["a", "b", "c"].map(str::to_owned).to_vec();
        let sizes = vec![1, 2, 4];
        assert_eq!(Plan { files, sizes }.missing(dir.path()), (2, 6));
    }

    #[test]
    fn a_line_of_a_plan_names_its_file() {
        let line = "'http://a/b_1%3a2_arm64.deb' b_1%3a2_arm64.deb 1234 SHA256:00";
        assert_eq!(file_of_uri(line).as_deref(), Some("b_1%3a2_arm64.deb"));
        assert_eq!(file_of_uri("Reading package lists..."), None);
    }
}
