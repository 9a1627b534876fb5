//! A program of Debian's with the libraries it needs, for a guest's initramfs.
//!
//! A package depends on more than its programs need to start: graphics drivers behind a library
//! that only loads them when something is drawn, data, configuration tools. So the programs
//! themselves are examined: each names the libraries that it cannot start without (ELF,
//! `DT_NEEDED`). A package is fetched only where such a library is missing, from the dependencies
//! of the packages so far.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use crate::apt::Package;
use crate::cache::Resolved;
use crate::store::Store;

/// Folders of a package that its programs do not need.
const LEFT_OUT: [&str; 7] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/doc-base",
    "usr/share/bash-completion",
];

/// The C library. It opens the library below by itself when a thread is cancelled (glibc,
/// nptl/pthread_cancel.c), which no header shows.
const C_LIBRARY: &str = "libc.so.6";
const UNWINDER: &str = "libgcc_s.so.1";

/// A number that is raised by changes to a folder that do not change its packages.
const GENERATION: u32 = 3;

/// The reference under which the cache remembers `package` with its libraries.
pub fn reference(package: &str) -> String {
    format!("runnable{GENERATION}:{package}")
}

impl Store {
    /// A folder with `package` (`name:arch`) and the libraries that its programs need, each under
    /// its own path.
    pub fn runnable(&self, package: &str) -> Result<PathBuf> {
        let reference = reference(package);
        if let Some(found) = self.cached(&reference) {
            return Ok(self.cache.path(found.path));
        }
        let _lock = self.cache.lock()?;
        if let Some(found) = self.cached(&reference) {
            return Ok(self.cache.path(found.path));
        }
        let resolved = self.make_runnable(package)?;
        self.cache.remember(&reference, &resolved)?;
        Ok(self.cache.path(resolved.path))
    }

    fn make_runnable(&self, name: &str) -> Result<Resolved> {
        let (apt, arch) = (self.apt()?, architecture(name)?);
        let main = apt.candidate(name)?;
        let fetched = self.fetch(&main)?;
        let mut search = LibrarySearch::of(&main, self.cache.path(&fetched.path))?;
        while let Some(missing) = search.missing() {
            let candidate = search.next_candidate(&missing).with_context(|| {
                format!("{missing} is in none of the packages that {name} depends on")
            })?;
            // A name that only other packages provide has no entry of its own.
            let Ok(package) = apt.candidate(&format!("{candidate}:{arch}")) else {
                continue;
            };
            let fetched = self.fetch(&package)?;
            search.add(&package, &self.cache.path(&fetched.path))?;
        }
        let folder = self.cache.temporary()?;
        let tree = folder.path().join("tree");
        search.copy(&tree)?;
        let path = PathBuf::from("runnable").join(main.folder());
        self.cache.publish(&tree, &path)?;
        Ok(Resolved::of(&main, path))
    }
}

fn architecture(name: &str) -> Result<&str> {
    let (_, arch) = name
        .split_once(':')
        .with_context(|| format!("{name} names no architecture: write {name}:arm64"))?;
    Ok(arch)
}

/// The state of the search for libraries.
struct LibrarySearch {
    /// The package itself, all of which goes in.
    main: PathBuf,
    /// The libraries that something needs.
    needed: BTreeSet<String>,
    /// Where the libraries of the packages so far are: package, and path in it. The loader has two
    /// places, of which programs name the one that is a link.
    libraries: BTreeMap<String, Vec<(PathBuf, PathBuf)>>,
    /// The dependencies of the packages so far that were not examined yet.
    candidates: Vec<String>,
    /// The packages that were examined.
    seen: BTreeSet<String>,
}

impl LibrarySearch {
    fn of(package: &Package, tree: PathBuf) -> Result<Self> {
        let mut search = Self {
            main: tree.clone(),
            needed: BTreeSet::new(),
            libraries: BTreeMap::new(),
            candidates: Vec::new(),
            seen: BTreeSet::from([package.name.clone()]),
        };
        for path in files_below(&tree)? {
            if !path.is_symlink() {
                search.needed.extend(needs(&fs::read(&path)?));
            }
        }
        search.add(package, &tree)?;
        Ok(search)
    }

