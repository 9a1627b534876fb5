//! A directory of this VM's, which a client mounts (virtio 1.2, 5.9 has the device's number alone; Linux: net/9p/trans_virtio.c). It speaks
//! 9P2000.L, as far as Linux' v9fs uses it.
//!
//! - A client names files by numbers (fids) that it chooses; each stands for a file that is held open here, so that nothing that is renamed meanwhile
//!   leads a client astray. It has [`MOST_FIDS`] of them.
//! - Permissions are the client's kernel's to check, who is root here; owners and modes are those that it says. What
//!   it may change at all is what `readonly` says.
//! - The directory has one client, or several that only read. So locks are the client's kernel's own, and all are granted here.
//! - What was opened is forgotten as the program ends: then each fid is unknown (EBADF), and nothing is done twice.
//! - Each request's work is bounded by the bytes of its slot.

mod files;
mod list;
mod operations;
mod wire;

use crate::memory::Memory;
use crate::pieces::{length, read_all, write_all};
use crate::ring::{Broken, DIRECTORY, MESSAGE, Offer, Piece, Request, Ring};
use crate::words::Words;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use wire::{HEADER, Reader, Writer, kind, message};

/// The fewest that a client may want: Linux' own limit.
const FEWEST: u32 = 4096;
/// The most files that a client names at a time.
pub const MOST_FIDS: usize = 4096;
/// The feature that the configuration has the name by which it is mounted.
const TAG: u64 = 1;
const PROTOCOL: &[u8] = b"9P2000.L";

/// A file that the client has a number for.
#[derive(Debug)]
struct Fid {
    /// The file, to be named.
    file: OwnedFd,
    /// The same, once it is opened.
    open: Option<OwnedFd>,
    /// Who the client says it is for.
    user: u32,
}

/// A directory and its client.
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    tag: String,
    read_only: bool,
    most: u32,
    fids: HashMap<u32, Fid>,
    words: Words,
}

