//! Finds the emulator: the one that `HANOK_QEMU` names, else the machine's own if it is new enough,
//! else Debian's from backports, which is unpacked into the cache and run from there.
//!
//! Installing it would need root and would pull backports into the machine; a private copy needs
//! neither. Only the libraries that the machine lacks are fetched. If the machine loses one of its
//! own later, the copy no longer runs; this is noticed, and it is fetched again.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::cache::Resolved;
use crate::store::Store;
use hanok_base::process;

/// The oldest version whose behaviour the tests rely on.
const OLDEST: u32 = 10;
/// The reference under which the cache remembers its copy.
pub const REFERENCE: &str = "qemu";
/// QEMU for 64-bit boards.
pub const PROGRAM: &str = "qemu-system-aarch64";
/// QEMU for 32-bit boards.
pub const PROGRAM_32: &str = "qemu-system-arm";

/// The environment variable that names another QEMU: the path of its [`PROGRAM`].
const NAMED: &str = "HANOK_QEMU";

/// The environment variable that tells QEMU where its modules are.
const MODULES: &str = "QEMU_MODULE_DIR";

/// A QEMU, and how to start it.
#[derive(Clone, Debug)]
pub struct Qemu {
    program: PathBuf,
    version: String,
    libraries: Option<OsString>,
    /// Where its modules are: devices such as virtio's display.
    modules: Option<PathBuf>,
    data: Option<PathBuf>,
}

impl Qemu {
    /// A command without the machine's arguments. `binary` names the program; all programs come in
    /// one package.
    pub fn command(&self, binary: &str) -> Command {
        let mut command = Command::new(self.program.with_file_name(binary));
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if let Some(modules) = &self.modules {
            command.env(MODULES, modules);
        }
        if let Some(data) = &self.data {
            command.arg("-L").arg(data);
        }
        command
    }

    /// QEMU's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The QEMU that the user names, if one is named. It is an error if that one cannot be used.
    fn named() -> Option<Result<Self>> {
        std::env::var_os(NAMED)
            .filter(|name| !name.is_empty())
            .map(|name| Self::at(name.into()))
    }

    /// The QEMU whose 64-bit program is `program`.
    fn at(program: PathBuf) -> Result<Self> {
        let name = program.file_name().unwrap_or_default();
        if name != PROGRAM || !program.is_file() {
            bail!(
                "{NAMED} is {}: it must be the path of a {PROGRAM}",
                program.display()
            );
        }
        let found = Self {
            program,
            ..Self::unknown()
        };
        let qemu = found
            .probed()
            .with_context(|| format!("the QEMU that {NAMED} names does not start"))?;
        if major(&qemu.version).is_none_or(|version| version < OLDEST) {
            bail!(
                "{NAMED} names QEMU {}, and {OLDEST} is needed",
                qemu.version
            );
        }
        Ok(qemu)
    }

    /// Whether the user names a QEMU.
    pub fn is_named() -> bool {
        Self::named().is_some()
    }

    /// The machine's own QEMU, if it is new enough.
    pub fn of_machine() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let mut programs = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM));
        let program = programs.find(|program| program.is_file())?;
        let found = Self {
            program,
            version: String::new(),
            libraries: None,
            modules: None,
            data: None,
        };
        found
            .probed()
            .ok()
            .filter(|qemu| major(&qemu.version).is_some_and(|v| v >= OLDEST))
    }

    fn unknown() -> Self {
        Self {
            program: PROGRAM.into(),
            version: String::new(),
            libraries: None,
            modules: None,
            data: None,
        }
    }

    fn unpacked(root: &Path) -> Result<Self> {
        let program = root.join("usr/bin").join(PROGRAM);
        let mut dirs = Vec::new();
        for lib in ["usr/lib", "lib"].map(|lib| root.join(lib)) {
            let Ok(entries) = fs::read_dir(lib) else {
                continue;
            };
            let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
            dirs.extend(paths.filter(|path| path.to_string_lossy().contains("-linux-gnu")));
        }
        let mut modules = dirs.iter().map(|dir| dir.join("qemu"));
        let modules = modules.find(|dir| dir.is_dir());
        let libraries = Some(std::env::join_paths(dirs)?);
        let data = Some(root.join("usr/share/qemu"));
        Self {
            program,
            version: String::new(),
            libraries,
            modules,
            data,
        }
        .probed()
    }

    /// Returns itself with its version, which shows that it runs on this machine.
    fn probed(mut self) -> Result<Self> {
        let text = process::text(self.command(PROGRAM).arg("--version"))?;
        self.version = version_in(&text)
            .context("QEMU does not tell its version")?
            .to_owned();
        Ok(self)
    }
}