    /// A library that is needed and was not found.
    fn missing(&self) -> Option<String> {
        let there = |name: &&String| !self.libraries.contains_key(*name);
        self.needed.iter().find(there).cloned()
    }

    /// The next package to examine for `library`: first those with a similar name.
    fn next_candidate(&mut self, library: &str) -> Option<String> {
        let stem = library.split(".so").next().unwrap_or(library);
        let stem = stem.to_lowercase();
        let place = |fits: &dyn Fn(&str) -> bool| {
            let mut names = self.candidates.iter();
            names.position(|name| fits(name))
        };
        // The loader belongs to the C library. Compilers and interpreters, which some packages
        // depend on too, are large and rarely have what is missing.
        let loader = stem.starts_with(LOADER);
        let at = place(&|name| name.starts_with(&stem) || (loader && name == "libc6"))
            .or_else(|| place(&|name| name.starts_with("lib") && !name.ends_with("-dev")))
            .or_else(|| place(&|_| true))?;
        Some(self.candidates.remove(at))
    }

    /// Notes the libraries and the dependencies of `package`, which is unpacked in `tree`.
    fn add(&mut self, package: &Package, tree: &Path) -> Result<()> {
        for path in files_below(tree)? {
            let inside = path.strip_prefix(tree)?.to_owned();
            if (is_searched(&inside) || is_private(&inside))
                && let Some(name) = inside.file_name().and_then(|name| name.to_str())
            {
                let place = (tree.to_owned(), inside.clone());
                let places = self.libraries.entry(name.to_owned()).or_default();
                // A program that names a library means the public one, if there is one.
                if is_private(&inside) {
                    places.push(place)
                } else {
                    places.insert(0, place)
                }
            }
        }
        for name in package.dependencies() {
            if self.seen.insert(name.to_owned()) {
                self.candidates.push(name.to_owned());
            }
        }
        self.add_indirect_needs()
    }

    /// Adds the libraries that the found ones need themselves.
    fn add_indirect_needs(&mut self) -> Result<()> {
        let mut open: Vec<_> = self.needed.iter().cloned().collect();
        while let Some(name) = open.pop() {
            let Some((tree, inside)) = self.libraries.get(&name).and_then(|all| all.first()) else {
                continue;
            };
            let mut more = needs(&fs::read(tree.join(inside))?);
            more.extend((name == C_LIBRARY).then(|| UNWINDER.to_owned()));
            let new = more
                .into_iter()
                .filter(|name| self.needed.insert(name.clone()));
            open.extend(new);
        }
        Ok(())
    }

    /// Puts the package and the libraries into `to`.
    fn copy(&self, to: &Path) -> Result<()> {
        for path in files_below(&self.main)? {
            let inside = path.strip_prefix(&self.main)?;
            if !LEFT_OUT.iter().any(|folder| inside.starts_with(folder)) {
                copy(&self.main, inside, to)?;
            }
        }
        let found = self
            .needed
            .iter()
            .filter_map(|name| self.libraries.get(name));
        for (tree, inside) in found.flatten() {
            copy(tree, inside, to)?;
            // libz.so.1 is a link to libz.so.1.2.13 beside it.
            if let Ok(target) = fs::read_link(tree.join(inside)) {
                copy(tree, &inside.with_file_name(target), to)?;
            }
        }
        Ok(())
    }
}

/// The prefix of the loader's file name, on any architecture; programs look for it in `lib`.
const LOADER: &str = "ld-linux";

/// Programs from `tree`, which [`Store::runnable`] made, as files for an initramfs: each under the
/// name given with it, and the libraries that only these need.
pub fn programs(tree: &Path, wanted: &[(&str, &str)]) -> Result<Vec<(String, Vec<u8>)>> {
    let mut libraries = BTreeMap::new();
    for path in files_below(tree)? {
        if is_searched(path.strip_prefix(tree)?)
            && let Some(name) = path.file_name()
        {
            libraries.insert(name.to_string_lossy().into_owned(), path.clone());
        }
    }
    let read = |path: &Path| fs::read(path).with_context(|| format!("no {}", path.display()));
    let (mut files, mut open, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (from, to) in wanted {
        let bytes = read(&tree.join(from))?;
        open.extend(needs(&bytes));
        files.push(((*to).to_owned(), bytes));
    }
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let path = libraries.get(&name);
        let bytes = read(path.with_context(|| format!("{name} is missing"))?)?;
        open.extend(needs(&bytes));
        open.extend((name == C_LIBRARY).then(|| UNWINDER.to_owned()));
        let inside = path.and_then(|path| path.strip_prefix(tree).ok());
        files.push((place_of(&name, inside.unwrap_or(Path::new(""))), bytes));
    }
    Ok(files)
}

