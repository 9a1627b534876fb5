//! A private apt: its own state, lists and sources in the cache. The machine's are not changed.
//!
//! apt does its work (signatures, mirrors, proxies, resolving) but writes nothing outside the
//! cache. Only Debian's own archive key is accepted. Checking it is never turned off, and neither
//! is the check that the lists are not too old (their `Valid-Until`). The machine's apt.conf.d is
//! still read, because it has the proxies; its hooks and pins are not: hooks would clean or refresh
//! parts of the machine.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::debian::index;
pub use crate::debian::index::{Package, newest};

use crate::cache::Cache;
use crate::debian::sources::{self, Archives, Entry};
use hanok_base::process;
use hanok_base::ui::{self, LongStep};

pub(crate) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The list of packages that are installed on this machine.
const STATUS: &str = "/var/lib/dpkg/status";

/// The private apt, after its lists were fetched.
pub struct Apt {
    pub(crate) conf: PathBuf,
    /// The machine's own architecture, in dpkg's name.
    pub native: String,
}

impl Apt {
    /// Writes the private configuration and fetches the lists of packages. Those of Debian's
    /// component non-free are fetched only if `non_free` is set.
    pub fn update(cache: &Cache, non_free: bool) -> Result<Self> {
        let apt = Self {
            conf: cache.path("apt/apt.conf"),
            native: native()?,
        };
        let main =
            |native: &str| -> Result<String> { Ok(sources_list(&archives()?, native, non_free)) };
        let status = Path::new(STATUS);
        apt.write_configuration(&cache.path("apt"), main, &["arm64", "armhf"], status)?;
        apt.fetch(&cache.path("apt"))?;
        Ok(apt)
    }

    /// Another apt beside the one for guests, in `folder` of the cache. It knows these releases of
    /// Debian, each for one architecture: for tests that examine kernels of other releases, or use
    /// their compilers. To this apt no package is installed, so that no package of the machine,
    /// which may be of another release, satisfies a dependency.
    pub fn of_releases(cache: &Cache, folder: &str, releases: &[(&str, &str)]) -> Result<Self> {
        let dir = cache.path(folder);
        let apt = Self {
            conf: dir.join("apt.conf"),
            native: native()?,
        };
        let sources = |_: &str| -> Result<String> {
            let main = archives()?.main;
            let different: BTreeSet<_> = releases.iter().collect();
            let lines = different.into_iter().map(|(release, architecture)| {
                format!(
                    "deb [arch={architecture} signed-by={KEYRING} {DATED} target=Packages] {main} {release} main\n"
                )
            });
            Ok(lines.collect())
        };
        let status = dir.join("status");
        fs::create_dir_all(&dir)?;
        fs::write(&status, "")?;
        apt.write_configuration(&dir, sources, &["armhf", "armel"], &status)?;
        apt.fetch(&dir)?;
        Ok(apt)
    }

    /// Fetches the lists of packages.
    pub(crate) fn fetch(&self, dir: &Path) -> Result<()> {
        let step = LongStep::new("Fetching Debian's lists of packages");
        let fetched = self.tool("apt-get").args(["-q", "update"]).output();
        let fetched = fetched.context("cannot start apt-get")?;
        // apt-get exits with 0 even where a list could not be fetched or verified.
        let words = String::from_utf8_lossy(&fetched.stderr);
        let short = |line: &&str| line.starts_with("E:") || line.contains("Failed to fetch");
        let why = words.lines().find(short);
        if !fetched.status.success() || why.is_some() {
            let log = dir.join("update.log");
            fs::write(&log, words.as_bytes())?;
            bail!(
                "Debian's lists of packages could not be fetched whole: is the network there? \
                 (all of apt's own words are in {})\n{}",
                log.display(),
                why.unwrap_or_default()
            );
        }
        step.done();
        Ok(())
    }

