//! The devices of the virtual platform that a VM has: the kind, address and interrupt of each.
//!
//! The interrupt controller is none of them, nor is a real device that the VM has for itself. The
//! tool writes the slots of each VM into the system's tree. The board makes a model for each slot
//! (`hanok_devices`), and knows the devices' addresses only from here.

use hanok_abi::schedule;
use hanok_types::{IntId, Ipa, Span, platform};
use heapless::Vec;

/// The largest number of devices of the virtual platform that a VM can have.
pub const MAX_SLOTS: usize = 24;

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
    /// The registers of a channel between VMs (`hanok_abi::channel`), which [`crate::ChannelEnd`] describes.
    Channel,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Pl011,
        Self::Pl031,
        Self::EmptyTransports,
        Self::Flash,
        Self::Schedule,
        Self::Channel,
    ];

    /// The kind's word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pl011 => "pl011",
            Self::Pl031 => "pl031",
            Self::EmptyTransports => "empty-transports",
            Self::Flash => "flash",
            Self::Schedule => "schedule",
            Self::Channel => "channel",
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

/// The devices that every VM has, at the addresses of QEMU's `virt`, which has no [`DeviceKind::Schedule`]; a
/// [`DeviceKind::Channel`] comes with each channel. The serial port comes first,
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
    fn the_platform_has_one_of_each_kind_and_room_for_more() {
        let slots = platform_slots();
        let kinds = slots.iter().map(|slot| slot.kind);
        let with_all = DeviceKind::ALL.into_iter();
        assert!(kinds.eq(with_all.filter(|kind| *kind != DeviceKind::Channel)));
        assert!(slots.len() < MAX_SLOTS);
    }
}