impl Store {
    /// QEMU: the named one, the machine's, the cache's, or a fetched one.
    pub fn qemu(&self) -> Result<Qemu> {
        if let Some(named) = Qemu::named() {
            return named;
        }
        if let Some(qemu) = Qemu::of_machine() {
            return Ok(qemu);
        }
        let cached = || {
            self.cached(REFERENCE)
                .map(|found| Qemu::unpacked(&self.cache.path(found.path)))
        };
        if let Some(Ok(qemu)) = cached() {
            return Ok(qemu);
        }
        let _lock = self.cache.lock()?;
        if let Some(Ok(qemu)) = cached() {
            return Ok(qemu);
        }
        let resolved = self.fetch_qemu()?;
        let qemu = Qemu::unpacked(&self.cache.path(&resolved.path))?;
        self.cache.remember(REFERENCE, &resolved)?;
        Ok(qemu)
    }

    /// QEMU, as far as it is known without fetching it.
    pub fn qemu_if_there(&self) -> Qemu {
        let cached = || {
            let found = self.cache.resolved(REFERENCE)?;
            Qemu::unpacked(&self.cache.path(found.path)).ok()
        };
        let named = Qemu::named().and_then(Result::ok);
        named
            .or_else(Qemu::of_machine)
            .or_else(cached)
            .unwrap_or_else(Qemu::unknown)
    }

    fn fetch_qemu(&self) -> Result<Resolved> {
        let folder = self.cache.temporary()?;
        let apt = self.apt()?;
        let debs =
            apt.download_closure(&["qemu-system-arm"], "bookworm-backports", folder.path())?;
        let main = apt
            .show(&format!("qemu-system-arm:{}", apt.native))?
            .into_iter();
        let main = apt::newest(main).context("Debian's lists have no qemu-system-arm")?;
        if major_of_package(&main.version).is_none_or(|version| version < OLDEST) {
            bail!(
                "bookworm-backports has QEMU {} only, {OLDEST} is needed",
                main.version
            );
        }
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        for deb in &debs {
            apt::unpack(deb, &tree)?;
        }
        let path = PathBuf::from("qemu").join(main.version.replace(':', "_"));
        self.cache.publish(&tree, &path)?;
        Ok(Resolved::of(&main, path))
    }
}

/// `10.0.2` in `QEMU emulator version 10.0.2 (Debian ...)`.
fn version_in(text: &str) -> Option<&str> {
    text.split_once("version ")?
        .1
        .split([' ', '\n', '('])
        .next()
        .filter(|v| major(v).is_some())
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

/// The major version in a package's version, which may have an epoch.
fn major_of_package(version: &str) -> Option<u32> {
    major(version.split_once(':').map_or(version, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_program_is_one_and_new_enough() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{text}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Qemu::at(path)
        };
        let new = "QEMU emulator version 10.0.2";
        assert_eq!(program(PROGRAM, new).unwrap().version(), "10.0.2");
        let refused = |found: Result<Qemu>, word: &str| {
            let error = format!("{:#}", found.unwrap_err());
            assert!(error.contains(word), "{error}");
        };
        let old = "QEMU emulator version 7.2.0";
        refused(program(PROGRAM, old), "names QEMU 7.2.0");
        refused(program(PROGRAM, "no"), "does not tell its version");
        refused(program("qemu", new), "must be the path");
        refused(Qemu::at(dir.path().join("away").join(PROGRAM)), "must be");
    }

    #[test]
    fn versions_are_found() {
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds)\nCopyright (c)\n";
        assert_eq!(version_in(text), Some("10.0.2"));
        assert_eq!(version_in("QEMU emulator version 9.2.0\n"), Some("9.2.0"));
        assert_eq!(version_in("bash: not found"), None);
        assert_eq!(major_of_package("1:10.0.2+ds-2~bpo12+1"), Some(10));
    }
}
