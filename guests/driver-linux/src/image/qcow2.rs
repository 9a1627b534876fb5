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
use std::os::unix::fs::{FileExt, OpenOptionsExt};

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
        check(&file, read_only)?;
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

/// Fields of the header (QEMU, docs/interop/qcow2.txt), by their offsets.
mod field {
    pub const CLUSTER_BITS: usize = 20;
    pub const REFCOUNT_TABLE: usize = 48;
    pub const REFCOUNT_TABLE_CLUSTERS: usize = 56;
    pub const INCOMPATIBLE: usize = 72;
    pub const REFCOUNT_ORDER: usize = 96;
}
const HEADER: usize = 104;
const MAGIC: &[u8] = b"QFI\xfb";
/// Incompatible features: counts of clusters may be wrong; anything may be wrong.
const DIRTY: u64 = 1;
const CORRUPT: u64 = 2;
/// The largest table of references, as for QEMU.
const LARGEST_TABLE: u64 = 8 << 20;

/// Refuses what the crate would read as zeroes: a file that ends before its last cluster that is in use. And what only `qemu-img check -r` can mend.
fn check(file: &File, read_only: bool) -> io::Result<()> {
    let wrong = |why: &str| Err(io::Error::other(why.to_owned()));
    let mut header = [0; HEADER];
    let read = file.read_at(&mut header, 0)?;
    if read < 72 || !header.starts_with(MAGIC) {
        return wrong("it is no qcow2 image");
    }
    let short = |at| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let long = |at| Some(u64::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let number = |at| short(at).unwrap_or_default();
    let (features, order) = match number(MAGIC.len()) {
        2 => (0, 4),
        3 => (
            long(field::INCOMPATIBLE).unwrap_or_default(),
            number(field::REFCOUNT_ORDER),
        ),
        _ => return wrong("it is a qcow2 image of another version than 2 and 3"),
    };
    if features & CORRUPT != 0 || features & DIRTY != 0 && !read_only {
        return wrong("it was not closed, or is damaged: qemu-img check -r all may mend it");
    }
    let bits = number(field::CLUSTER_BITS);
    let bytes = u64::from(number(field::REFCOUNT_TABLE_CLUSTERS)) << bits.min(32);
    if !(9..=21).contains(&bits) || order > 6 || bytes > LARGEST_TABLE {
        return wrong("its header is damaged");
    }
    let table = long(field::REFCOUNT_TABLE).unwrap_or_default();
    let Some(last) = last_cluster(file, (table, bytes), (bits, order))? else {
        return wrong("none of its clusters is in use: it is damaged");
    };
    if file.metadata()?.len() <= last << bits {
        return wrong("its end is missing: the file is shorter than what is in use of it");
    }
    Ok(())
}

/// The number of the last cluster that is in use.
fn last_cluster(
    file: &File,
    (table, bytes): (u64, u64),
    (bits, order): (u32, u32),
) -> io::Result<Option<u64>> {
    let cut = |_| io::Error::other("its end is missing: a table of references is cut off");
    let mut entries = vec![0; bytes as usize];
    file.read_exact_at(&mut entries, table).map_err(cut)?;
    let (entries, _) = entries.as_chunks::<8>();
    // A block has a count of 2^order bits for each cluster, eight times the bytes of a cluster divided by that.
    let counts = 3 + bits - order;
    for (index, entry) in entries.iter().enumerate().rev() {
        // The low bits are reserved.
        let block = u64::from_be_bytes(*entry) & !0x1ff;
        if block == 0 {
            continue;
        }
        let mut counted = vec![0; 1 << bits];
        file.read_exact_at(&mut counted, block).map_err(cut)?;
        if let Some(byte) = counted.iter().rposition(|byte| *byte != 0) {
            // With counts of less than a byte, the last of those in it: an end that is missing is of whole clusters.
            let first = (byte as u64) << 3 >> order;
            return Ok(Some(((index as u64) << counts) + first));
        }
    }
    Ok(None)
}
