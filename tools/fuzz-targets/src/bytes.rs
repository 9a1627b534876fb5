//! Takes numbers from the front of an input; returns zeros once the input is used up.

use hanok_types::{GicVersion, Width};

/// The rest of an input.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    /// Returns whether the input is used up.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let (now, later) = self.0.split_at(self.0.len().min(N));
        array[..now.len()].copy_from_slice(now);
        self.0 = later;
        array
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 != 0
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn double(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(crate) fn width(&mut self) -> Width {
        Width::from_log2(self.byte())
    }

    pub(crate) fn gic_version(&mut self) -> GicVersion {
        if self.flag() {
            GicVersion::V2
        } else {
            GicVersion::V3
        }
    }

    /// A number of any size: small ones, multiples of a page and the extremes are more frequent
    /// than in a uniform distribution.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() % 6 {
            0 => self.byte().into(),
            1 => self.half().into(),
            2 => u64::from(self.half()) << 12,
            3 => u64::from(self.half()) << 21,
            4 => u64::MAX - u64::from(self.byte()),
            _ => self.double(),
        }
    }
}
