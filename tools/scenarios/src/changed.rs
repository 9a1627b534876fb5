//! Finds what a change can affect: `hanok test --changed` runs that, and when in doubt it runs the
//! test.
//!
//! A path belongs to a package by its folder. Packages that use a changed package, by the graph of
//! `cargo metadata`, are affected, too. A scenario depends on its own file, its system's
//! description, the guests that these name, and the hypervisor with the tools that start boards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::matrix::Case;
use hanok_artifacts::cargo::cargo;
use hanok_base::process;

/// The packages that take part in each boot: if one is affected, every scenario runs.
const OF_EACH_BOARD: [&str; 4] = [
    "hanok-hypervisor",
    "hanok-artifacts",
    "hanok-boot",
    "hanok-console",
];
/// The package that runs the scenarios. It uses most of the tools, many of which have no part in a
/// boot. A change of its own runs every scenario, a change of a package it uses does not.
const RUNNER: &str = "hanok-scenarios";
/// The command, which is tested by the steps that are neither cargo's nor a rule.
const COMMAND: &str = "hanok-cli";

/// What cargo does not tell: a package that another one builds when it runs, and uses then.
const BUILT_BY: [(&str, &str); 8] = [
    ("hanok-bench-runner", "hanok-disk-work"),
    ("hanok-bench-runner", "hanok-clip-work"),
    ("hanok-bench-runner", "hanok-frame-work"),
    ("hanok-bench-runner", "hanok-init-clock"),
    ("hanok-bench-runner", "hanok-integer-work"),
    ("hanok-bench-runner", "hanok-plugin"),
    (RUNNER, "hanok-plugin"),
    (RUNNER, "hanok-top"),
];

/// What cargo tells of the workspace.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
}

/// A package of the workspace.
#[derive(Debug)]
struct Package {
    name: String,
    /// From the repository on.
    folder: String,
    /// Packages of the workspace that it uses, also for its build or its tests, or builds when it runs.
    uses: Vec<String>,
}

/// The packages of the workspace.
#[derive(Debug)]
pub struct Graph(Vec<Package>);

impl Graph {
    /// The graph of the repository at `root`.
    pub fn load(root: &Path) -> Result<Self> {
        let mut command = cargo(root);
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        Self::parse(&process::text(&mut command)?, root)
    }

    fn parse(text: &str, root: &Path) -> Result<Self> {
        let metadata: Metadata = serde_json::from_str(text).context("cargo metadata")?;
        let of = |package: MetadataPackage| {
            let folder = package.manifest_path.parent().unwrap_or(root);
            let folder = folder.strip_prefix(root).unwrap_or(folder);
            let used = package.dependencies.into_iter();
            let used = used
                .filter(|used| used.path.is_some())
                .map(|used| used.name);
            let built = BUILT_BY.iter().filter(|(by, _)| *by == package.name);
            let built = built.map(|(_, built)| (*built).to_owned());
            Package {
                uses: used.chain(built).collect(),
                name: package.name,
                folder: folder.to_string_lossy().into_owned(),
            }
        };
        Ok(Self(metadata.packages.into_iter().map(of).collect()))
    }

