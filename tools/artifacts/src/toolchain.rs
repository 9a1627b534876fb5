//! Programs from any of Debian's releases, unpacked into the cache and run from there: compilers of
//! other releases than the machine's, and other programs that builds need.
//!
//! Such a program needs the C library of its own release, and the machine's may be older. So a
//! package is fetched with all its dependencies, the C library too, and its programs are started by
//! that library's own loader, which a script names (`ld.so --library-path`).
//!
//! Rejected: another root folder (chroot), which needs permissions that not every user has, and
//! would need the machine's make and host compiler in it; `LD_LIBRARY_PATH` alone, with which the
//! machine's loader would use a C library that is not its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::{self, Apt, Package};
use crate::cache::{Resolved, digest};
use crate::store::{Store, TOOLCHAINS};

/// The cache's folder for the lists of releases other than the guests'.
const LISTS: &str = "apt-kernels";

/// Packages of one release with all their dependencies.
#[derive(Clone, Debug)]
pub struct Toolchain {
    tree: PathBuf,
    /// The version of the first of its packages.
    pub version: String,
}

impl Store {
    /// An apt that knows one release, for one architecture (`None`: the machine's).
    pub fn apt_of(&self, release: &str, architecture: Option<&str>) -> Result<Apt> {
        let native = apt::native()?;
        let architecture = architecture.unwrap_or(&native);
        let folder = format!("{LISTS}/{release}-{architecture}");
        Apt::of_releases(&self.cache, &folder, &[(release, architecture)])
    }

    /// Packages of a release with all that they depend on, unpacked into the cache. Nothing is
    /// installed.
    pub fn toolchain(&self, release: &str, packages: &[&str]) -> Result<Toolchain> {
        let reference = format!("toolchain {release} {}", packages.join(" "));
        let resolved = match self.cached(&reference) {
            Some(found) => found,
            None => {
                let _lock = self.cache.lock()?;
                let found = self.fetch_toolchain(release, packages)?;
                self.cache.remember(&reference, &found)?;
                found
            }
        };
        Ok(Toolchain {
            tree: self.cache.path(resolved.path),
            version: resolved.version,
        })
    }

    fn fetch_toolchain(&self, release: &str, packages: &[&str]) -> Result<Resolved> {
        let apt = self.apt_of(release, None)?;
        let main = packages.first().context("no package is named")?;
        let main = apt.candidate(&format!("{main}:{}", apt.native))?;
        let folder = self.cache.temporary()?;
        let tree = folder.path().join("tree");
        fs::create_dir(&tree)?;
        for deb in apt.download_closure(packages, release, folder.path())? {
            apt::unpack(&deb, &tree)?;
        }
        let name = format!("{}-{release}-{}", main.folder(), digest(packages.join(" ")));
        let path = Path::new(TOOLCHAINS).join(name);
        self.cache.publish(&tree, &path)?;
        Ok(Resolved::of(&main, path))
    }

    /// A package of a release for all architectures, without dependencies: its version, and the
    /// folder where it is unpacked.
    pub fn data_of(&self, release: &str, package: &str) -> Result<(String, PathBuf)> {
        let reference = format!("data {release} {package}");
        let resolved = self.package_of(&reference, (release, None), |apt| {
            apt.candidate(&format!("{package}:all"))
        })?;
        Ok((resolved.version, self.cache.path(resolved.path)))
    }

    /// The package of `reference`, from the cache or, chosen by `choose`, from a release for an
    /// architecture (`None`: the machine's).
    pub(crate) fn package_of(
        &self,
        reference: &str,
        (release, architecture): (&str, Option<&str>),
        choose: impl FnOnce(&Apt) -> Result<Package>,
    ) -> Result<Resolved> {
        self.remembered(reference, || {
            let apt = self.apt_of(release, architecture)?;
            self.fetch_by(&apt, &choose(&apt)?)
        })
    }
}

impl Toolchain {
    /// The path of a file of its packages, for example `usr/bin/flex`.
    pub fn file(&self, inside: &str) -> PathBuf {
        self.tree.join(inside)
    }

    /// The path in a folder of its packages whose name begins with `prefix`.
    pub fn entry(&self, folder: &str, prefix: &str) -> Result<PathBuf> {
        crate::store::entry_starting(&self.tree.join(folder), prefix)
    }

    /// Writes the script `to`, which starts `program` with its own arguments and then `more`. The
    /// program's own name is its path in the packages, so that it finds what is beside it.
    pub fn wrap(&self, program: &Path, to: &Path, more: &[String]) -> Result<()> {
        self.wrap_as(program, to, None, more)
    }

    /// As [`Self::wrap`], for a program that starts itself again: its own name is `name`, which has
    /// to be such a script. Needs Debian 12's loader or a later one.
    pub fn wrap_as(
        &self,
        program: &Path,
        to: &Path,
        name: Option<&Path>,
        more: &[String],
    ) -> Result<()> {
        let libraries = self.libraries();
        let loader =
            loader(&libraries).with_context(|| format!("{} has no loader", self.tree.display()))?;
        let joined: Vec<_> = libraries.iter().map(|dir| dir.to_string_lossy()).collect();
        let path = |path: &Path| quoted(&path.to_string_lossy());
        let mut text = format!("#!/bin/sh\nexec {}", path(&loader));
        if let Some(name) = name {
            text += &format!(" --argv0 {}", path(name));
        }
        let libraries = quoted(&joined.join(":"));
        text += &format!(" --library-path {libraries} {} \"$@\"", path(program));
        for argument in more {
            text += &format!(" {}", quoted(argument));
        }
        fs::write(to, text + "\n")?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The folders of its libraries: `usr/lib` since Debian 13; before that, some are in `lib`.
    fn libraries(&self) -> [PathBuf; 2] {
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        ["usr/lib", "lib"].map(|lib| self.tree.join(lib).join(&triple))
    }
}

/// The C library's loader. `lib64` has a link to it, which leads out of the tree.
fn loader(libraries: &[PathBuf]) -> Option<PathBuf> {
    let entries = libraries.iter().filter_map(|dir| fs::read_dir(dir).ok());
    let mut paths = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("ld-linux")
    })
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loader that prints its arguments takes the place of the C library's.
    #[test]
    fn a_program_starts_by_the_loader_of_its_own_release() {
        for lib in ["usr/lib", "lib"] {
            let dir = tempfile::tempdir().unwrap();
            let tree = dir.path().join("the tree's");
            let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
            let libraries = tree.join(lib).join(triple);
            fs::create_dir_all(&libraries).unwrap();
            let loader = libraries.join("ld-linux-x.so.2");
            fs::write(&loader, "#!/bin/sh\nprintf '[%s]' \"$@\"\n").unwrap();
            fs::set_permissions(&loader, fs::Permissions::from_mode(0o755)).unwrap();
            let toolchain = Toolchain {
                tree: tree.clone(),
                version: String::new(),
            };
            let script = dir.path().join("gcc");
            let program = toolchain.file("usr/bin/gcc-12");
            toolchain
                .wrap(&program, &script, &["-Bi n".into()])
                .unwrap();
            let mut command = std::process::Command::new(&script);
            let text = hanok_base::process::text(command.args(["-c", "a b"])).unwrap();
            let paths = ["usr/lib", "lib"].map(|lib| {
                let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
                tree.join(lib).join(triple).display().to_string()
            });
            let wanted = format!(
                "[--library-path][{}][{}][-c][a b][-Bi n]",
                paths.join(":"),
                program.display()
            );
            assert_eq!(text, wanted);
        }
    }
}