impl Directory {
    /// The directory at `path`, which a client mounts by `tag`.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(path: &Path, tag: &str, read_only: bool, words: Words) -> io::Result<Self> {
        Ok(Self {
            root: files::root(path)?,
            tag: tag.to_owned(),
            read_only,
            most: MESSAGE,
            fids: HashMap::new(),
            words,
        })
    }

    /// What is offered to the client: the length of the tag in 16 bits, and the tag.
    pub fn offer(&self) -> Offer {
        let mut bytes = Writer::default();
        bytes.text(self.tag.as_bytes());
        let word = |bytes: &[u8]| {
            let mut word = [0; 4];
            word.iter_mut()
                .zip(bytes)
                .for_each(|(to, byte)| *to = *byte);
            u32::from_le_bytes(word)
        };
        Offer {
            features: TAG,
            config: bytes.0.chunks(4).map(word).collect(),
        }
    }

    /// Answers the requests that there are, as many as a queue has places at most. Returns how many they were.
    ///
    /// # Errors
    /// The queue is not as the hypervisor makes it.
    pub fn serve(&mut self, ring: &mut impl Ring) -> Result<usize, Broken> {
        let memory = ring.memory();
        for count in 0..usize::from(DIRECTORY.places) {
            let Some(request) = ring.next()? else {
                return Ok(count);
            };
            let written = self.carry_out(&memory, &request).unwrap_or_else(|| {
                self.words
                    .say("a request is none of 9P, or larger than what was offered");
                0
            });
            ring.answer(request.head, written)?;
        }
        Ok(DIRECTORY.places.into())
    }

    /// Does what a request wants. Returns how many bytes of it are written; `None` if it is no request.
    fn carry_out(&mut self, memory: &Memory, request: &Request) -> Option<u32> {
        let room = length(&request.write)?;
        let asked = read_all(memory, &request.read)?;
        let answer = self.answer(&asked, room)?;
        let mut left = answer.len();
        let cut = |piece: &Piece| {
            let len = left.min(piece.len as usize);
            left -= len;
            Piece {
                at: piece.at,
                len: len as u32,
            }
        };
        let pieces: Vec<Piece> = request.write.iter().map(cut).collect();
        let pieces: Vec<Piece> = pieces.into_iter().filter(|piece| piece.len > 0).collect();
        write_all(memory, &pieces, &answer)?;
        Some(answer.len() as u32)
    }

    /// The answer to a message, of `room` bytes at the most; `None` if there can be none.
    pub fn answer(&mut self, asked: &[u8], room: usize) -> Option<Vec<u8>> {
        let mut reader = Reader(asked);
        let (size, kind, tag) = (
            reader.word().ok()?,
            reader.byte().ok()?,
            reader.half().ok()?,
        );
        let room = room.min(self.most as usize);
        // What is behind the message is no part of it.
        let content = usize::try_from(size).ok()?.checked_sub(HEADER)?;
        reader.0 = reader.0.get(..content)?;
        let mut writer = Writer::default();
        let done = self.request(kind, &mut reader, &mut writer, room.saturating_sub(HEADER));
        let fits = |()| {
            let fits = HEADER + writer.0.len() <= room;
            fits.then_some(()).ok_or(Errno::MSGSIZE)
        };
        let answer = match done.and_then(fits) {
            Ok(()) => message(kind + 1, tag, &writer.0),
            Err(error) => {
                let number = error.raw_os_error() as u32;
                message(kind::ERROR, tag, &number.to_le_bytes())
            }
        };
        (answer.len() <= room).then_some(answer)
    }

    fn request(
        &mut self,
        kind: u8,
        from: &mut Reader<'_>,
        to: &mut Writer,
        room: usize,
    ) -> Result<(), Errno> {
        let changes = matches!(
            kind,
            kind::CREATE
                | kind::SYMLINK
                | kind::MKNOD
                | kind::SETATTR
                | kind::LINK
                | kind::MKDIR
                | kind::RENAME
                | kind::UNLINK
                | kind::WRITE
        );
        if changes && self.read_only {
            return Err(Errno::ROFS);
        }
        match kind {
            kind::VERSION => self.version(from, to),
            kind::ATTACH => self.attach(from, to),
            kind::WALK => self.walk(from, to),
            kind::CLUNK => self.clunk(from),
            // Nothing is under way when the next request is looked at.
            kind::FLUSH => Ok(()),
            kind::STATFS => self.statfs(from, to),
            kind::OPEN => self.open_file(from, to),
            kind::CREATE => self.create(from, to),
            kind::SYMLINK => self.symlink(from, to),
            kind::MKNOD => self.mknod(from, to),
            kind::MKDIR => self.mkdir(from, to),
            kind::LINK => self.link(from),
            kind::RENAME => self.rename(from),
            kind::UNLINK => self.unlink(from),
            kind::READLINK => self.readlink(from, to),
            kind::GETATTR => self.getattr(from, to),
            kind::SETATTR => self.setattr(from),
            kind::READDIR => self.list(from, to, room),
            kind::READ => self.read(from, to, room),
            kind::WRITE => self.write(from, to),
            kind::FSYNC => self.fsync(from),
            kind::LOCK => self.lock(from, to),
            kind::GETLOCK => self.getlock(from, to),
            // The number is not the file's any more, in any case.
            kind::REMOVE => self.clunk(from).and(Err(Errno::OPNOTSUPP)),
            // Linux does without: extended attributes, renames without a directory, authentication.
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// What it has a number for.
    fn fid(&self, number: u32) -> Result<&Fid, Errno> {
        self.fids.get(&number).ok_or(Errno::BADF)
    }

    /// The opened file that it has a number for.
    fn opened(&self, number: u32) -> Result<&OwnedFd, Errno> {
        self.fid(number)?.open.as_ref().ok_or(Errno::BADF)
    }

    /// Gives a file a number that none has.
    fn add(&mut self, number: u32, file: OwnedFd, user: u32) -> Result<(), Errno> {
        if self.fids.contains_key(&number) || number == u32::MAX {
            return Err(Errno::INVAL);
        }
        if self.fids.len() >= MOST_FIDS {
            return Err(Errno::NFILE);
        }
        let open = None;
        self.fids.insert(number, Fid { file, open, user });
        Ok(())
    }

    /// A session begins: whatever was named before is forgotten.
    fn version(&mut self, from: &mut Reader<'_>, to: &mut Writer) -> Result<(), Errno> {
        let (wanted, protocol) = (from.word()?, from.text()?);
        if wanted < FEWEST {
            return Err(Errno::INVAL);
        }
        self.fids.clear();
        self.most = wanted.min(MESSAGE);
        let known = protocol == PROTOCOL;
        let protocol = if known { PROTOCOL } else { b"unknown" };
        to.word(self.most).text(protocol);
        Ok(())
    }

    fn clunk(&mut self, from: &mut Reader<'_>) -> Result<(), Errno> {
        let removed = self.fids.remove(&from.word()?);
        removed.map(drop).ok_or(Errno::BADF)
    }
}
