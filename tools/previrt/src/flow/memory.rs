//! The bytes of an image at their addresses.

use crate::bytes::{half, word};
use crate::sweep::fetch;
use hanok_decode::aarch32::{Encoding, Isa};

/// An image: its bytes, the first of which is at `base`.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// The image's bytes.
    pub bytes: &'a [u8],
    /// The address of the first byte.
    pub base: u32,
}

impl Memory<'_> {
    /// The offset of the byte at `address`, if the image has it.
    pub fn offset(&self, address: u32) -> Option<usize> {
        let offset = address.checked_sub(self.base)? as usize;
        (offset < self.bytes.len()).then_some(offset)
    }

    /// The address of the byte at `offset`.
    pub const fn address(&self, offset: usize) -> u32 {
        self.base.wrapping_add(offset as u32)
    }

    /// The word at `address`.
    pub fn word(&self, address: u32) -> Option<u32> {
        word(self.bytes, self.offset(address)?)
    }

    /// The halfword at `address`.
    pub fn half(&self, address: u32) -> Option<u16> {
        half(self.bytes, self.offset(address)?)
    }

    /// The instruction at `address`.
    pub fn fetch(&self, address: u32, isa: Isa) -> Option<Encoding> {
        fetch(self.bytes, self.offset(address)?, isa)
    }
}
