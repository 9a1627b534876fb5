//! The devices of the virtual platform that a VM has: the kind, address and interrupt of each.
//!
//! The interrupt controller is none of them, nor is a real device that the VM has for itself. The
//! tool writes the slots of each VM into the system's tree. The board makes a model for each slot
//! (`hanok_devices`), and knows the devices' addresses only from here.

use hanok_abi::schedule;
use hanok_types::{IntId, Ipa, Span, platform};
use heapless::Vec;

/// The largest number of devices of the virtual platform that a VM can have.
pub const MAX_SLOTS: usize = 8;

/// The size in bytes of the bank of flash that holds a firmware: the first of two.
pub const FIRMWARE_SIZE: u64 = platform::FLASH_SIZE / 2;
/// The second bank of flash: a firmware's variables.
pub const NOR: Ipa = Ipa::new(platform::FLASH.get() + FIRMWARE_SIZE);
/// The bytes of a [`DeviceKind::Nor`] that have memory behind them: four sectors of 256 KiB, one more than EDK2's
/// variables take. The rest of the bank reads as erased.
pub const NOR_STORED: u64 = 1 << 20;

/// The bytes of a block of it, for which a bit says whether it is erased, whatever the memory holds.
pub const NOR_BLOCK: u64 = 1 << 10;
/// The bytes of its memory: first what is stored, then the bits, the lowest one of each byte for the first of its blocks.
pub const NOR_MEMORY: u64 = NOR_STORED + NOR_STORED / NOR_BLOCK / 8;

/// A kind of device. `hanok_devices` has a model for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The PL011 serial port. A VM has at most one, since it has one channel on the console.
    Pl011,
    /// The PL031 real-time clock.
    Pl031,
    /// The virtio-mmio transports, one after the other, which have no device behind them.
    EmptyTransports,
    /// Flash that reads as erased.
    Flash,
    /// The calls by which a guest takes part in the scheduling of its vCPUs (`hanok_abi::schedule`).
    Schedule,
    /// Flash that takes commands: a firmware's variables. A VM has at most one, whose contents are in its memory.
    Nor,
    /// The configuration that a firmware asks for.
    FwCfg,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Pl011,
        Self::Pl031,
        Self::EmptyTransports,
        Self::Flash,
        Self::Schedule,
        Self::Nor,
        Self::FwCfg,
    ];

    /// The kind's word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pl011 => "pl011",
            Self::Pl031 => "pl031",
            Self::EmptyTransports => "empty-transports",
            Self::Flash => "flash",
            Self::Schedule => "schedule",
            Self::Nor => "nor",
            Self::FwCfg => "fw-cfg",
        }
    }

    /// The kind with this word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A device of a VM: its kind, its registers, and its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlot {
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The guest's addresses of its registers.
    pub region: Span<Ipa>,
    /// The interrupt of its line, a shared one (SPI); `None` if it has no line.
    pub interrupt: Option<IntId>,
}

/// The devices of a VM. A lookup finds the first one fastest.
pub type DeviceSlots = Vec<DeviceSlot, MAX_SLOTS>;

/// The devices of a VM that has a firmware's: those of [`platform_slots`], with the second bank of flash as one that
/// takes commands, and the firmware's configuration.
pub fn firmware_slots() -> DeviceSlots {
    let mut slots = platform_slots();
    let bank = FIRMWARE_SIZE;
    let flash = slots.iter_mut().find(|slot| slot.kind == DeviceKind::Flash);
    if let (Some(flash), Some(first)) = (flash, Span::new(platform::FLASH, bank)) {
        flash.region = first;
    }
    let added = [
        (DeviceKind::Nor, NOR, bank),
        (DeviceKind::FwCfg, platform::FW_CFG, platform::FW_CFG_SIZE),
    ];
    slots.extend(added.into_iter().filter_map(|(kind, start, len)| {
        Some(DeviceSlot {
            kind,
            region: Span::new(start, len)?,
            interrupt: None,
        })
    }));
    slots
}

/// The devices that every VM has, at the addresses of QEMU's `virt`, which has no [`DeviceKind::Schedule`]. The serial port comes first,
/// since guests use it most.
pub fn platform_slots() -> DeviceSlots {
    let transports = platform::VIRTIO_SLOTS * platform::VIRTIO_STRIDE;
    let uart = Some(platform::UART_IRQ);
    let rtc = Some(platform::RTC_IRQ);
    [
        (
            DeviceKind::Pl011,
            platform::UART,
            platform::PRIMECELL_SIZE,
            uart,
        ),
        (
            DeviceKind::Pl031,
            platform::RTC,
            platform::PRIMECELL_SIZE,
            rtc,
        ),
        (
            DeviceKind::EmptyTransports,
            platform::VIRTIO,
            transports,
            None,
        ),
        (
            DeviceKind::Flash,
            platform::FLASH,
            platform::FLASH_SIZE,
            None,
        ),
        (
            DeviceKind::Schedule,
            Ipa::new(schedule::DEVICE.0),
            schedule::DEVICE.1,
            None,
        ),
    ]
    .into_iter()
    .filter_map(|(kind, start, len, interrupt)| {
        let region = Span::new(start, len)?;
        Some(DeviceSlot {
            kind,
            region,
            interrupt,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        for kind in DeviceKind::ALL {
            assert_eq!(DeviceKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(DeviceKind::from_word("pl012"), None);
    }

    #[test]
    fn a_vm_with_a_firmware_has_one_of_each_kind_and_room_for_more() {
        let slots = firmware_slots();
        let kinds = slots.iter().map(|slot| slot.kind);
        assert!(kinds.eq(DeviceKind::ALL));
        assert!(slots.len() < MAX_SLOTS);
        let others = platform_slots();
        let of_firmware = [DeviceKind::Nor, DeviceKind::FwCfg];
        assert!(others.iter().all(|slot| !of_firmware.contains(&slot.kind)));
    }

    #[test]
    fn the_banks_of_flash_share_what_is_one_without_a_firmware() {
        let region = |slots: &DeviceSlots, kind| {
            slots
                .iter()
                .find(|slot| slot.kind == kind)
                .map(|slot| slot.region)
        };
        let whole = region(&platform_slots(), DeviceKind::Flash).unwrap();
        let slots = firmware_slots();
        let first = region(&slots, DeviceKind::Flash).unwrap();
        let second = region(&slots, DeviceKind::Nor).unwrap();
        assert_eq!((first.start(), second.end()), (whole.start(), whole.end()));
        assert_eq!(first.end(), second.start());
    }
}
