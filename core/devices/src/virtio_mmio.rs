//! Transports of virtio over MMIO with no device behind them.
//!
//! The virtual platform has 32 slots, and a driver looks into each. A slot without a device
//! shows a valid magic value and the device id 0, which the standard tells a driver to pass
//! over in silence (virtio 1.2, 4.2.2.2).
//!
//! The version is 2, the standard's only one. QEMU's default is 1, the legacy interface,
//! kept for guests older than the standard. Such a guest passes an empty slot over for
//! either value; a driver that knows only version 2 may complain about the other
//! (4.2.2.2: it "MAY report an error"), and 2 is what a slot will show once it is filled.

use crate::Unknown;
use crate::lanes::read_words;
use hanok_types::Width;

const MAGIC_VALUE: u64 = 0x000;
const VERSION: u64 = 0x004;
const DEVICE_ID: u64 = 0x008;
const VENDOR_ID: u64 = 0x00c;

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
/// QEMU's subsystem vendor id, which drivers print and no driver checks.
const QEMU: u32 = 0x554d_4551;

/// All slots without a device: they hold no state but the counter.
#[derive(Clone, Debug, Default)]
pub struct EmptySlots {
    unknown: Unknown,
}

impl EmptySlots {
    /// Slots that nobody touched yet.
    pub const fn new() -> Self {
        Self {
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// Reads at `offset` of any empty slot.
    pub fn read(&mut self, offset: u64, width: Width) -> u64 {
        read_words(offset, width, |offset| self.register(offset))
    }

    /// Writes to any empty slot: ignored and counted.
    pub fn write(&mut self) {
        self.unknown.write();
    }

    /// How many accesses went to registers that an empty slot does not have.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_finds_no_device() {
        let mut slots = EmptySlots::new();
        assert_eq!(slots.read(0, Width::Word), 0x7472_6976);
        assert_eq!(slots.read(4, Width::Double), 2);
        assert_eq!(slots.read(0xc, Width::Word), 0x554d_4551);
        assert_eq!(slots.unknown(), Unknown::default());
    }

    #[test]
    fn the_rest_reads_as_zero_and_is_counted() {
        let mut slots = EmptySlots::new();
        slots.write();
        for offset in 0x10..0x200 {
            assert_eq!(slots.read(offset, Width::Word), 0);
        }
        assert_eq!(slots.unknown().reads, 0x1f0);
        assert_eq!(slots.unknown().writes, 1);
    }
}
