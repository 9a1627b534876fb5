//! An image of QEMU's format, which grows as it is written to, by the crate `imago`.
//!
//! A cluster must be counted as used on the disk before a table names it, and written before it is named: else a reset leaves a cluster with
//! two owners. The crate writes in that order, but does not wait for one before it writes the next. So the file is opened with
//! O_DSYNC: each write is safe when it returns.
//!
//! A backing file or a file with the data, which the image's header may name, is refused: it could be any file of this VM.

use super::Image;
use imago::file::File as Storage;
use imago::qcow2::Qcow2 as Format;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Such an image.
#[derive(Debug)]
pub struct Qcow2(FormatAccess<Storage>);

/// Has each write to the file be safe when it returns.
pub fn in_order(options: &mut OpenOptions) {
    options.custom_flags(OFlags::DSYNC.bits() as i32);
}

/// Makes an image of so many bytes in a new file.
pub fn create(file: File, bytes: u64) -> io::Result<()> {
    let storage = Storage::try_from(file)?;
    let image = Format::<Storage>::create_builder(storage).size(bytes);
    image.create()
}

impl Qcow2 {
    /// The image in this file.
    pub fn open(file: File, read_only: bool) -> io::Result<Self> {
        let storage = Storage::try_from(file)?;
        let builder = Format::<Storage>::builder(storage).write(!read_only);
        let image = builder.open(DenyImplicitOpenGate::default())?;
        Ok(Self(FormatAccess::new(image)))
    }
}

impl Image for Qcow2 {
    fn len(&self) -> u64 {
        self.0.size()
    }

    fn read(&mut self, bytes: &mut [u8], place: u64) -> io::Result<()> {
        self.0.read(bytes, place)
    }

    fn write(&mut self, bytes: &[u8], place: u64) -> io::Result<()> {
        self.0.write(bytes, place)
    }

    fn zero(&mut self, place: u64, bytes: u64) -> io::Result<()> {
        self.0.discard_to_zero(place, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.0.sync()
    }
}
