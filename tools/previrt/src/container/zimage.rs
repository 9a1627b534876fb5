//! The kernel inside a zImage.
//!
//! A zImage is a program that unpacks the kernel behind it. Its header (Documentation/arch/arm of
//! Linux, and arch/arm/boot/compressed/head.S) has a magic number, start and end, and since 4.15 a
//! table that says where the packed kernel ends. At that end stands the unpacked size. Older
//! zImages and damaged ones lack the table. So the packed kernel's start is found by the magic
//! numbers of the compressions in any case, and a stream counts only if it unpacks to its end and
//! to that size.

use super::unpack::Compression;
use crate::bytes::{has, word};
use crate::refusal::{Refusal, Result};

const MAGIC: u32 = 0x016f_2818;
const ENDIANNESS: u32 = 0x0403_0201;
const TABLE: u32 = 0x4545_4545;
/// The tag of that table: "ZSLK", from the last byte to the first.
const TABLE_TAG: u32 = 0x5a53_4c4b;
/// The largest number of places that are tried as a stream's start. A file with more is no
/// accident.
const MAX_TRIES: usize = 64;

/// The kernel that a zImage contains.
#[derive(Debug, PartialEq, Eq)]
pub struct Payload {
    /// The compression in which the zImage has it.
    pub compression: Compression,
    /// The unpacked raw Image.
    pub image: Vec<u8>,
}

/// Whether `bytes` are a zImage, of either endianness.
pub fn is_zimage(bytes: &[u8]) -> bool {
    word(bytes, 0x24).is_some_and(|magic| magic == MAGIC || magic.swap_bytes() == MAGIC)
}

/// Unpacks the kernel of a zImage.
pub fn unpack(bytes: &[u8]) -> Result<Payload> {
    if word(bytes, 0x24) != Some(MAGIC)
        || word(bytes, 0x30).is_some_and(|order| order.swap_bytes() == ENDIANNESS)
    {
        return Err(Refusal::new(
            "this zImage is big-endian",
            "a VM's CPUs, devices and device tree start little-endian",
            "build the kernel with CONFIG_CPU_LITTLE_ENDIAN=y",
        ));
    }
    let known = payload_end(bytes);
    let end = known.or_else(|| header_end(bytes)).unwrap_or(bytes.len());
    let body = bytes.get(..end).unwrap_or(bytes);
    candidates(body)
        .take(MAX_TRIES)
        .find_map(|(at, compression)| attempt(body, at, compression, known.is_some()))
        .ok_or_else(|| {
            Refusal::damaged(
                "it is a zImage, and nothing in it unpacks by gzip, xz, lzma, lz4, lzo or zstd",
            )
        })
}

/// The offset at which the packed kernel ends, by the header's table.
fn payload_end(bytes: &[u8]) -> Option<usize> {
    if word(bytes, 0x34)? != TABLE {
        return None;
    }
    let table = word(bytes, 0x38)? as usize;
    if word(bytes, table.checked_add(4)?)? != TABLE_TAG {
        return None;
    }
    let size_at = word(bytes, table.checked_add(8)?)? as usize;
    size_at.checked_add(4).filter(|end| *end <= bytes.len())
}

fn header_end(bytes: &[u8]) -> Option<usize> {
    let [start, end] = [0x28, 0x2c].map(|at| word(bytes, at));
    let len = end?.checked_sub(start?)? as usize;
    (len > 0x40 && len <= bytes.len()).then_some(len)
}

/// The offsets at which a stream may start, in rising order.
fn candidates(bytes: &[u8]) -> impl Iterator<Item = (usize, Compression)> {
    (0x40..bytes.len()).filter_map(|at| {
        let byte = *bytes.get(at)?;
        // Compare the first byte of each magic number first, so that most places cost one
        // comparison.
        if !matches!(byte, 0x1f | 0xfd | 0x5d | 0x02 | 0x04 | 0x89 | 0x28) {
            return None;
        }
        let kind = Compression::of(bytes.get(at..)?)?;
        plausible(bytes, at, kind).then_some((at, kind))
    })
}

/// Whether a place that has a format's magic number may be a stream. The magic number of `.lzma` is
/// weak, so that its other fields are checked as its own tools do: the dictionary is a power of two
/// of 64 KiB to 64 MiB, and the size is unknown or below 4 GiB.
fn plausible(bytes: &[u8], at: usize, kind: Compression) -> bool {
    match kind {
        Compression::Lzma => {
            let [dictionary, low, high] = [1, 5, 9].map(|offset| word(bytes, at + offset));
            dictionary.is_some_and(|size| size.is_power_of_two() && size >> 16 != 0)
                && dictionary.is_some_and(|size| size <= 64 << 20)
                && (high == Some(0) || (low, high) == (Some(u32::MAX), Some(u32::MAX)))
        }
        Compression::Gzip => has(bytes, at + 3, &[0]) || has(bytes, at + 3, &[8]),
        _ => true,
    }
}

fn attempt(bytes: &[u8], at: usize, compression: Compression, exact: bool) -> Option<Payload> {
    let stream = bytes.get(at..)?;
    let (said, stream) = match compression {
        // Gzip's own trailer holds the size that the others have appended.
        Compression::Gzip => (None, stream),
        _ if exact => {
            let (stream, size) = stream.split_last_chunk()?;
            (Some(u32::from_le_bytes(*size)), stream)
        }
        _ => (None, stream),
    };
    let image = compression.unpack(stream).ok()?;
    let right = said.is_none_or(|said| image.len() == said as usize);
    (right && image.len() >= 0x100).then_some(Payload { compression, image })
}