/// Where a file system without a link from `lib` to `usr/lib` has the library `name`, which is at
/// `inside` in its package.
fn place_of(name: &str, inside: &Path) -> String {
    let folder = inside.parent().unwrap_or(Path::new(""));
    let folder = folder.strip_prefix("usr").unwrap_or(folder);
    if name.starts_with(LOADER) {
        format!("lib/{name}")
    } else {
        format!("{}/{name}", folder.display())
    }
}

/// Whether the dynamic loader searches this file's folder by itself (ld.so(8), and Debian's folder
/// for the architecture).
fn is_searched(inside: &Path) -> bool {
    let folder = inside.parent().unwrap_or(Path::new(""));
    let folder = folder.strip_prefix("usr").unwrap_or(folder);
    let mut parts = folder.iter().map(|part| part.to_string_lossy());
    let lib = parts.next().is_some_and(|part| part == "lib");
    let triplet = parts.next();
    lib && triplet.is_none_or(|part| part.contains("-linux-gnu")) && parts.next().is_none()
}

/// Whether this file is in a folder of its own package beside those libraries, or in that folder's
/// own `lib` for the architecture (as Xen's are). The package's programs name that folder
/// (`DT_RUNPATH`), as systemd's do.
fn is_private(inside: &Path) -> bool {
    let Some(folder) = inside.parent() else {
        return false;
    };
    let is_triplet = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default();
        name.to_string_lossy().contains("-linux-gnu")
    };
    let own = folder.parent().filter(|lib| lib.ends_with("lib"));
    let own = own.and_then(Path::parent).filter(|_| is_triplet(folder));
    let folder = own.unwrap_or(folder);
    !is_triplet(folder) && is_searched(folder)
}

/// Every file and link below `dir`, sorted.
pub fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Copies a file or a link to its own path below `to`, unless it is there.
fn copy(from: &Path, inside: &Path, to: &Path) -> Result<()> {
    let (source, target) = (from.join(inside), to.join(inside));
    if target.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::read_link(&source) {
        Ok(link) => std::os::unix::fs::symlink(link, &target)?,
        Err(_) => drop(fs::copy(&source, &target)?),
    }
    Ok(())
}

/// The names of the libraries that an ELF file cannot start without, its loader among them. Other
/// files need none.
fn needs(bytes: &[u8]) -> Vec<String> {
    let found = match object::FileKind::parse(bytes) {
        Ok(object::FileKind::Elf32) => {
            needs_of::<object::elf::FileHeader32<object::Endianness>>(bytes)
        }
        Ok(object::FileKind::Elf64) => needs_of::<FileHeader64<object::Endianness>>(bytes),
        _ => return Vec::new(),
    };
    found.unwrap_or_default()
}