    /// The package with the innermost folder around `path`.
    fn owner(&self, path: &str) -> Option<&Package> {
        let around = self.0.iter().filter(|package| {
            let rest = path.strip_prefix(package.folder.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        around.max_by_key(|package| package.folder.len())
    }

    /// `changed`, and everything that uses one of them, however indirectly.
    fn affected(&self, changed: &BTreeSet<String>) -> BTreeSet<String> {
        let mut all = changed.clone();
        loop {
            let before = all.len();
            let using = |package: &&Package| package.uses.iter().any(|used| all.contains(used));
            let found: Vec<_> = self.0.iter().filter(using).collect();
            let found: Vec<_> = found.iter().map(|package| package.name.clone()).collect();
            all.extend(found);
            if all.len() == before {
                return all;
            }
        }
    }

    fn is_in(&self, name: &str, folders: &[&str]) -> bool {
        let package = self.0.iter().find(|package| package.name == name);
        package.is_some_and(|package| {
            let within = |folder: &&str| package.folder.starts_with(*folder);
            folders.iter().any(within)
        })
    }

    /// The folder's last name of a package in `guests/`, which `guest:NAME` means.
    fn guest(&self, name: &str) -> Option<&str> {
        let package = self.0.iter().find(|package| package.name == name)?;
        package.folder.strip_prefix("guests/")
    }
}

/// What a changed path is.
enum Changed {
    /// Only prose: no program reads it.
    Words,
    /// Of this package.
    Package(String),
    /// A scenario, a description, a file for a guest, or a list that unit tests read: looked for by its path.
    Input,
    /// Everything may depend on it.
    Everything,
}

fn kind(path: &str, graph: &Graph) -> Changed {
    let folder = path.split_once('/').map(|(folder, _)| folder);
    if path.ends_with(".md") || path.starts_with("LICENSE-") {
        return Changed::Words;
    }
    if let Some(package) = graph.owner(path) {
        return Changed::Package(package.name.clone());
    }
    let of_tests = path.strip_prefix("tests/");
    match folder {
        Some("tests") if of_tests.is_some_and(|file| !file.contains('/')) => Changed::Input,
        Some("systems") => Changed::Input,
        Some("tests") if path.starts_with("tests/systems/") => Changed::Input,
        Some("tests") if path.starts_with("tests/guest/") => Changed::Input,
        // The bench's own tests read what was kept.
        Some("bench") if path.starts_with("bench/history/") => Changed::Input,
        // Pictures and pages; the lists of the gate are elsewhere. Nothing here builds the fuzzer, which needs
        // another compiler; the rules, which always run, read its files.
        Some("docs" | "fuzz") => Changed::Words,
        _ => Changed::Everything,
    }
}

/// What a change can affect.
#[derive(Debug)]
pub struct Affected {
    everything: bool,
    /// Packages with a change of their own.
    direct: BTreeSet<String>,
    packages: BTreeSet<String>,
    /// Files that changed and that are looked for by their paths.
    inputs: BTreeSet<String>,
    graph: Graph,
}

impl Affected {
    /// What the changes of `paths` (from the repository on) can affect.
    pub fn by(paths: &[String], graph: Graph) -> Self {
        let (mut everything, mut direct) = (false, BTreeSet::new());
        let mut inputs = BTreeSet::new();
        for path in paths {
            match kind(path, &graph) {
                Changed::Words => {}
                Changed::Package(name) => _ = direct.insert(name),
                Changed::Input => _ = inputs.insert(path.clone()),
                Changed::Everything => everything = true,
            }
        }
        Self {
            everything,
            packages: graph.affected(&direct),
            direct,
            inputs,
            graph,
        }
    }

    fn any_in(&self, folders: &[&str]) -> bool {
        let within = |name: &String| self.graph.is_in(name, folders);
        self.packages.iter().any(within)
    }

    /// Whether the step called `name` runs.
    pub fn runs_step(&self, name: &str) -> bool {
        if self.everything || name == "fmt" || name.starts_with("rule-") {
            return true;
        }
        let has = |package: &str| self.packages.contains(package);
        let descriptions = self.inputs.iter().any(|path| path.contains("systems/"));
        match name {
            "clippy-boards" => self.any_in(&["core/", "lib/", "hypervisor", "guests/"]),
            "clippy-host" => !self.packages.is_empty(),
            // Tests of the tools read descriptions and scenarios.
            "unit" => !self.packages.is_empty() || !self.inputs.is_empty(),
            "interleavings" => has("hanok-interleavings"),
            "image" | "image-lines" => has("hanok-hypervisor") || has(RUNNER),
            _ => descriptions || has(COMMAND) || self.any_in(&["hypervisor", "guests/"]),
        }
    }

    /// Whether a scenario runs. `text_of` gives the text of a file of the repository.
    pub fn runs_case(&self, case: &Case, text_of: impl Fn(&str) -> Option<String>) -> bool {
        let boards = OF_EACH_BOARD
            .iter()
            .any(|name| self.packages.contains(*name));
        if self.everything || boards || self.direct.contains(RUNNER) {
            return true;
        }
        if self.inputs.contains(&case.file) || self.inputs.contains(&case.system) {
            return true;
        }
        let read = |path: &str| text_of(path);
        let (Some(scenario), Some(system)) = (read(&case.file), read(&case.system)) else {
            return true;
        };
        if self
            .inputs
            .iter()
            .any(|path| scenario.contains(path.as_str()))
        {
            return true;
        }
        let has_agent = system.contains("agent = true");
        // A disk that is an image, a network with a tap interface, a directory of a Linux.
        let keys = ["\nfile = \"/", "\ntap = \"", "\npath = \"/"];
        let has_image = keys.iter().any(|key| system.contains(key));
        let named = |guest: &str| {
            let by_key = guest == "agent" && has_agent || guest == "driver-linux" && has_image;
            by_key || names_guest(&scenario, guest) || names_guest(&system, guest)
        };
        let guests = self.packages.iter();
        let mut guests = guests.filter_map(|name| Some((name, self.graph.guest(name)?)));
        guests.any(|(name, guest)| named(guest) || self.is_hidden(name))
    }

    /// Whether a package of guests/ reaches a board otherwise than as `guest:NAME`, as far as the
    /// graph shows: nothing else uses it, and its folder is none that a test may name.
    fn is_hidden(&self, name: &str) -> bool {
        let used = |package: &Package| package.uses.iter().any(|used| used == name);
        !KERNELS.contains(&name) && !self.graph.0.iter().any(used)
    }
}

/// The programs of guests/ that are on a board only where a description says so: those that boot as a VM's kernel, by
/// `guest:NAME`, the agent, by `agent = true`, and what serves images, by the `file` of a disk.
const KERNELS: [&str; 8] = [
    "hanok-agent",
    "hanok-bench-guest",
    "hanok-conformance",
    "hanok-driver-linux",
    "hanok-rtos",
    "hanok-sched-guest",
    "hanok-user-mode",
    "hanok-embassy",
];

/// Whether `text` has `guest:NAME` with this name and no longer one.
fn names_guest(text: &str, name: &str) -> bool {
    let wanted = format!("guest:{name}");
    let longer = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(&wanted)
        .any(|(at, _)| !text[at + wanted.len()..].starts_with(longer))
}

/// The paths that differ from the commit `base`, and those that git does not track yet. Without a
/// base, since this branch left `main`; on `main` itself, since the commit before.
pub fn paths(root: &Path, base: Option<&str>) -> Result<Vec<String>> {
    let git = |args: &[&str]| -> Result<String> {
        let mut command = Command::new("git");
        process::text(command.current_dir(root).args(args))
    };
    let base = match base {
        Some(base) => base.to_owned(),
        None => default_base(&git)?,
    };
    let mut all = BTreeMap::new();
    // A renamed file has two paths.
    let differing = ["diff", "--name-only", "--no-renames", "-z", &base, "--"];
    let unknown = ["ls-files", "--others", "--exclude-standard", "-z"];
    for listed in [git(&differing)?, git(&unknown)?] {
        all.extend(listed.split('\0').map(|path| (path.to_owned(), ())));
    }
    let paths = all.into_keys().filter(|path| !path.is_empty());
    Ok(paths.collect())
}

fn default_base(git: &impl Fn(&[&str]) -> Result<String>) -> Result<String> {
    let head = git(&["rev-parse", "HEAD"])?;
    let mains = ["origin/main", "main"].into_iter();
    let mut left = mains.filter_map(|main| git(&["merge-base", "HEAD", main]).ok());
    let base = match left.next() {
        Some(base) if base != head => base,
        _ => git(&["rev-parse", "HEAD~1"]).context("name a commit: --changed=COMMIT")?,
    };
    ensure!(!base.trim().is_empty(), "git names no commit");
    Ok(base.trim().to_owned())
}

/// The text of the file `path` of the repository.
pub fn text(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path)).ok()
}

#[cfg(test)]
mod tests;
