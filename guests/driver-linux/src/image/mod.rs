//! What is on a disk: a file of the driver VM's.
//!
//! An image that may be written is locked (flock(2)), so that one disk has it; several may read one. How it is made up is said by the
//! description, and never found out from what is in it: that is the client's.

mod qcow2;
mod raw;

use rustix::fs::{FlockOperation, flock};
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// How the content lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Byte by byte; also a block device.
    Raw,
    /// QEMU's format.
    Qcow2,
}

impl Format {
    /// The format of this word in the device tree.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "raw" => Some(Self::Raw),
            "qcow2" => Some(Self::Qcow2),
            _ => None,
        }
    }
}

/// What is on a disk. Places and lengths are in bytes, and inside of it.
pub trait Image: Debug + Send {
    /// The bytes of it.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `bytes` from `place` on.
    ///
    /// # Errors
    /// Not all of it can be read.
    fn read(&mut self, bytes: &mut [u8], place: u64) -> io::Result<()>;

    /// Writes `bytes` from `place` on. They are safe after [`Self::sync`].
    ///
    /// # Errors
    /// Not all of it can be written; a part of it may be.
    fn write(&mut self, bytes: &[u8], place: u64) -> io::Result<()>;

    /// Has `bytes` bytes from `place` on read as zeroes, and frees what the file needs for them where that is possible.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn zero(&mut self, place: u64, bytes: u64) -> io::Result<()>;

    /// Has all that was written survive a reset of the machine.
    ///
    /// # Errors
    /// It may not survive.
    fn sync(&mut self) -> io::Result<()>;
}

/// Opens and locks an image.
///
/// # Errors
/// The file is not there, is no image of this format, or is used by another disk.
pub fn open(path: &Path, format: Format, read_only: bool) -> io::Result<Box<dyn Image>> {
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    if format == Format::Qcow2 && !read_only {
        qcow2::in_order(&mut options);
    }
    let file = options.open(path)?;
    let operation = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    flock(&file, operation).map_err(|_| io::Error::other("it is another disk's already"))?;
    Ok(match format {
        Format::Raw => Box::new(raw::Raw::new(file)?),
        Format::Qcow2 => Box::new(qcow2::Qcow2::open(file, read_only)?),
    })
}

/// Makes a new qcow2 image of so many bytes, of which nothing is used yet.
///
/// # Errors
/// The file is there already, or cannot be made.
pub fn create(path: &Path, bytes: u64) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).open(path)?;
    qcow2::create(file, bytes)
}

/// The bytes of a size as people write it: a number of bytes, or of K, M, G or T, which are powers of 1024. It is a whole number of sectors.
pub fn size(text: &str) -> Option<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(*unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| plain)?;
    let bytes = number.checked_mul(1 << shift)?;
    (bytes > 0 && bytes.is_multiple_of(512)).then_some(bytes)
}

/// Writes zeroes, where a file cannot have them otherwise.
fn write_zeroes(file: &File, place: u64, bytes: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let zeroes = vec![0; 1 << 16];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(zeroes.len() as u64);
        file.write_all_at(&zeroes[..part as usize], place + done)?;
        done += part;
    }
    Ok(())
}
