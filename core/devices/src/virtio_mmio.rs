//! Transports of virtio over MMIO with no device behind them.
//!
//! The virtual platform has 32 of them, and a driver reads each. A transport without a device shows
//! a valid magic value and the device id 0, which the standard tells a driver to ignore silently
//! (virtio 1.2, 4.2.2.2).
//!
//! The version is 2, the only one in the standard. QEMU's default is 1, the legacy interface, for
//! guests older than the standard. Such a guest ignores an empty transport with either version. A
//! driver that knows only version 2 may report an error for version 1 (4.2.2.2: it "MAY report an
//! error"), and 2 is what a transport with a device will show.

use crate::device::{Model, World};
use crate::lanes::read_words;
use crate::{Access, Unknown};
use hanok_types::{Width, platform};

const MAGIC_VALUE: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE_ID: u64 = 0x008;
const VENDOR_ID: u64 = 0x00c;

/// "virt", little-endian.
pub(crate) const MAGIC: u32 = 0x7472_6976;
/// QEMU's subsystem vendor id, which drivers print and no driver checks.
pub(crate) const QEMU: u32 = 0x554d_4551;

/// All transports without a device. Their only state is the counter.
#[derive(Clone, Debug, Default)]
pub struct EmptyTransports {
    unknown: Unknown,
}

impl EmptyTransports {
    /// Transports that have not been accessed yet.
    pub const fn new() -> Self {
        Self {
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// Reads the register at `offset` of any transport.
    pub fn read(&mut self, offset: u64, width: Width) -> u64 {
        read_words(offset, width, |offset| self.register(offset))
    }

    /// Writes to any transport: the write is ignored and counted.
    pub fn write(&mut self) {
        self.unknown.write();
    }

    /// The counts of accesses to registers that none of them has.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    fn register(&mut self, offset: u64) -> u32 {
        match offset {
            MAGIC_VALUE => MAGIC,
            VERSION => 2,
            DEVICE_ID => 0,
            VENDOR_ID => QEMU,
            _ => self.unknown.read(),
        }
    }
}

impl Model for EmptyTransports {
    fn access(&mut self, offset: u64, access: Access, _world: &mut impl World) -> u64 {
        if access.write {
            self.write();
            return 0;
        }
        self.read(offset, access.width)
    }

    fn stride(&self) -> Option<u64> {
        Some(platform::VIRTIO_STRIDE)
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_finds_no_device() {
        let mut transports = EmptyTransports::new();
        assert_eq!(transports.read(0, Width::Word), 0x7472_6976);
        assert_eq!(transports.read(4, Width::Double), 2);
        assert_eq!(transports.read(0xc, Width::Word), 0x554d_4551);
        assert_eq!(transports.unknown(), Unknown::default());
    }

    #[test]
    fn the_rest_reads_as_zero_and_is_counted() {
        let mut transports = EmptyTransports::new();
        transports.write();
        for offset in 0x10..0x200 {
            assert_eq!(transports.read(offset, Width::Word), 0);
        }
        assert_eq!(transports.unknown().reads, 0x1f0);
        assert_eq!(transports.unknown().writes, 1);
    }
}
