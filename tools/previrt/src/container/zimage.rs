//! The kernel inside a zImage.
//!
//! A zImage is a program that unpacks the kernel behind it. Its header (Documentation/arch/arm
//! of Linux, and arch/arm/boot/compressed/head.S) has a magic number, start and end, and since
//! 4.15 a table that says where the packed kernel ends: there its unpacked size stands. Older
//! ones, and damaged ones, do not say, so that its start is found by the magic numbers of the
//! compressions anyway, and a stream counts only if it unpacks to its end and to that size.

use super::unpack::Compression;
use crate::bytes::{has, word};
use crate::refusal::{Refusal, Result};

const MAGIC: u32 = 0x016f_2818;
const ENDIANNESS: u32 = 0x0403_0201;
const TABLE: u32 = 0x4545_4545;
/// The table's tag: "ZSLK" from the last byte to the first.
const TABLE_TAG: u32 = 0x5a53_4c4b;
/// More places than this that look like a stream's start are no accident.
const MAX_TRIES: usize = 64;

/// A zImage's kernel.
#[derive(Debug, PartialEq, Eq)]
pub struct Payload {
    /// How it was packed.
    pub compression: Compression,
    /// The raw Image.
    pub image: Vec<u8>,
}

/// Whether `bytes` are a zImage, of either endianness.
pub fn is_zimage(bytes: &[u8]) -> bool {
    word(bytes, 0x24).is_some_and(|magic| magic == MAGIC || magic.swap_bytes() == MAGIC)
}

/// Unpacks the kernel.
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

/// Where the packed kernel ends, by the table of the header.
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

/// All places where a stream may start, in order.
fn candidates(bytes: &[u8]) -> impl Iterator<Item = (usize, Compression)> {
    (0x40..bytes.len()).filter_map(|at| {
        let byte = *bytes.get(at)?;
        // The first bytes of the magic numbers, so that most places cost one comparison.
        if !matches!(byte, 0x1f | 0xfd | 0x5d | 0x02 | 0x04 | 0x89 | 0x28) {
            return None;
        }
        let kind = Compression::of(bytes.get(at..)?)?;
        plausible(bytes, at, kind).then_some((at, kind))
    })
}

/// `.lzma` has hardly a magic number: its dictionary is a power of two of 64 KiB to 64 MiB,
/// and its size unknown or below 4 GiB (as its own tools check it).
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
        // Gzip's own trailer is the size that the others have appended.
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
