//! Files that the user asks for. They are checked before anything is built, are never an input of
//! the command, and never two outputs in one. Each is written beside its place first, so that the
//! old file stays until the new one is complete.
//!
//! Outputs that a run writes as it goes (consoles, messages) are the exception: people watch such a
//! file.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{Access, access};

use crate::exit::{Blame, Code, Outcome, failure};

/// The largest number of links that are followed one after the other.
const LINKS: usize = 16;

/// The files that a command reads, and those that it is to write.
#[derive(Debug, Default)]
pub struct Outputs {
    reads: Vec<(String, PathBuf)>,
    writes: Vec<(String, PathBuf)>,
}

/// What identifies a file, whatever its path is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// An existing file: its device and inode number, which hard links share.
    There(u64, u64),
    /// A new file: its existing folder, and its name.
    New(PathBuf),
    /// Not a regular file: a terminal, a pipe, /dev/null. It may have any number of writers.
    Device,
}

impl Outputs {
    /// Adds a file that the command reads.
    pub fn reads(mut self, what: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.reads.push((what.into(), path.into()));
        self
    }

    /// Adds files that the command reads.
    pub fn reads_all(mut self, all: Vec<(String, PathBuf)>) -> Self {
        self.reads.extend(all);
        self
    }

    /// Adds a file that the command is to write; `what` is how the user named it.
    pub fn writes(mut self, what: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.writes.push((what.into(), path.into()));
        self
    }

    /// Refuses outputs that cannot be written, or that must not be.
    pub fn check(&self) -> Outcome<()> {
        let mut earlier: Vec<(&str, Identity)> = Vec::new();
        for (what, path) in &self.writes {
            let shown = path.display();
            let found = identity(path).with_context(|| format!("{what}: cannot write {shown}"));
            let found = found.blame(Code::Output)?;
            if let Some((read, _)) = self.reads.iter().find(|(_, read)| is(read, &found)) {
                let text = format!(
                    "{what} names {shown}, which is {read}\n  \
                     why: it would be overwritten\n  fix: give another file"
                );
                return Err(failure(Code::Usage, text));
            }
            let twice = earlier.iter().find(|(_, other)| *other == found);
            if let Some((other, _)) = twice.filter(|_| found != Identity::Device) {
                let text = format!(
                    "{what} and {other} name one file, {shown}\n  \
                     why: one would overwrite the other\n  fix: give each a file of its own"
                );
                return Err(failure(Code::Usage, text));
            }
            earlier.push((what, found));
        }
        Ok(())
    }
}

/// Whether `path` is that file. A file that does not exist is not read.
fn is(path: &Path, file: &Identity) -> bool {
    fs::metadata(path).is_ok_and(|data| there(&data) == *file && *file != Identity::Device)
}

fn there(data: &Metadata) -> Identity {
    if data.is_file() {
        Identity::There(data.dev(), data.ino())
    } else {
        Identity::Device
    }
}

/// The identity of the file that a write to `path` would write.
fn identity(path: &Path) -> io::Result<Identity> {
    let path = without_links(path)?;
    match fs::metadata(&path) {
        Ok(data) if data.is_dir() => Err(io::Error::other("it is a folder")),
        Ok(data) => {
            access(&path, Access::WRITE_OK)?;
            Ok(there(&data))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let (folder, name) = parts(&path)?;
            let folder = folder.canonicalize().map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    io::Error::other(format!("there is no folder {}", folder.display()))
                }
                _ => error,
            })?;
            access(&folder, Access::WRITE_OK | Access::EXEC_OK)?;
            Ok(Identity::New(folder.join(name)))
        }
        Err(error) => Err(error),
    }
}

/// The path that `path` leads to, also where no file is there yet.
fn without_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("it is a link that leads to itself"))
}

/// The folder and the name of a file.
fn parts(path: &Path) -> io::Result<(&Path, &std::ffi::OsStr)> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), name))
}

