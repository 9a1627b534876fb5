//! Where the image of a system that is run is kept, between builds and between runs.
//!
//! Each description, identified by its path and its text, and each set of changes to it has its own
//! image, so that nobody boots another description's guest. A process that runs an image holds a
//! lock on it. Images of a description's former text are removed when no process runs them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hanok_system::Description;
use rustix::fs::{FlockOperation, flock};

use crate::overrides::Overrides;
use hanok_artifacts::cache;
use hanok_artifacts::cargo::Variant;
use hanok_base::repo;

/// The place of an image.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    /// The prefix of the names of all images of this description.
    family: String,
}

/// An image that is not removed while this lock is held.
#[derive(Debug)]
pub struct ImageLock(#[expect(dead_code, reason = "it holds the lock")] File);

impl Image {
    /// The place for `system`, changed by `overrides`, with this variant of the hypervisor.
    pub fn of(
        root: &Path,
        system: &Description,
        overrides: &Overrides,
        variant: Variant,
    ) -> Result<Self> {
        let folder = repo::target_dir(root).join("hanok/images");
        let changes = format!("{overrides:?} {:?} {variant:?}", system.terminal);
        Self::in_folder(folder, &system.path, &changes)
    }

    fn in_folder(folder: PathBuf, description: &Path, changes: &str) -> Result<Self> {
        let what = || format!("cannot read the description {}", description.display());
        let place = description.canonicalize().with_context(what)?;
        let mut words = Vec::new();
        File::open(&place)
            .and_then(|mut file| file.read_to_end(&mut words))
            .with_context(what)?;
        let name = description
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let stem = name.strip_suffix(".toml").unwrap_or(&name);
        let family = format!(
            "{stem}-{}-",
            cache::digest(place.as_os_str().as_encoded_bytes())
        );
        words.extend(format!("\n{changes}").bytes());
        let path = folder.join(format!("{family}{}.img", cache::digest(&words)));
        Ok(Self { path, family })
    }

    /// The image's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the image, and removes those of former text that no process runs.
    pub fn write(&self, bytes: &[u8]) -> Result<ImageLock> {
        repo::write_whole(&self.path, bytes)?;
        let file = File::open(&self.path)
            .with_context(|| format!("cannot read {}", self.path.display()))?;
        flock(&file, FlockOperation::LockShared)?;
        self.sweep();
        Ok(ImageLock(file))
    }

    fn sweep(&self) {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let ours = entry
                .file_name()
                .to_string_lossy()
                .starts_with(&self.family);
            if ours && entry.path() != self.path && !is_run(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether a process runs the image. An image that cannot be examined counts as being run.
fn is_run(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(folder: &Path, name: &str, text: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn two_systems_never_share_an_image() {
        let dir = tempfile::tempdir().unwrap();
        let of = |path: &Path, changes: &str| {
            let images = dir.path().join("images");
            let image = Image::in_folder(images, path, changes).unwrap();
            image.path
        };
        let one = description(&dir.path().join("a"), "x.toml", "1");
        let two = description(&dir.path().join("b"), "x.toml", "1");
        assert_ne!(of(&one, ""), of(&two, ""), "another folder");
        assert_ne!(of(&one, ""), of(&one, "cores"), "another option");
        let around = dir.path().join("b/../a/x.toml");
        assert_eq!(of(&one, ""), of(&around, ""), "the same file");
        let before = of(&one, "");
        description(&dir.path().join("a"), "x.toml", "2");
        assert_ne!(of(&one, ""), before, "other words");
        let dotted = description(dir.path(), "a.b.toml", "1");
        let name = of(&dotted, "");
        let name = name.file_name().unwrap().to_string_lossy();
        assert!(name.starts_with("a.b-") && name.ends_with(".img"), "{name}");
    }

    #[test]
    fn former_images_go_but_those_that_are_run() {
        let dir = tempfile::tempdir().unwrap();
        let path = description(dir.path(), "x.toml", "0");
        let folder = dir.path().join("images");
        let other = description(&dir.path().join("y"), "x.toml", "0");
        let image = |path: &Path| Image::in_folder(folder.clone(), path, "").unwrap();
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            image(&path).write(text.as_bytes()).unwrap()
        };
        let images = || fs::read_dir(&folder).unwrap().count();
        image(&other).write(b"other").unwrap();
        let run = write("1");
        drop(write("2"));
        assert_eq!(images(), 3, "another's, one that is run, and the new one");
        drop(run);
        drop(write("3"));
        assert_eq!(images(), 2);
    }
}
