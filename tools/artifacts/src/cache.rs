//! The cache of downloads, outside the repository: `$HANOK_CACHE`, else `$XDG_CACHE_HOME/hanok`,
//! else `~/.cache/hanok`.
//!
//! Whatever has its final name in the cache is complete: it is made in a temporary folder beside,
//! and renamed. Only one process at a time changes the cache, by a lock on a file. `resolved.toml`
//! holds what each reference such as `debian:6.1` was resolved to, so that a second run needs no
//! network.
//!
//! The content of the cache is trusted, unpacked and run. So nobody else may put anything there:
//! its folders belong to the user and are writable by nobody else, and no link of another user
//! leads to them or from them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::debian::index::Package;

/// The package that a reference was resolved to.
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

impl Resolved {
    /// The entry for `package`, which is in the folder `path` of the cache.
    pub fn of(package: &Package, path: PathBuf) -> Self {
        Self {
            package: package.name.clone(),
            version: package.version.clone(),
            sha256: package.sha256.clone(),
            path,
        }
    }
}

/// The cache's folder.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens the cache of this user, and makes it if it does not exist.
    pub fn open() -> Result<Self> {
        Self::at(&place()?)
    }

    pub(crate) fn at(dir: &Path) -> Result<Self> {
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o700);
        let what = || format!("cannot make the cache folder {}", dir.display());
        no_foreign_links(dir)?;
        make.create(dir).with_context(what)?;
        let dir = dir.canonicalize()?;
        guarded(&dir)?;
        make.create(dir.join("tmp")).with_context(what)?;
        Ok(Self { dir })
    }

    /// The path of `name` inside the cache.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// A folder for incomplete files, on the same file system; it is removed when dropped.
    pub fn temporary(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(self.dir.join("tmp"))?)
    }

    /// Moves a complete file or folder to its final name, replacing what was there.
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

    /// Waits until no other process changes the cache, and locks it until the file is dropped.
    /// Removes the incomplete files of interrupted processes: only the holder of the lock makes
    /// such files.
    pub fn lock(&self) -> Result<File> {
        use rustix::fs::{FlockOperation, flock};
        let path = self.path("lock");
        let mut open = File::options();
        // Do not follow a link: the target would be truncated, or locked.
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        open.write(true).create(true).custom_flags(no_link);
        let file = open
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
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
        let data = fs::symlink_metadata(self.path(&found.path)).ok()?;
        (is_inside(&found.path) && data.is_dir()).then_some(found)
    }

    /// Stores what `reference` was resolved to.
    pub fn remember(&self, reference: &str, resolved: &Resolved) -> Result<()> {
        let mut stamps = self.stamps();
        stamps.insert(reference.to_owned(), resolved.clone());
        let folder = self.temporary()?;
        let draft = folder.path().join("resolved.toml");
        fs::write(&draft, toml::to_string(&stamps)?)?;
        self.publish(&draft, "resolved.toml").map(drop)
    }

    /// The folders of all resolved references.
    pub fn all_resolved(&self) -> Vec<PathBuf> {
        self.stamps()
            .into_values()
            .map(|resolved| resolved.path)
            .filter(|path| is_inside(path))
            .collect()
    }

    /// The paths in `folder`, relative to the cache.
    pub fn entries(&self, folder: &str) -> Result<Vec<PathBuf>> {
        let dir = self.path(folder);
        if !dir.exists() {
            return Ok(Vec::new());
        }
        let names = fs::read_dir(dir)?.map(|entry| Ok(Path::new(folder).join(entry?.file_name())));
        names.collect()
    }

    /// A damaged file counts as an empty one: its references are resolved again.
    fn stamps(&self) -> BTreeMap<String, Resolved> {
        let text = fs::read_to_string(self.path("resolved.toml")).unwrap_or_default();
        toml::from_str(&text).unwrap_or_default()
    }
}

