//! What is done to files and directories by name.

use super::list::add_qid;
use super::wire::{Reader, Writer};
use super::{Directory, Fid, files};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawMode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// The most names of a walk (intro(5): MAXWELEM).
const MOST_NAMES: u16 = 16;
/// Flags by which a client opens a file: those of Linux' generic ABI (include/net/9p/9p.h, P9_DOTL_*), whatever machine it is.
mod flag {
    pub const ACCESS: u32 = 0o3;
    pub const TRUNCATE: u32 = 0o1000;
    pub const DSYNC: u32 = 0o10000;
    pub const SYNC: u32 = 0o4_000_000;
}
/// The flag of an unlink that is to remove a directory.
const A_DIRECTORY: u32 = 0x200;
/// What is set (include/net/9p/9p.h, P9_ATTR_*).
mod set {
    pub const MODE: u32 = 1;
    pub const OWNER: u32 = 2;
    pub const GROUP: u32 = 4;
    pub const SIZE: u32 = 8;
    pub const READ: u32 = 0x10;
    pub const CHANGED: u32 = 0x20;
    pub const READ_AT: u32 = 0x80;
    pub const CHANGED_AT: u32 = 0x100;
}
/// All that is told of a file (P9_GETATTR_BASIC).
const BASIC: u64 = 0x7ff;
/// Answers to a lock: it is granted; and that there is none.
const GRANTED: u8 = 0;
const UNLOCKED: u8 = 2;