    pub(crate) fn write_configuration(
        &self,
        dir: &Path,
        sources: impl Fn(&str) -> Result<String>,
        architectures: &[&str],
        status: &Path,
    ) -> Result<()> {
        for sub in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        if !Path::new(KEYRING).exists() {
            bail!("{KEYRING} is missing: install the package debian-archive-keyring");
        }
        fs::write(dir.join("sources.list"), sources(&self.native)?)?;
        let text = configuration(dir, &self.native, architectures, status);
        fs::write(&self.conf, text)?;
        Ok(())
    }

    /// One of apt's programs, with the private state.
    pub(crate) fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&self.conf)
            .env_remove("APT_CONFIG")
            .env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null());
        command
    }

    /// Every version of `name` (`package:arch`) in the lists, newest first.
    pub fn show(&self, name: &str) -> Result<Vec<Package>> {
        let text = process::text(self.tool("apt-cache").arg("show").arg(name))
            .with_context(|| format!("Debian's lists have no package {name}"))?;
        Ok(index::parse(&text))
    }

    /// The version of `name` (`package:arch`) that apt would install by itself: the release's, not
    /// a backport's.
    pub fn candidate(&self, name: &str) -> Result<Package> {
        let missing = || format!("Debian's lists have no package {name}");
        let mut show = self.tool("apt-cache");
        let text = process::text(show.args(["show", "--no-all-versions", name]));
        let found = index::parse(&text.with_context(missing)?);
        found.into_iter().next().with_context(missing)
    }

    /// Downloads one package into `dir`, checks its digest, and returns the file.
    pub fn download(&self, package: &Package, dir: &Path) -> Result<PathBuf> {
        let title = format!(
            "Downloading {} {} ({})",
            package.name,
            package.version,
            ui::size(package.size)
        );
        let name = format!(
            "{}:{}={}",
            package.name, package.architecture, package.version
        );
        let mut command = self.tool("apt-get");
        command.args(["-q", "download"]).arg(name).current_dir(dir);
        watch(&mut command, LongStep::bytes(title, package.size), dir)?;
        let file = only_deb(dir)?;
        package.verify(&file)?;
        Ok(file)
    }

    /// Downloads `names` from `release`, with all dependencies that this machine lacks, into `dir`.
    /// Nothing is installed.
    pub fn download_closure(
        &self,
        names: &[&str],
        release: &str,
        dir: &Path,
    ) -> Result<Vec<PathBuf>> {
        let what = names.join(" ");
        let archives = dir.join("archives");
        fs::create_dir_all(archives.join("partial"))?;
        let wanted = [
            "-q",
            "-y",
            "install",
            "--no-install-recommends",
            "-t",
            release,
        ];
        let option = format!("Dir::Cache::archives={}", archives.display());
        let mut plan = self.tool("apt-get");
        plan.arg("-o").arg(&option).arg("--print-uris");
        let plan = process::text(plan.args(wanted).args(names))?;
        let total: u64 = plan.lines().filter_map(size_of_uri).sum();
        let title = format!("Downloading {what} ({})", ui::size(total));
        let mut command = self.tool("apt-get");
        command
            .arg("-o")
            .arg(&option)
            .arg("--download-only")
            .args(wanted)
            .args(names);
        watch(&mut command, LongStep::bytes(title, total), &archives)?;
        let mut debs = debs_in(&archives)?;
        debs.sort();
        if debs.is_empty() {
            bail!("apt-get downloaded nothing for {what}: is it installed, but not found?");
        }
        Ok(debs)
    }
}

/// The machine's own architecture, in dpkg's name.
pub fn native() -> Result<String> {
    let native = process::text(Command::new("dpkg").arg("--print-architecture"))
        .context("dpkg is needed: Hanok's downloads come as Debian packages")?;
    Ok(native.trim().to_owned())
}

/// Unpacks a package's files under `dir`. None of its scripts is run.
pub fn unpack(deb: &Path, dir: &Path) -> Result<()> {
    process::run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(dir)).map(drop)
}

fn only_deb(dir: &Path) -> Result<PathBuf> {
    let found = debs_in(dir)?.pop();
    found.context("apt-get ended well, but left no package")
}

fn debs_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|ext| ext == "deb"))
        .collect())
}

