//! The devices of the virtual platform that a VM has: which kind of device answers where.
//!
//! The interrupt controller is none of them, nor is a device of the board that is passed
//! through. The tool writes the slots of each VM into the system's tree; the board makes a model
//! for each (`hanok_devices`), and knows no place of a device but from here.

use hanok_types::{IntId, Ipa, Span, platform};
use heapless::Vec;

/// The most devices of the virtual platform that one VM can have.
pub const MAX_SLOTS: usize = 8;

/// A kind of device, of which `hanok_devices` has a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The PL011 serial port; at most one, as a VM has one line on the console.
    Pl011,
    /// The PL031 real-time clock.
    Pl031,
    /// Transports of virtio-mmio, one after the other, with no device behind them.
    EmptyTransports,
    /// Flash that reads as erased.
    Flash,
}

impl DeviceKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pl011, Self::Pl031, Self::EmptyTransports, Self::Flash];

    /// Its word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pl011 => "pl011",
            Self::Pl031 => "pl031",
            Self::EmptyTransports => "empty-transports",
            Self::Flash => "flash",
        }
    }

    /// From its word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// One device of a VM: what it is, where its registers are, and its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSlot {
    /// What it is.
    pub kind: DeviceKind,
    /// Where its registers are for the guest.
    pub region: Span<Ipa>,
    /// The interrupt that its line raises, a shared one (SPI); `None`: it has no line.
    pub interrupt: Option<IntId>,
}

/// The devices of a VM. Where they are looked up, the first one is found soonest.
pub type DeviceSlots = Vec<DeviceSlot, MAX_SLOTS>;

/// The devices that every VM has, where QEMU's `virt` has them. The serial port, which a guest
/// uses most, comes first.
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
        assert!(kinds.eq(DeviceKind::ALL));
        assert!(slots.len() < MAX_SLOTS);
    }
}
