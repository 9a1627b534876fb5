//! Temporary folders that are removed however the command ends: when dropped, on a signal
//! (`signals.rs`), and, if the process was killed, when the next one makes such a folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary folder, which is removed when it is dropped.
pub struct Scratch {
    path: PathBuf,
    /// The lock shows other processes that this one is alive.
    _lock: File,
}

impl Scratch {
    /// Makes a folder in `parent` whose name begins with `prefix`. Folders of such names that this
    /// user's dead processes left there are removed first.
    pub fn new(parent: &Path, prefix: &str) -> Result<Self> {
        let what = || format!("cannot make a folder in {}", parent.display());
        fs::create_dir_all(parent).with_context(what)?;
        sweep(parent, prefix);
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
        let path = made.with_context(what)?.keep();
        all(|all| all.push(path.clone()));
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        all(|all| all.retain(|path| *path != self.path));
    }
}

/// Removes every folder that this process made and has not dropped.
pub fn remove_all() {
    let paths = all(std::mem::take);
    for path in paths {
        let _ = fs::remove_dir_all(path);
    }
}

fn all<T>(with: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    with(&mut ALL.lock().unwrap_or_else(PoisonError::into_inner))
}

fn sweep(parent: &Path, prefix: &str) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with(prefix) && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether it is a folder of this user that no living process has locked. A folder that was just
/// made, and is not locked yet, does not count.
fn is_left(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(data) = fs::symlink_metadata(path) else {
        return false;
    };
    let ours = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
    let age = data.modified().ok().and_then(|time| time.elapsed().ok());
    let old = age.is_some_and(|age| age.as_secs() >= 60);
    let held = File::open(path)
        .is_ok_and(|folder| flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err());
    ours && old && !held
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn age(path: &Path) {
        let before = SystemTime::now() - Duration::from_secs(3600);
        File::open(path).unwrap().set_modified(before).unwrap();
    }

    #[test]
    fn a_folder_goes_and_what_dead_processes_left_goes_too() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["x-left", "other", "x-new"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        age(&parent.path().join("x-left"));
        age(&parent.path().join("other"));
        let first = Scratch::new(parent.path(), "x-").unwrap();
        age(first.path());
        let second = Scratch::new(parent.path(), "x-").unwrap();
        let there = |name: &str| parent.path().join(name).exists();
        assert!(!there("x-left") && there("other") && there("x-new"));
        assert!(first.path().exists(), "its process lives");
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
