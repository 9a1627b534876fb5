//! An image whose bytes are the disk's, or a block device.

use super::{Image, write_zeroes};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

/// Such an image.
#[derive(Debug)]
pub struct Raw {
    file: File,
    len: u64,
}

impl Raw {
    /// The image in this file.
    pub fn new(mut file: File) -> io::Result<Self> {
        // The length of a block device is only told so.
        let len = file.seek(SeekFrom::End(0))?;
        if len < 512 {
            return Err(io::Error::other("it has not even one sector"));
        }
        Ok(Self { file, len })
    }
}

impl Image for Raw {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&mut self, bytes: &mut [u8], place: u64) -> io::Result<()> {
        let read = self.file.read_exact_at(bytes, place);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the file has become shorter"),
            _ => error,
        })
    }

    fn write(&mut self, bytes: &[u8], place: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, place)
    }

    fn zero(&mut self, place: u64, bytes: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, hole, place, bytes) {
            Ok(()) => Ok(()),
            // A file system or a device that has no holes.
            Err(_) => write_zeroes(&self.file, place, bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
