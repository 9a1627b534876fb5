//! What is in a directory, and what is in a file.

use super::wire::{Reader, Writer};
use super::{Directory, files};
use rustix::fs::{FileType, RawDir, SeekFrom, seek};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Bits of a file's type in a qid.
const A_DIRECTORY: u8 = 0x80;
const A_LINK: u8 = 0x02;
/// Types of entries (readdir(3): DT_FIFO and so on).
const TYPES: [(FileType, u8); 7] = [
    (FileType::Fifo, 1),
    (FileType::CharacterDevice, 2),
    (FileType::Directory, 4),
    (FileType::BlockDevice, 6),
    (FileType::RegularFile, 8),
    (FileType::Symlink, 10),
    (FileType::Socket, 12),
];

/// The 13 bytes by which a client knows a file: its type, a version (none: clients keep nothing), its number in the file system.
pub(super) fn add_qid(to: &mut Writer, kind: FileType, number: u64) {
    let kind = match kind {
        FileType::Directory => A_DIRECTORY,
        FileType::Symlink => A_LINK,
        _ => 0,
    };
    to.byte(kind).word(0).long(number);
}

impl Directory {
    /// As many entries from a place on as the answer has room for.
    pub(super) fn list(
        &self,
        from: &mut Reader<'_>,
        to: &mut Writer,
        room: usize,
    ) -> Result<(), Errno> {
        let (number, offset, count) = (from.word()?, from.long()?, from.word()?);
        let room = room.saturating_sub(4).min(count as usize);
        let own = files::stat(std::os::fd::AsFd::as_fd(&self.fid(number)?.file))?;
        let open = self.opened(number)?;
        if i64::try_from(offset).is_err() {
            return Err(Errno::INVAL);
        }
        seek(open, SeekFrom::Start(offset))?;
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut entries = RawDir::new(open, &mut buffer);
        let mut all = Writer::default();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            // A qid, a place, a type and a name.
            if all.0.len() + 13 + 8 + 1 + 2 + name.len() > room {
                break;
            }
            let kind = entry.file_type();
            // What is above is not told of.
            let inode = if name == b".." {
                own.stx_ino
            } else {
                entry.ino()
            };
            add_qid(&mut all, kind, inode);
            let of = TYPES.iter().find(|(other, _)| *other == kind);
            all.long(entry.next_entry_cookie());
            all.byte(of.map_or(0, |(_, number)| *number)).text(name);
        }
        to.word(all.0.len() as u32).bytes(&all.0);
        Ok(())
    }

    pub(super) fn read(
        &self,
        from: &mut Reader<'_>,
        to: &mut Writer,
        room: usize,
    ) -> Result<(), Errno> {
        let (number, offset, count) = (from.word()?, from.long()?, from.word()?);
        let room = room.saturating_sub(4).min(count as usize);
        let mut bytes = vec![0; room];
        let read = rustix::io::pread(self.opened(number)?, &mut bytes[..], offset)?;
        to.word(read as u32)
            .bytes(bytes.get(..read).unwrap_or_default());
        Ok(())
    }

    pub(super) fn write(&self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (number, offset, count) = (from.word()?, from.long()?, from.word()?);
        let bytes = from.bytes(count as usize)?;
        let written = rustix::io::pwrite(self.opened(number)?, bytes, offset)?;
        to.word(written as u32);
        Ok(())
    }
}
