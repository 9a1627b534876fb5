//! The cache of downloads, outside the repository: `$HANOK_CACHE`, else
//! `$XDG_CACHE_HOME/hanok`, else `~/.cache/hanok`.
//!
//! What is in it under its final name is whole: everything is made in a temporary folder
//! beside and renamed. One process at a time changes it, by a lock on a file. What a
//! reference such as `debian:6.1` was resolved to is kept in `resolved.toml`, so that a
//! second run needs no network.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// What a reference was resolved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolved {
    /// The package's name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The SHA-256 of its file, from the signed index.
    pub sha256: String,
    /// Its folder in the cache, relative to the cache.
    pub path: PathBuf,
}

/// The cache's folder.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// The cache of this user, made if it is not there.
    pub fn open() -> Result<Self> {
        let dir = place()?;
        fs::create_dir_all(dir.join("tmp"))
            .with_context(|| format!("cannot make the cache folder {}", dir.display()))?;
        Ok(Self {
            dir: dir.canonicalize()?,
        })
    }

    /// `name` inside the cache.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// A folder for what is not whole yet, on the same file system; removed when dropped.
    pub fn temporary(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(self.dir.join("tmp"))?)
    }

    /// Moves a finished file or folder to its final name, in place of what was there.
    pub fn publish(&self, from: &Path, name: impl AsRef<Path>) -> Result<PathBuf> {
        let to = self.path(name);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if to.is_dir() {
            let old = self.temporary()?;
            fs::rename(&to, old.path().join("old"))?;
        }
        fs::rename(from, &to)
            .with_context(|| format!("cannot move {} into the cache", to.display()))?;
        Ok(to)
    }

    /// Waits until no other process changes the cache; free again when the file is dropped.
    /// What an interrupted one left half done goes: only who holds the lock makes such files.
    pub fn lock(&self) -> Result<File> {
        use rustix::fs::{FlockOperation, flock};
        let file = File::create(self.path("lock"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("Waiting for another hanok that is filling the cache ...");
            flock(&file, FlockOperation::LockExclusive)?;
        }
        for left in fs::read_dir(self.path("tmp"))? {
            fs::remove_dir_all(left?.path())?;
        }
        Ok(file)
    }

    /// What `reference` was resolved to, if that is still in the cache.
    pub fn resolved(&self, reference: &str) -> Option<Resolved> {
        let found = self.stamps().remove(reference)?;
        self.path(&found.path).exists().then_some(found)
    }

    /// Remembers what `reference` was resolved to.
    pub fn remember(&self, reference: &str, resolved: &Resolved) -> Result<()> {
        let mut stamps = self.stamps();
        stamps.insert(reference.to_owned(), resolved.clone());
        let folder = self.temporary()?;
        let draft = folder.path().join("resolved.toml");
        fs::write(&draft, toml::to_string(&stamps)?)?;
        self.publish(&draft, "resolved.toml").map(drop)
    }

    /// The folders of everything that is resolved.
    pub fn all_resolved(&self) -> Vec<PathBuf> {
        self.stamps()
            .into_values()
            .map(|resolved| resolved.path)
            .collect()
    }

    /// What is in `folder`, relative to the cache.
    pub fn entries(&self, folder: &str) -> Result<Vec<PathBuf>> {
        let dir = self.path(folder);
        if !dir.exists() {
            return Ok(Vec::new());
        }
        let names = fs::read_dir(dir)?.map(|entry| Ok(Path::new(folder).join(entry?.file_name())));
        names.collect()
    }

    /// A damaged stamp file counts as an empty one: what it named is resolved anew.
    fn stamps(&self) -> BTreeMap<String, Resolved> {
        let text = fs::read_to_string(self.path("resolved.toml")).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }
}

/// A short name for `text`: the start of its SHA-256.
pub fn digest(text: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(text);
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}

fn place() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = set("HANOK_CACHE") {
        return Ok(dir);
    }
    if let Some(dir) = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("hanok"));
    }
    match set("HOME") {
        Some(home) => Ok(home.join(".cache/hanok")),
        None => bail!("neither HANOK_CACHE nor HOME is set: say where downloads are kept"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        let cache = Cache {
            dir: dir.path().to_owned(),
        };
        (dir, cache)
    }

    fn resolved(path: &str) -> Resolved {
        let text = || "x".to_owned();
        Resolved {
            package: text(),
            version: text(),
            sha256: text(),
            path: path.into(),
        }
    }

    #[test]
    fn what_is_remembered_counts_while_its_folder_is_there() {
        let (_dir, cache) = cache();
        cache
            .remember("debian:6.1", &resolved("packages/k"))
            .unwrap();
        assert_eq!(cache.resolved("debian:6.1"), None);
        fs::create_dir_all(cache.path("packages/k")).unwrap();
        assert_eq!(cache.resolved("debian:6.1"), Some(resolved("packages/k")));
        fs::write(cache.path("resolved.toml"), "damaged [").unwrap();
        assert_eq!(cache.resolved("debian:6.1"), None);
    }

    #[test]
    fn what_is_half_done_is_swept_away_and_what_is_there_replaced() {
        let (_dir, cache) = cache();
        fs::create_dir(cache.path("tmp/left")).unwrap();
        let _lock = cache.lock().unwrap();
        assert!(!cache.path("tmp/left").exists());
        for content in ["old", "new"] {
            let draft = cache.temporary().unwrap();
            fs::create_dir(draft.path().join("tree")).unwrap();
            fs::write(draft.path().join("tree/file"), content).unwrap();
            cache
                .publish(&draft.path().join("tree"), "qemu/10")
                .unwrap();
        }
        assert_eq!(
            fs::read_to_string(cache.path("qemu/10/file")).unwrap(),
            "new"
        );
    }
}
