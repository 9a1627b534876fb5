//! Code that is made, in a buffer of a fixed size.

use crate::Refused;
use core::fmt;

/// The most bytes of a slot.
pub const CAPACITY: usize = 384;

/// Instructions as they stand in memory, from an address on. Instructions are little-endian
/// whatever the byte order of data is (DDI 0406C A3.3.1).
#[derive(Clone, PartialEq, Eq)]
pub struct Code {
    bytes: [u8; CAPACITY],
    len: usize,
    start: u64,
    count: u32,
    overrun: bool,
}

impl Code {
    /// No instructions yet; the first one will stand at `start`.
    pub(crate) const fn at(start: u64) -> Self {
        Self {
            bytes: [0; CAPACITY],
            len: 0,
            start,
            count: 0,
            overrun: false,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// The bytes as words. A last halfword alone, which only T32 code can have, is left out.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        let (words, _) = self.bytes().as_chunks();
        words.iter().map(|word| u32::from_le_bytes(*word))
    }

    /// The address of the first byte.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The address behind the last byte.
    pub const fn here(&self) -> u64 {
        self.start.wrapping_add(self.len as u64)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.count += 1;
        let end = self.len + bytes.len();
        match self.bytes.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.overrun = true,
        }
    }

    /// Adds an A64 or A32 word, or data.
    pub(crate) fn word(&mut self, word: u32) {
        self.push(&word.to_le_bytes());
    }

    /// Adds a T32 instruction of one halfword.
    pub(crate) fn half(&mut self, half: u16) {
        self.push(&half.to_le_bytes());
    }

    /// Adds a T32 instruction of two halfwords; the upper half comes first.
    pub(crate) fn wide(&mut self, both: u32) {
        self.word(both.rotate_left(16));
    }

    /// Writes over what stands at the byte `offset`.
    pub(crate) fn replace<const N: usize>(&mut self, offset: usize, bytes: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(offset..offset + N) {
            place.copy_from_slice(&bytes);
        }
    }

    /// The number of bytes.
    pub(crate) const fn size(&self) -> usize {
        self.len
    }

    /// The number of instructions and words of data.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// The code, unless it was too long.
    pub(crate) fn finish(self) -> Result<Self, Refused> {
        if self.overrun {
            Err(Refused::TooLong)
        } else {
            Ok(self)
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}: ", self.start)?;
        f.debug_list().entries(self.words()).finish()
    }
}
