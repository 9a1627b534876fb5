//! QEMU's firmware configuration, as far as a firmware needs it: it says that the platform is QEMU's `virt`, and has no
//! files (QEMU's "QEMU Firmware Configuration (fw_cfg) Device", docs/specs/fw_cfg).
//!
//! A guest stores an item's number to the selector, and loads the item's bytes, one after the other, from the data
//! register, by accesses of any width. Behind an item's end, and in items that do not exist, all bytes are zero. Without
//! files there are no ACPI tables, so that a firmware hands on the device tree.
//!
//! Rejected: the interface by which the device writes to the guest's memory by itself. What there is to read is shorter than
//! a description of where to write it.

use crate::device::{Model, World};
use crate::{Access, Unknown};
use hanok_types::Width;

const DATA: u64 = 0;
const SELECTOR: u64 = 8;

/// The items by their numbers: the signature; the interface's version, which is that without writes to memory. The list of
/// files (item 0x19) is empty: a number of zero.
const SIGNATURE: (u16, [u8; 4]) = (0x0000, *b"QEMU");
const VERSION: (u16, [u8; 4]) = (0x0001, [1, 0, 0, 0]);

/// Which item is read, and how far.
#[derive(Clone, Debug, Default)]
pub struct FwCfg {
    item: u16,
    done: usize,
    unknown: Unknown,
}

impl FwCfg {
    /// The device after a reset, which selects the first item.
    pub const fn new() -> Self {
        Self {
            item: 0,
            done: 0,
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    fn byte(&mut self) -> u8 {
        let items = [SIGNATURE, VERSION];
        let item = items.iter().find(|item| item.0 == self.item);
        let byte = item.and_then(|(_, bytes)| bytes.get(self.done));
        self.done = self.done.saturating_add(1);
        byte.copied().unwrap_or(0)
    }
}

impl Model for FwCfg {
    fn access(&mut self, offset: u64, access: Access, _world: &mut impl World) -> u64 {
        let Access { width, write, .. } = access;
        match (offset, write, width) {
            // Big-endian; bit 14, which allows writes, is no part of the number.
            (SELECTOR, true, Width::Half) => {
                self.item = (access.value as u16).swap_bytes() & !0x4000;
                self.done = 0;
            }
            (DATA, false, _) => {
                let bytes = 0..width.bytes();
                return bytes.fold(0, |value, byte| {
                    value | u64::from(self.byte()) << (8 * byte)
                });
            }
            (_, true, _) => self.unknown.write(),
            (_, false, _) => return self.unknown.read().into(),
        }
        0
    }

    fn reset(&mut self) {
        *self = Self {
            unknown: self.unknown,
            ..Self::new()
        };
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::FakeWorld;
    use hanok_types::Ipa;

    fn load(device: &mut FwCfg, offset: u64, width: Width) -> u64 {
        let access = Access::load(Ipa::new(offset), width);
        device.access(offset, access, &mut FakeWorld::default())
    }

    fn store(device: &mut FwCfg, offset: u64, width: Width, value: u64) {
        let access = Access::store(Ipa::new(offset), width, value);
        assert_eq!(device.access(offset, access, &mut FakeWorld::default()), 0);
    }

    #[test]
    fn an_item_is_read_from_its_start_by_accesses_of_any_width() {
        let mut device = FwCfg::new();
        let all = u64::from_le_bytes(*b"QEMU\0\0\0\0");
        assert_eq!(load(&mut device, DATA, Width::Double), all);
        assert_eq!(load(&mut device, DATA, Width::Double), 0, "behind its end");
        store(&mut device, SELECTOR, Width::Half, 0);
        assert_eq!(load(&mut device, DATA, Width::Byte), u64::from(b'Q'));
        assert_eq!(load(&mut device, DATA, Width::Half), 0x4d45);
        assert_eq!(load(&mut device, DATA, Width::Word), u64::from(b'U'));
        // Big-endian, and for writing, which has no effect.
        store(&mut device, SELECTOR, Width::Half, 0x0140);
        assert_eq!(load(&mut device, DATA, Width::Word), 1);
        for item in [0x19, 0x02, 0x8000, 0xffff_u16] {
            store(&mut device, SELECTOR, Width::Half, item.swap_bytes().into());
            assert_eq!(load(&mut device, DATA, Width::Double), 0, "{item:#x}");
        }
        assert_eq!(device.unknown(), Unknown::default());
        device.reset();
        assert_eq!(load(&mut device, DATA, Width::Word), 0x554d_4551);
    }

    #[test]
    fn all_else_is_counted() {
        let mut device = FwCfg::new();
        let words = [
            (0, Width::Word),
            (8, Width::Word),
            (8, Width::Byte),
            (9, Width::Half),
        ];
        for (offset, width) in words {
            store(&mut device, offset, width, 0x0100);
        }
        for offset in [1, 4, 8, 15] {
            assert_eq!(load(&mut device, offset, Width::Byte), 0);
        }
        let counted = device.unknown();
        assert_eq!((counted.reads, counted.writes), (4, 4));
        assert_eq!(
            load(&mut device, DATA, Width::Word),
            0x554d_4551,
            "nothing was selected"
        );
    }
}
