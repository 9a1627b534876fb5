//! Files that a description names by their paths.

use crate::diagnostic::{Report, Words, did_you_mean};
use crate::size;
use std::io;
use std::ops::Range;
use std::path::Path;

/// A file that a description names by its path.
pub(crate) struct Named<'a> {
    /// The kind of the file, for messages.
    pub(crate) what: &'static str,
    pub(crate) path: &'a Path,
    /// The place in the description that names it.
    pub(crate) span: &'a Range<usize>,
}

impl Named<'_> {
    /// Returns what `read` returns. If the file does not exist, the remedy suggests one of the
    /// names that are `known` in its place, or another file of its folder.
    pub(crate) fn read<T>(
        &self,
        report: &mut Report,
        read: fn(&Path) -> io::Result<T>,
        known: impl FnOnce() -> Vec<String>,
    ) -> Option<T> {
        self.read_or_make(report, read, known, None)
    }

    /// The same of a file that a command of ours makes.
    pub(crate) fn read_or_make<T>(
        &self,
        report: &mut Report,
        read: fn(&Path) -> io::Result<T>,
        known: impl FnOnce() -> Vec<String>,
        command: Option<&str>,
    ) -> Option<T> {
        let error = match read(self.path) {
            Ok(found) => return Some(found),
            Err(error) => error,
        };
        let folder = report.path.parent().unwrap_or(Path::new(""));
        let written = self.path.strip_prefix(folder).unwrap_or(self.path);
        let text = written.to_string_lossy();
        let missing = error.kind() == io::ErrorKind::NotFound;
        let mut why = format!("{}: {error}", self.path.display());
        if missing && text.contains(':') {
            why = format!("\"{text}\" is no name that is known, and no file: {why}");
        }
        let mut candidates = known();
        candidates.extend(beside(folder, written));
        let meant = did_you_mean(&text, &candidates).filter(|_| missing);
        let remedy = match (meant, command.filter(|_| missing)) {
            (Some(meant), _) => format!("{meant} A path counts from the description's folder"),
            (None, Some(command)) => {
                let path = self.path.display();
                format!(
                    "`{command} {path}` makes one; or mend the path, which counts from the description's folder"
                )
            }
            (None, None) => "mend the path; it counts from the description's folder".to_owned(),
        };
        let what = format!("the {} cannot be read", self.what);
        report.refuse(self.span, Words::new(what, why, remedy));
        None
    }
}

/// The files in the folder of `written`, a path relative to `folder`, as such paths.
fn beside(folder: &Path, written: &Path) -> Vec<String> {
    let parent = written.parent().unwrap_or(Path::new(""));
    let entries = std::fs::read_dir(folder.join(parent).join(".")).into_iter();
    let files = entries.flatten().flatten().filter(|entry| {
        let kind = entry.file_type();
        kind.is_ok_and(|kind| !kind.is_dir())
    });
    let paths = files.map(|entry| parent.join(entry.file_name()));
    paths
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

/// The largest size of a kernel's or firmware's file in bytes. Larger files are not read.
const LARGEST: u64 = 512 << 20;

/// Reads a file. A device or a pipe may have no end, and is no image.
pub(crate) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    if length(path)? > LARGEST {
        let text = format!("it has more than {}", size::show(LARGEST));
        return Err(io::Error::other(text));
    }
    std::fs::read(path)
}

/// The size of a file in bytes.
pub(crate) fn length(path: &Path) -> io::Result<u64> {
    let data = std::fs::metadata(path)?;
    if data.is_file() {
        std::fs::File::open(path).map(|_| data.len())
    } else {
        Err(io::Error::other("it is no file"))
    }
}
