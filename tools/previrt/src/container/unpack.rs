//! The compressions that a kernel, or a module of one, may come in.
//!
//! Libraries do the work. This module knows how the Linux build packs (scripts/Makefile.lib and
//! scripts/xz_wrap.sh of its sources). For LZ4 it writes the "legacy" frame, while the `lz4`
//! program by itself writes the newer frame. For LZO it writes lzop's file, for LZMA the old
//! `.lzma` file. To all streams but gzip's and the xz of a module it appends the size of the
//! content, which is no part of the stream.

use super::lzop;
use crate::bytes::{has, word};
use crate::refusal::{Refusal, Result};
use std::io::Read;

/// Content above this size is taken to be damaged or malicious. A kernel for 32-bit ARM has to lie
/// within the 32 MB that its branches reach, with its data beside.
pub const MAX_CONTENT: usize = 192 << 20;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// The .xz file format.
    Xz,
    /// The .lzma file format.
    Lzma,
    /// LZ4's legacy frame.
    Lz4,
    /// LZ4's frame.
    #[serde(rename = "lz4-frame")]
    Lz4Frame,
    /// lzop's file.
    Lzo,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// All compression formats.
    pub const ALL: [Self; 7] = [
        Self::Gzip,
        Self::Xz,
        Self::Lzma,
        Self::Lz4,
        Self::Lz4Frame,
        Self::Lzo,
        Self::Zstd,
    ];

    /// The format's name, as in error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Lz4 => "lz4",
            Self::Lz4Frame => "lz4-frame",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
        }
    }

    /// The first bytes of a stream. For `.lzma` these are the usual properties (lc 3, lp 0, pb 2)
    /// and the lower half of the dictionary's size, which is a power of two from 64 KiB on.
    pub const fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => &[0x1f, 0x8b, 0x08],
            Self::Xz => &[0xfd, b'7', b'z', b'X', b'Z', 0],
            Self::Lzma => &[0x5d, 0, 0],
            Self::Lz4 => &[0x02, 0x21, 0x4c, 0x18],
            Self::Lz4Frame => &[0x04, 0x22, 0x4d, 0x18],
            Self::Lzo => lzop::MAGIC,
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// The format of a file that begins with a compressed stream.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| has(bytes, 0, kind.magic()))
    }

    /// Unpacks the stream that `bytes` begin with. Bytes behind the stream are ignored, except for
    /// LZ4, whose stream has no mark of its end: there `bytes` must end with the stream.
    pub fn unpack(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let content = match self {
            Self::Gzip => read(flate2::read::GzDecoder::new(bytes)),
            Self::Xz => read(lzma_rust2::XzReader::new_mem_limit(bytes, false, MEMORY_KB)),
            Self::Lzma => lzma(bytes),
            Self::Lz4 => lz4_legacy(bytes),
            Self::Lz4Frame => read(lz4_flex::frame::FrameDecoder::new(bytes)),
            Self::Lzo => lzop::unpack(bytes, MAX_CONTENT),
            Self::Zstd => zstd(bytes),
        };
        content.ok_or_else(|| {
            Refusal::damaged(format!(
                "its {} data does not unpack to its end",
                self.name()
            ))
        })
    }
}

/// The largest memory that a decoder's dictionary may take, in KiB.
const MEMORY_KB: u32 = 160 << 10;

fn read(decoder: impl Read) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let len = decoder
        .take(MAX_CONTENT as u64 + 1)
        .read_to_end(&mut content)
        .ok()?;
    (len <= MAX_CONTENT).then_some(content)
}

fn lzma(bytes: &[u8]) -> Option<Vec<u8>> {
    read(lzma_rust2::LzmaReader::new_mem_limit(bytes, MEMORY_KB, None).ok()?)
}

fn zstd(bytes: &[u8]) -> Option<Vec<u8>> {
    read(ruzstd::decoding::StreamingDecoder::new(bytes).ok()?)
}

/// The legacy frame (LZ4 Frame Format, "Legacy frame"): blocks, each with its packed length,
/// that unpack to 8 MiB but for the last.
fn lz4_legacy(bytes: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let mut content = Vec::new();
    let mut at = Compression::Lz4.magic().len();
    while let Some(len) = word(bytes, at) {
        let start = at.checked_add(4)?;
        at = start.checked_add(len as usize)?;
        let block = lz4_flex::block::decompress(bytes.get(start..at)?, BLOCK).ok()?;
        content.extend_from_slice(&block);
        if content.len() > MAX_CONTENT {
            return None;
        }
    }
    (at == bytes.len()).then_some(content)
}