/// The size in a line of `apt-get --print-uris`: `'URI' FILE SIZE HASH`.
pub(crate) fn size_of_uri(line: &str) -> Option<u64> {
    line.strip_prefix('\'')?
        .split_whitespace()
        .nth(2)?
        .parse()
        .ok()
}

/// Runs a download while a progress bar follows how many bytes are in `dir`.
pub(crate) fn watch(command: &mut Command, step: LongStep, dir: &Path) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child: Child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    while child.try_wait()?.is_none() {
        step.at(bytes_under(dir));
        sleep(Duration::from_millis(100));
    }
    process::checked(&name, child.wait_with_output()?)?;
    step.done();
    Ok(())
}

/// The size of the files under `dir` so far. A file that is removed meanwhile does not count.
fn bytes_under(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_under(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(size).sum()
}

/// The archives of this machine, or those that the environment names.
pub(crate) fn archives() -> Result<Archives> {
    if let Ok(main) = std::env::var("HANOK_DEBIAN_URI") {
        return Ok(Archives {
            main,
            security: std::env::var("HANOK_DEBIAN_SECURITY_URI").ok(),
        });
    }
    let entries = machine_entries(Path::new("/etc/apt"));
    Archives::choose(&entries).context(
        "no Debian archive is among this machine's apt sources: add one, or set \
         HANOK_DEBIAN_URI (and HANOK_DEBIAN_SECURITY_URI) to its address",
    )
}

fn machine_entries(etc: &Path) -> Vec<Entry> {
    let mut files = vec![etc.join("sources.list")];
    if let Ok(parts) = fs::read_dir(etc.join("sources.list.d")) {
        files.extend(parts.filter_map(Result::ok).map(|part| part.path()));
    }
    files.sort();
    files
        .iter()
        .flat_map(|file| entries_of_file(file))
        .collect()
}

fn entries_of_file(file: &Path) -> Vec<Entry> {
    let Ok(text) = fs::read_to_string(file) else {
        return Vec::new();
    };
    match file.extension().and_then(|ext| ext.to_str()) {
        Some("list") => sources::parse_list(&text),
        Some("sources") => sources::parse_deb822(&text),
        _ => Vec::new(),
    }
}

/// The architectures for which the release is fetched, and newer versions: backports have kernels.
const ARCHITECTURES: &str = "arm64,armhf";
/// The architectures for which security updates are fetched: kernels of 32-bit guests are only for
/// trying out.
const SECURITY: &str = "arm64";

/// Options of a source take precedence over any configuration, also over one for the source's
/// label.
pub(crate) const DATED: &str = "check-valid-until=yes check-date=yes";

fn sources_list(archives: &Archives, native: &str, non_free: bool) -> String {
    let line = |architectures: &str, uri: &str, suite: &str| {
        format!(
            "deb [arch={native},{architectures} signed-by={KEYRING} {DATED} target=Packages] {uri} {suite} main\n"
        )
    };
    let mut text = line(ARCHITECTURES, &archives.main, "bookworm");
    for suite in ["bookworm-updates", "bookworm-backports"] {
        text += &line(ARCHITECTURES, &archives.main, suite);
    }
    if let Some(security) = &archives.security {
        text += &line(SECURITY, security, "bookworm-security");
    }
    if non_free {
        text += &format!(
            "deb [arch={ARCHITECTURES} signed-by={KEYRING} {DATED} target=Packages] {} bookworm non-free\n",
            archives.main
        );
    }
    text
}

fn configuration(dir: &Path, native: &str, architectures: &[&str], status: &Path) -> String {
    let (dir, status) = (dir.display(), status.display());
    let foreign: String = architectures
        .iter()
        .map(|architecture| format!("\"{architecture}\"; "))
        .collect();
    let mut text = format!(
        "Dir::State \"{dir}/state\";\n\
         Dir::State::status \"{status}\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         Dir::Cache::pkgcache \"pkgcache.bin\";\n\
         Dir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
         Dir::Log \"{dir}\";\n\
         Dir::Etc::sourcelist \"{dir}/sources.list\";\n\
         Dir::Etc::sourceparts \"/dev/null\";\n\
         Dir::Etc::preferences \"/dev/null\";\n\
         Dir::Etc::preferencesparts \"/dev/null\";\n\
         APT::Architecture \"{native}\";\n\
         #clear APT::Architectures;\n\
         APT::Architectures {{ \"{native}\"; {foreign}}};\n\
         #clear APT::Default-Release;\n\
         Acquire::Languages \"none\";\n\
         Acquire::Retries \"3\";\n\
         APT::Get::AllowUnauthenticated \"false\";\n\
         Acquire::AllowInsecureRepositories \"false\";\n\
         Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
         Acquire::AllowWeakRepositories \"false\";\n"
    );
    // Old lists name old packages, whose faults are known. A server of such lists must not be
    // helped by the machine's settings for one of its own archives (apt.conf(5), sources.list(5)).
    for expiry in ["Check-Valid-Until", "Check-Date"] {
        text += &format!("#clear Acquire::{expiry};\nAcquire::{expiry} \"true\";\n");
    }
    for longer in ["Min-ValidTime", "Max-ValidTime", "Max-FutureTime"] {
        text += &format!("#clear Acquire::{longer};\n");
    }
    let hooks = [
        "APT::Update::Pre-Invoke",
        "APT::Update::Post-Invoke",
        "APT::Update::Post-Invoke-Success",
        "DPkg::Pre-Invoke",
        "DPkg::Post-Invoke",
        "DPkg::Pre-Install-Pkgs",
    ];
    for hook in hooks {
        text += &format!("#clear {hook};\n");
    }
    // Otherwise root's downloads would run as `_apt`, which cannot enter root's home.
    if rustix::process::geteuid().is_root() {
        text += "APT::Sandbox::User \"root\";\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn print_uris_lines_give_their_size() {
        let line = "'http://a/b_1_amd64.deb' b_1_amd64.deb 1234 SHA256:00";
        assert_eq!(size_of_uri(line), Some(1234));
        assert_eq!(size_of_uri("The following packages:"), None);
    }

    #[test]
    fn signatures_are_always_asked_for() {
        let archives = Archives {
            main: "http://m/".into(),
            security: None,
        };
        let text = sources_list(&archives, "amd64", true);
        assert!(
            text.lines()
                .all(|line| line.contains("signed-by=/usr/share/keyrings/debian-"))
        );
        assert!(!text.contains("trusted") && !text.contains("security main"));
        assert!(text.contains(" bookworm non-free\n"));
        assert!(!sources_list(&archives, "amd64", false).contains("non-free"));
    }

    #[test]
    fn old_lists_are_refused_whatever_the_machine_says() {
        let dir = tempfile::tempdir().unwrap();
        let machine = dir.path().join("machine.conf");
        let lax = "Acquire::Check-Valid-Until \"false\";\nAcquire::Check-Date \"false\";\n\
            Acquire::Min-ValidTime \"99999999\";\nAcquire::Min-ValidTime::Debian \"99999999\";\n";
        fs::write(&machine, lax).unwrap();
        let ours = dir.path().join("apt.conf");
        fs::write(
            &ours,
            configuration(dir.path(), "amd64", &["arm64"], Path::new(STATUS)),
        )
        .unwrap();
        let mut dump = Command::new("apt-config");
        dump.arg("-c")
            .arg(&ours)
            .arg("dump")
            .env("APT_CONFIG", &machine);
        let text = process::text(&mut dump).unwrap();
        assert!(
            text.contains("Acquire::Check-Valid-Until \"true\";"),
            "{text}"
        );
        assert!(text.contains("Acquire::Check-Date \"true\";"), "{text}");
        assert!(!text.contains("99999999"), "{text}");
        let archives = Archives {
            main: "http://m/".into(),
            security: Some("http://s/".into()),
        };
        let sources = sources_list(&archives, "amd64", true);
        assert!(
            sources
                .lines()
                .all(|line| line.contains("check-valid-until=yes check-date=yes"))
        );
    }
}
