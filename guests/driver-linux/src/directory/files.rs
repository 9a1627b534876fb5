//! Files below a directory, none of which is reached by a path but by one name from an open directory on (openat2(2)): a name that leads
//! elsewhere, by "..", a symbolic link or another file system that is mounted there, leads nowhere.

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, ResolveFlags, Statx, StatxFlags, chownat, openat2,
    statx,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How a name is followed.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The file of this name in a directory, to be named, not to be read.
///
/// # Errors
/// Linux's.
pub fn find(directory: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, name, flags, Mode::empty(), WITHIN)
}

/// A new file in a directory, opened. It must not be there: else it could be anything, a pipe too, which never ends.
///
/// # Errors
/// Linux's.
pub fn create(directory: impl AsFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(directory, name, flags, Mode::RUSR | Mode::WUSR, WITHIN)
}

/// The same file, opened to read, to write, or both. Only regular files and directories are: what stands for a device
/// or a pipe of the client's is none of this VM's.
///
/// # Errors
/// ENXIO for other files; Linux's.
pub fn open(file: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    match kind_of(&stat(file)?) {
        FileType::RegularFile | FileType::Directory => {}
        _ => return Err(Errno::NXIO),
    }
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(path_of(file), flags, Mode::empty())
}

/// The way by which a file that is only named is reached again: the same file, whatever its path is now.
fn path_of(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// What is known of a file.
///
/// # Errors
/// Linux's.
pub fn stat(file: BorrowedFd<'_>) -> Result<Statx, Errno> {
    let all = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(file, c"", AtFlags::EMPTY_PATH, all)
}

/// The type of a file.
pub fn kind_of(stat: &Statx) -> FileType {
    FileType::from_raw_mode(RawMode::from(stat.stx_mode))
}

/// Gives a file its owner and group, as far as they are named, and then its permissions, which Linux takes away with a change of owner.
///
/// # Errors
/// Linux's.
pub fn own(
    file: BorrowedFd<'_>,
    (owner, group): (Option<u32>, Option<u32>),
    mode: Option<u32>,
) -> Result<(), Errno> {
    if owner.is_some() || group.is_some() {
        // The number of nobody means "as it is" to Linux.
        let none = |id: &u32| *id != u32::MAX;
        let owner = owner.filter(none).map(rustix::fs::Uid::from_raw);
        let group = group.filter(none).map(rustix::fs::Gid::from_raw);
        chownat(file, c"", owner, group, AtFlags::EMPTY_PATH)?;
    }
    match mode {
        Some(mode) => rustix::fs::chmod(
            path_of(file),
            Mode::from_raw_mode((mode & 0o7777) as RawMode),
        ),
        None => Ok(()),
    }
}

/// Sets the length of a regular file.
///
/// # Errors
/// EINVAL for other files; Linux's.
pub fn cut(file: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    if kind_of(&stat(file)?) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    rustix::fs::ftruncate(open(file, OFlags::WRONLY)?, size)
}

/// Sets a file's times.
///
/// # Errors
/// Linux's.
pub fn date(file: BorrowedFd<'_>, times: &rustix::fs::Timestamps) -> Result<(), Errno> {
    rustix::fs::utimensat(rustix::fs::CWD, path_of(file), times, AtFlags::empty())
}

/// The directory at a path, to be served.
///
/// # Errors
/// Linux's.
pub fn root(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}