/// Writes a file that the user asked for.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Outcome<()> {
    write_by(path, |file| file.write_all(bytes.as_ref()))
}

/// Writes a file that the user asked for, whose bytes `fill` writes.
pub fn write_by(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Outcome<()> {
    put_by(path, fill)
        .with_context(|| format!("cannot write {}", path.display()))
        .blame(Code::Output)
}

/// Writes a file completely, or not at all.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    put_by(path, |file| file.write_all(bytes))
}

fn put_by(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let path = without_links(path)?;
    let former = fs::metadata(&path).ok();
    if former.as_ref().is_some_and(|data| !data.is_file()) {
        return fill(&mut File::options().write(true).open(&path)?);
    }
    let (folder, _) = parts(&path)?;
    let mut draft = tempfile::Builder::new();
    // With the permissions of any new file: all, less those that the user's mask removes.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut draft = draft
        .prefix(".hanok-")
        .permissions(open)
        .tempfile_in(folder)?;
    fill(draft.as_file_mut())?;
    if let Some(former) = former {
        draft.as_file().set_permissions(former.permissions())?;
    }
    draft.persist(&path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn refused(outputs: Outputs, code: Code, word: &str) {
        let failure = outputs.check().unwrap_err();
        let text = format!("{:#}", failure.error);
        assert_eq!(failure.code, code, "{text}");
        assert!(text.contains(word), "{text}");
    }

    #[test]
    fn an_input_is_never_an_output_whatever_it_is_called() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("x.toml"), "mine").unwrap();
        fs::create_dir(at("sub")).unwrap();
        fs::hard_link(at("x.toml"), at("hard")).unwrap();
        symlink("x.toml", at("soft")).unwrap();
        symlink("soft", at("softer")).unwrap();
        for name in ["x.toml", "hard", "soft", "softer", "sub/../x.toml"] {
            let outputs = Outputs::default().reads("the description", at("x.toml"));
            refused(
                outputs.writes("-o", at(name)),
                Code::Usage,
                "which is the description",
            );
        }
        let other = Outputs::default().reads("the description", at("x.toml"));
        other.writes("-o", at("y.img")).check().unwrap();
    }

    #[test]
    fn two_outputs_never_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink("new", at("soft")).unwrap();
        for name in ["new", "sub/../new", "./new", "soft"] {
            let outputs = Outputs::default().writes("--log", at("new"));
            refused(
                outputs.writes("--console a", at(name)),
                Code::Usage,
                "name one file",
            );
        }
        let null = Outputs::default().writes("--log", "/dev/null");
        null.writes("--console a", "/dev/null").check().unwrap();
        let apart = Outputs::default().writes("--log", at("a"));
        apart.writes("--console a", at("b")).check().unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_refused_before() {
        let dir = tempfile::tempdir().unwrap();
        let one = |path: PathBuf| Outputs::default().writes("-o", path);
        refused(one(dir.path().to_owned()), Code::Output, "it is a folder");
        refused(
            one(dir.path().join("no/x")),
            Code::Output,
            "there is no folder",
        );
        refused(one("".into()), Code::Output, "names no file");
        symlink("loop", dir.path().join("loop")).unwrap();
        refused(
            one(dir.path().join("loop")),
            Code::Output,
            "leads to itself",
        );
        assert!(
            fs::read_dir(dir.path()).unwrap().count() == 1,
            "it only looks"
        );
    }

    #[test]
    fn a_full_disk_names_the_file() {
        let failure = write(Path::new("/dev/full"), "x").unwrap_err();
        let text = format!("{:#}", failure.error);
        assert_eq!(failure.code, Code::Output);
        assert!(
            text.starts_with("cannot write /dev/full: No space left"),
            "{text}"
        );
    }

    #[test]
    fn a_file_is_replaced_whole_and_a_link_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "former").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let reader = File::open(&file).unwrap();
        put(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        assert_eq!(
            io::read_to_string(reader).unwrap(),
            "former",
            "not written into"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
