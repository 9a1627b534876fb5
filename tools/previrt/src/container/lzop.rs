//! lzop's file, in which Linux packs an LZO kernel: a header, then blocks.
//!
//! All numbers are big-endian. The header's fields and the flags are those that lzop's own
//! documentation and the kernel's decompressor agree on.

use crate::bytes::{array, has};

/// The first bytes of a file of lzop.
pub const MAGIC: &[u8] = &[0x89, b'L', b'Z', b'O', 0, 0x0d, 0x0a, 0x1a, 0x0a];

/// The largest size that a block of lzop unpacks to.
const MAX_BLOCK: usize = 64 << 20;

// Header flags: which checksums each block has, and whether the header has a filter field.
const ADLER32_UNPACKED: u32 = 1 << 0;
const ADLER32_PACKED: u32 = 1 << 1;
const CRC32_UNPACKED: u32 = 1 << 8;
const CRC32_PACKED: u32 = 1 << 9;
const FILTER: u32 = 1 << 11;

/// A reading position in the file, which only moves forward.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn word(&mut self) -> Option<u32> {
        let word = array(self.bytes, self.at).map(u32::from_be_bytes)?;
        self.at += 4;
        Some(word)
    }

    fn half(&mut self) -> Option<u16> {
        let half = array(self.bytes, self.at).map(u16::from_be_bytes)?;
        self.at += 2;
        Some(half)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

/// Unpacks a file of lzop to at most `most` bytes; `None` where it is damaged.
pub fn unpack(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut cursor = Cursor { bytes, at: 0 };
    let flags = header(&mut cursor)?;
    let mut content = Vec::new();
    loop {
        let unpacked = cursor.word()? as usize;
        if unpacked == 0 {
            return Some(content);
        }
        if unpacked > MAX_BLOCK || content.len() + unpacked > most {
            return None;
        }
        content.extend_from_slice(&block(&mut cursor, flags, unpacked)?);
    }
}

/// Skips the header and returns its flags.
fn header(cursor: &mut Cursor<'_>) -> Option<u32> {
    if !has(cursor.bytes, 0, MAGIC) {
        return None;
    }
    cursor.at = MAGIC.len();
    // From version 0.94 on the header has the version that is needed to unpack, and the level.
    let new = cursor.half()? >= 0x940;
    cursor.take(if new { 4 } else { 2 })?;
    cursor.take(if new { 2 } else { 1 })?;
    let flags = cursor.word()?;
    cursor.take(if flags & FILTER != 0 { 4 } else { 0 })?;
    // The file's mode and the time of its last change.
    cursor.take(if new { 12 } else { 8 })?;
    let name = *cursor.take(1)?.first()?;
    cursor.take(usize::from(name))?;
    cursor.word()?;
    Some(flags)
}

fn block(cursor: &mut Cursor<'_>, flags: u32, unpacked: usize) -> Option<Vec<u8>> {
    let packed = cursor.word()? as usize;
    let sums = |flag: u32| if flags & flag != 0 { 4 } else { 0 };
    cursor.take(sums(ADLER32_UNPACKED) + sums(CRC32_UNPACKED))?;
    if packed >= unpacked {
        return Some(cursor.take(unpacked)?.to_vec());
    }
    cursor.take(sums(ADLER32_PACKED) + sums(CRC32_PACKED))?;
    super::lzo1x::unpack(cursor.take(packed)?, unpacked)
}