fn needs_of<Header: FileHeader>(bytes: &[u8]) -> Result<Vec<String>> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    let mut names = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == PT_INTERP {
            let Ok(path) = segment.data(endian, bytes) else {
                bail!("a segment lies outside the file")
            };
            let path = String::from_utf8_lossy(path);
            let name = path.trim_end_matches('\0').rsplit('/').next();
            names.extend(name.map(str::to_owned));
        }
    }
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else {
        return Ok(names);
    };
    let strings = sections.strings(endian, bytes, link)?;
    for entry in entries {
        if entry.tag(endian) == DT_NEEDED {
            let name = entry.string(endian, strings)?;
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_looked_for_where_the_loader_looks() {
        for path in [
            "lib/ld-linux-aarch64.so.1",
            "usr/lib/aarch64-linux-gnu/libz.so.1",
            "usr/lib/libx.so",
        ] {
            assert!(is_searched(Path::new(path)), "{path}");
        }
        for path in [
            "usr/lib/aarch64-linux-gnu/gconv/UTF-7.so",
            "usr/lib/apparmor/x.so",
            "usr/bin/stress-ng",
            "etc/lib.so",
        ] {
            assert!(!is_searched(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_package_s_own_folder_of_libraries_is_known() {
        let private = |path| is_private(Path::new(path));
        assert!(private(
            "lib/aarch64-linux-gnu/systemd/libsystemd-shared-252.so"
        ));
        assert!(private("usr/lib/systemd/libsystemd-core-252.so"));
        assert!(private(
            "usr/lib/xen-4.17/lib/aarch64-linux-gnu/libxenfsimage.so.4.17"
        ));
        assert!(!private("usr/lib/xen-4.17/lib/libx.so"));
        assert!(!private("usr/lib/aarch64-linux-gnu/libz.so.1"));
        assert!(!private("lib/ld-linux-aarch64.so.1"));
        assert!(!private("usr/share/systemd/x.so"));
    }

    #[test]
    fn libraries_stay_in_their_folder_and_the_loader_has_its_own() {
        let place = |name: &str, folder: &str| place_of(name, &Path::new(folder).join(name));
        let (arm64, armhf) = ("usr/lib/aarch64-linux-gnu", "lib/arm-linux-gnueabihf");
        assert_eq!(place("libc.so.6", arm64), "lib/aarch64-linux-gnu/libc.so.6");
        assert_eq!(
            place("libc.so.6", armhf),
            "lib/arm-linux-gnueabihf/libc.so.6"
        );
        assert_eq!(
            place("ld-linux-armhf.so.3", armhf),
            "lib/ld-linux-armhf.so.3"
        );
        assert_eq!(
            place("ld-linux-aarch64.so.1", "lib"),
            "lib/ld-linux-aarch64.so.1"
        );
    }

    #[test]
    fn this_program_needs_the_c_library() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let names = needs(&own);
        assert!(names.iter().any(|name| name == C_LIBRARY), "{names:?}");
        assert!(
            names.iter().any(|name| name.starts_with("ld-")),
            "{names:?}"
        );
        assert_eq!(needs(b"#!/bin/sh\n"), [] as [&str; 0]);
    }

    fn package(depends: &str) -> Package {
        let text = || "x".to_owned();
        Package {
            name: "main".into(),
            version: text(),
            architecture: text(),
            depends: depends.into(),
            sha256: text(),
            size: 1,
        }
    }

    #[test]
    fn packages_that_are_called_like_the_library_come_first() {
        let dir = tempfile::tempdir().unwrap();
        let package = package("libc6 (>= 2.36), libjpeg62-turbo (>= 1.3), zlib1g:any | libz");
        let mut search = LibrarySearch::of(&package, dir.path().to_owned()).unwrap();
        assert_eq!(
            search.next_candidate("libjpeg.so.62").unwrap(),
            "libjpeg62-turbo"
        );
        assert_eq!(search.next_candidate("libm.so.6").unwrap(), "libc6");
        assert_eq!(search.next_candidate("libz.so.1").unwrap(), "libz");
        assert_eq!(search.next_candidate("libz.so.1").unwrap(), "zlib1g");
        assert_eq!(search.next_candidate("libz.so.1"), None);
        let package = self::package("gcc, perl, libx-dev, libx2, libc6");
        let mut search = LibrarySearch::of(&package, dir.path().to_owned()).unwrap();
        let found: Vec<_> = [
            "ld-linux-aarch64.so.1",
            "libq.so.1",
            "libq.so.1",
            "libq.so.1",
        ]
        .iter()
        .filter_map(|name| search.next_candidate(name))
        .collect();
        assert_eq!(found, ["libc6", "libx2", "gcc", "perl"]);
    }

    #[test]
    fn what_is_copied_is_what_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for name in [
            "usr/bin/run",
            "usr/share/doc/run/copyright",
            "usr/lib/libz.so.1.2",
        ] {
            let path = from.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        std::os::unix::fs::symlink("libz.so.1.2", from.join("usr/lib/libz.so.1")).unwrap();
        let search = LibrarySearch::of(&package(""), from).unwrap();
        search.copy(&to).unwrap();
        let found = files_below(&to).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(&to).unwrap())
            .collect();
        let wanted = ["usr/bin/run", "usr/lib/libz.so.1", "usr/lib/libz.so.1.2"];
        assert_eq!(names, wanted.map(Path::new));
    }
}