/// Whether a path stays inside the folder that it is relative to.
fn is_inside(path: &Path) -> bool {
    let mut parts = path.components();
    parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The error about a cache that others can change.
fn refused(path: &Path, why: &str, dir: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "the cache of downloads is not safe to use: {} {why}\n  \
         why: what is in the cache is unpacked and run, and others could put something there\n  \
         fix: make it yours alone (chown, then chmod 700 {}), or name another folder by HANOK_CACHE",
        path.display(),
        dir.display()
    )
}

fn is_ours(data: &Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Refuses links on the way to `dir` that belong neither to the user nor to root.
fn no_foreign_links(dir: &Path) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    for path in dir.ancestors() {
        let Ok(data) = fs::symlink_metadata(path) else {
            continue;
        };
        if data.is_symlink() && !is_ours(&data) && data.uid() != 0 {
            return Err(refused(path, "is a link that another user made", &dir));
        }
    }
    Ok(())
}

/// Checks that `dir` and the content of its folders belong to the user, and that nobody else can
/// write there.
fn guarded(dir: &Path) -> Result<()> {
    let data = fs::symlink_metadata(dir)?;
    if !is_ours(&data) {
        return Err(refused(dir, "belongs to another user", dir));
    }
    if data.mode() & 0o022 != 0 {
        return Err(refused(dir, "can be written by others", dir));
    }
    // Where nobody else can enter, other permissions do not matter.
    let entered = data.mode() & 0o011 != 0;
    for path in entries_of(dir)? {
        let data = guarded_entry(&path, entered, dir)?;
        let below = if data.is_dir() {
            entries_of(&path)?
        } else {
            Vec::new()
        };
        for path in below {
            guarded_entry(&path, entered, dir)?;
        }
    }
    Ok(())
}

fn guarded_entry(path: &Path, entered: bool, dir: &Path) -> Result<Metadata> {
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        // Another hanok has just removed it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(fs::symlink_metadata(dir)?);
        }
        Err(error) => return Err(error.into()),
    };
    if data.is_symlink() {
        return Err(refused(path, "is a link", dir));
    }
    if !is_ours(&data) {
        return Err(refused(path, "belongs to another user", dir));
    }
    if entered && data.mode() & 0o022 != 0 {
        return Err(refused(path, "can be written by others", dir));
    }
    Ok(data)
}

fn entries_of(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", dir.display())),
    };
    entries.map(|entry| Ok(entry?.path())).collect()
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
        let cache = Cache::at(dir.path()).unwrap();
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

    fn refused(dir: &Path, word: &str) {
        let error = format!("{:#}", Cache::at(dir).unwrap_err());
        assert!(
            error.contains(word) && error.contains("HANOK_CACHE"),
            "{error}"
        );
    }

    #[test]
    fn a_cache_that_others_can_change_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (dir, cache) = cache();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(dir.path(), 0o777).unwrap();
        refused(dir.path(), "can be written by others");
        mode(dir.path(), 0o755).unwrap();
        fs::create_dir(cache.path("packages")).unwrap();
        mode(&cache.path("packages"), 0o775).unwrap();
        refused(dir.path(), "packages can be written by others");
        mode(dir.path(), 0o700).unwrap();
        Cache::at(dir.path()).unwrap();
        let victim = tempfile::NamedTempFile::new().unwrap();
        fs::write(victim.path(), "mine").unwrap();
        symlink(victim.path(), cache.path("lock")).unwrap();
        refused(dir.path(), "lock is a link");
        assert!(cache.lock().is_err(), "it is not followed either");
        assert_eq!(fs::read_to_string(victim.path()).unwrap(), "mine");
        fs::remove_file(cache.path("lock")).unwrap();
        symlink("/", cache.path("packages/k")).unwrap();
        refused(dir.path(), "packages/k is a link");
    }

    #[test]
    fn a_stamp_leads_nowhere_else() {
        let (_dir, cache) = cache();
        for path in ["/", "../", "packages/../../x"] {
            cache.remember("debian:6.1", &resolved(path)).unwrap();
            assert_eq!(cache.resolved("debian:6.1"), None, "{path}");
            assert!(cache.all_resolved().is_empty(), "{path}");
        }
    }
}