impl Directory {
    pub(super) fn attach(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, _authenticated) = (from.word()?, from.word()?);
        let (_user, _what, user) = (from.text()?, from.text()?, from.word()?);
        let root = self.root.try_clone();
        let root = root.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        qid(to, &root)?;
        self.add(number, root, user)
    }

    /// A number for what a path leads to, or for the same file if it has no names.
    pub(super) fn walk(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, new, count) = (from.word()?, from.word()?, from.half()?);
        if count > MOST_NAMES {
            return Err(Errno::INVAL);
        }
        let fid = self.fid(number)?;
        let user = fid.user;
        let clone = fid.file.try_clone();
        let mut file = clone.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let mut found = Writer::default();
        let mut steps = 0;
        for step in 0..count {
            let next = from.name().and_then(|name| files::find(&file, name));
            let next = next.and_then(|next| qid(&mut found, &next).map(|()| next));
            match next {
                Ok(next) => file = next,
                // Who gets a part of the way is told how far.
                Err(_) if step > 0 => break,
                Err(error) => return Err(error),
            }
            steps += 1;
        }
        if steps == count {
            if new == number {
                self.fids.remove(&number);
            }
            self.add(new, file, user)?;
        }
        to.half(steps).bytes(&found.0);
        Ok(())
    }

    pub(super) fn open_file(
        &mut self,
        from: &mut Reader<'_>,
        to: &mut Writer,
    ) -> Result<(), Errno> {
        let (number, wanted) = (from.word()?, from.word()?);
        let writes = wanted & flag::ACCESS != 0 || wanted & flag::TRUNCATE != 0;
        if writes && self.read_only {
            return Err(Errno::ROFS);
        }
        let fid = self.fids.get_mut(&number).ok_or(Errno::BADF)?;
        if fid.open.is_some() {
            return Err(Errno::INVAL);
        }
        let open = files::open(fid.file.as_fd(), flags_of(wanted)?)?;
        qid(to, &fid.file)?;
        fid.open = Some(open);
        // The client reads and writes as much as a message has.
        to.word(0);
        Ok(())
    }

    /// Makes a file, which the directory's number is for from then on.
    pub(super) fn create(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, name, wanted) = (from.word()?, from.name()?, from.word()?);
        let (mode, group) = (from.word()?, from.word()?);
        let fid = self.fids.get_mut(&number).ok_or(Errno::BADF)?;
        if fid.open.is_some() {
            return Err(Errno::INVAL);
        }
        let open = files::create(&fid.file, name, flags_of(wanted)?)?;
        let file = files::find(&fid.file, name)?;
        files::own(file.as_fd(), (Some(fid.user), Some(group)), Some(mode))?;
        qid(to, &file)?;
        fid.file = file;
        fid.open = Some(open);
        to.word(0);
        Ok(())
    }

    pub(super) fn symlink(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, name, target, group) =
            (from.word()?, from.name()?, from.text()?, from.word()?);
        let fid = self.fid(number)?;
        rustix::fs::symlinkat(target, &fid.file, name)?;
        made(fid, name, (group, None), to)
    }

    pub(super) fn mknod(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, name, mode) = (from.word()?, from.name()?, from.word()?);
        let (_major, _minor, group) = (from.word()?, from.word()?, from.word()?);
        let kind = FileType::from_raw_mode(mode as RawMode);
        // A device's node would be one of this VM's devices for whoever opens it here.
        if !matches!(
            kind,
            FileType::RegularFile | FileType::Fifo | FileType::Socket
        ) {
            return Err(Errno::PERM);
        }
        let fid = self.fid(number)?;
        rustix::fs::mknodat(&fid.file, name, kind, Mode::RUSR | Mode::WUSR, 0)?;
        made(fid, name, (group, Some(mode)), to)
    }

    pub(super) fn mkdir(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, name, mode, group) = (from.word()?, from.name()?, from.word()?, from.word()?);
        let fid = self.fid(number)?;
        rustix::fs::mkdirat(&fid.file, name, Mode::RWXU)?;
        made(fid, name, (group, Some(mode)), to)
    }

    pub(super) fn link(&self, from: &mut Reader<'_>) -> Result<(), Errno> {
        let (directory, file, name) = (from.word()?, from.word()?, from.name()?);
        let (directory, file) = (&self.fid(directory)?.file, &self.fid(file)?.file);
        rustix::fs::linkat(file, c"", directory, name, AtFlags::EMPTY_PATH)
    }

    pub(super) fn rename(&self, from: &mut Reader<'_>) -> Result<(), Errno> {
        let (one, old) = (from.word()?, from.name()?);
        let (other, new) = (from.word()?, from.name()?);
        rustix::fs::renameat(&self.fid(one)?.file, old, &self.fid(other)?.file, new)
    }

    pub(super) fn unlink(&self, from: &mut Reader<'_>) -> Result<(), Errno> {
        let (number, name, flags) = (from.word()?, from.name()?, from.word()?);
        let flags = match flags & A_DIRECTORY {
            0 => AtFlags::empty(),
            _ => AtFlags::REMOVEDIR,
        };
        rustix::fs::unlinkat(&self.fid(number)?.file, name, flags)
    }

    pub(super) fn readlink(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let file = &self.fid(from.word()?)?.file;
        let target = rustix::fs::readlinkat(file, c"", Vec::new())?;
        to.text(target.to_bytes());
        Ok(())
    }

    pub(super) fn getattr(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let file = &self.fid(from.word()?)?.file;
        let stat = files::stat(file.as_fd())?;
        to.long(BASIC);
        add_qid(to, files::kind_of(&stat), stat.stx_ino);
        to.word(stat.stx_mode.into())
            .word(stat.stx_uid)
            .word(stat.stx_gid)
            .long(stat.stx_nlink.into())
            // No device of this VM's is one of the client's.
            .long(0)
            .long(stat.stx_size)
            .long(stat.stx_blksize.into())
            .long(stat.stx_blocks);
        for time in [
            stat.stx_atime,
            stat.stx_mtime,
            stat.stx_ctime,
            stat.stx_btime,
        ] {
            to.long(time.tv_sec as u64).long(time.tv_nsec.into());
        }
        to.long(0).long(0);
        Ok(())
    }

    pub(super) fn setattr(&self, from: &mut Reader<'_>) -> Result<(), Errno> {
        let file = self.fid(from.word()?)?.file.as_fd();
        let what = from.word()?;
        let (mode, owner, group) = (from.word()?, from.word()?, from.word()?);
        let size = from.long()?;
        let mut time = |now: u32, at: u32| {
            let (seconds, rest) = (from.long()?, from.long()?);
            let (tv_sec, tv_nsec) = match (what & now != 0, what & at != 0) {
                (false, _) => (0, UTIME_OMIT),
                (true, false) => (0, UTIME_NOW),
                (true, true) if rest < 1_000_000_000 => (seconds as i64, rest as _),
                _ => return Err(Errno::INVAL),
            };
            Ok(Timespec { tv_sec, tv_nsec })
        };
        let times = Timestamps {
            last_access: time(set::READ, set::READ_AT)?,
            last_modification: time(set::CHANGED, set::CHANGED_AT)?,
        };
        let of = |bit: u32, value: u32| (what & bit != 0).then_some(value);
        if let Some(size) = (what & set::SIZE != 0).then_some(size) {
            files::cut(file, size)?;
        }
        let owners = (of(set::OWNER, owner), of(set::GROUP, group));
        files::own(file, owners, of(set::MODE, mode))?;
        if what & (set::READ | set::CHANGED) != 0 {
            files::date(file, &times)?;
        }
        Ok(())
    }

    pub(super) fn statfs(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let stat = rustix::fs::fstatfs(&self.fid(from.word()?)?.file)?;
        to.word(stat.f_type as u32)
            .word(stat.f_bsize as u32)
            .long(stat.f_blocks as u64)
            .long(stat.f_bfree as u64)
            .long(stat.f_bavail as u64)
            .long(stat.f_files as u64)
            .long(stat.f_ffree as u64)
            .long(0)
            .word(stat.f_namelen as u32);
        Ok(())
    }

    pub(super) fn fsync(&self, from: &mut Reader<'_>) -> Result<(), Errno> {
        rustix::fs::fsync(self.opened(from.word()?)?)
    }

    pub(super) fn lock(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        self.fid(from.word()?)?;
        to.byte(GRANTED);
        Ok(())
    }

    pub(super) fn getlock(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        self.fid(from.word()?)?;
        let _kind = from.byte()?;
        let (start, length, process) = (from.long()?, from.long()?, from.word()?);
        to.byte(UNLOCKED).long(start).long(length).word(process);
        to.text(from.text()?);
        Ok(())
    }
}

/// Adds what a client knows a file by.
fn qid(to: &mut Writer, file: &OwnedFd) -> Result<(), Errno> {
    let stat = files::stat(file.as_fd())?;
    add_qid(to, files::kind_of(&stat), stat.stx_ino);
    Ok(())
}

/// What was made in the directory gets its owner and its mode.
fn made(
    fid: &Fid,
    name: &[u8],
    (group, mode): (u32, Option<u32>),
    to: &mut Writer,
) -> Result<(), Errno> {
    let file = files::find(&fid.file, name)?;
    files::own(file.as_fd(), (Some(fid.user), Some(group)), mode)?;
    qid(to, &file)
}

fn flags_of(wanted: u32) -> Result<OFlags, Errno> {
    let mut flags = match wanted & flag::ACCESS {
        0 => OFlags::RDONLY,
        1 => OFlags::WRONLY,
        2 => OFlags::RDWR,
        _ => return Err(Errno::INVAL),
    };
    if wanted & flag::TRUNCATE != 0 {
        flags |= OFlags::TRUNC;
    }
    if wanted & (flag::DSYNC | flag::SYNC) != 0 {
        flags |= OFlags::DSYNC;
    }
    Ok(flags)
}
