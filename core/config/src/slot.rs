//! The devices of the virtual platform that a VM has: the kind, address and interrupt of each.
//!
//! The interrupt controller is none of them, nor is a real device that the VM has for itself. The
//! tool writes the slots of each VM into the system's tree. The board makes a model for each slot
//! (`hanok_devices`), and knows the devices' addresses only from here.

use hanok_abi::schedule;
use hanok_types::{IntId, Ipa, Span, VmId, platform};
use heapless::Vec;

/// The largest number of devices of the virtual platform that a VM can have.
pub const MAX_SLOTS: usize = 24;

/// A kind of virtio device. What all have in common is in `hanok_devices`; what such a device is, its back end knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtioKind {
    /// A source of random bytes, which the hypervisor itself serves.
    Entropy,
    /// A disk.
    Block,
    /// A network interface.
    Network,
    /// A console.
    Console,
    /// Files of a directory, by 9P.
    Directory,
    /// A graphics adapter.
    Gpu,
    /// A keyboard, a mouse, or the like.
    Input,
    /// Sockets between VMs.
    Vsock,
}

impl VirtioKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Entropy,
        Self::Block,
        Self::Network,
        Self::Console,
        Self::Directory,
        Self::Gpu,
        Self::Input,
        Self::Vsock,
    ];

    /// The kind's word in the system's tree.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Entropy => "virtio-entropy",
            Self::Block => "virtio-block",
            Self::Network => "virtio-network",
            Self::Console => "virtio-console",
            Self::Directory => "virtio-9p",
            Self::Gpu => "virtio-gpu",
            Self::Input => "virtio-input",
            Self::Vsock => "virtio-vsock",
        }
    }

    /// The device id (virtio 1.2, 5).
    pub const fn id(self) -> u32 {
        match self {
            Self::Network => 1,
            Self::Block => 2,
            Self::Console => 3,
            Self::Entropy => 4,
            Self::Directory => 9,
            Self::Gpu => 16,
            Self::Input => 18,
            Self::Vsock => 19,
        }
    }

    /// The number of its queues (virtio 1.2, 5.1.2, 5.2.2, 5.3.2, 5.4.2, 5.7.2, 5.8.2, 5.10.2; Linux's transport of 9P). A console has one port.
    pub const fn queues(self) -> usize {
        match self {
            Self::Entropy | Self::Block | Self::Directory => 1,
            Self::Network | Self::Console | Self::Gpu | Self::Input => 2,
            Self::Vsock => 3,
        }
    }

    /// Whether a VM serves it, and not the hypervisor.
    pub const fn has_back_end(self) -> bool {
        !matches!(self, Self::Entropy)
    }
}

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
    /// A virtio-mmio transport with a device.
    Virtio(VirtioKind),
    /// What a driver VM has of a virtio device of another VM, which it serves (`hanok_abi::back_end`).
    BackEnd,
    /// The registers of a channel between VMs (`hanok_abi::channel`), which [`crate::ChannelEnd`] describes.
    Channel,
}

impl DeviceKind {
    /// All kinds but those of virtio.
    pub const ALL: [Self; 9] = [
        Self::Pl011,
        Self::Pl031,
        Self::EmptyTransports,
        Self::Flash,
        Self::Schedule,
        Self::Nor,
        Self::FwCfg,
        Self::BackEnd,
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
            Self::Virtio(kind) => kind.word(),
            Self::BackEnd => "back-end",
            Self::Nor => "nor",
            Self::FwCfg => "fw-cfg",
            Self::Channel => "channel",
        }
    }

    /// The kind with this word in the system's tree.
    pub fn from_word(word: &str) -> Option<Self> {
        let virtio = VirtioKind::ALL.into_iter().map(Self::Virtio);
        let mut all = Self::ALL.into_iter().chain(virtio);
        all.find(|kind| kind.word() == word)
    }
}

/// The other end of a device that two VMs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The VM.
    pub vm: VmId,
    /// The index of the slot among that VM's.
    pub slot: u8,
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
    /// Of a virtio device that a VM serves, that VM's [`DeviceKind::BackEnd`]; of this, the virtio device.
    pub peer: Option<Peer>,
}

impl DeviceSlot {
    /// Transport number `index` of the virtual platform, with a device.
    pub fn virtio(index: usize, kind: VirtioKind, peer: Option<Peer>) -> Option<Self> {
        let index = u64::try_from(index)
            .ok()
            .filter(|index| *index < platform::VIRTIO_SLOTS)?;
        let start = platform::VIRTIO.get() + index * platform::VIRTIO_STRIDE;
        Some(Self {
            kind: DeviceKind::Virtio(kind),
            region: Span::new(Ipa::new(start), platform::VIRTIO_STRIDE)?,
            interrupt: Some(IntId::new(platform::VIRTIO_IRQ.get() + index as u32)),
            peer,
        })
    }

    /// Back end number `index` of a driver VM.
    pub fn back_end(index: usize, peer: Peer) -> Option<Self> {
        let index = u64::try_from(index)
            .ok()
            .filter(|index| *index < platform::BACK_ENDS)?;
        let start = platform::BACK_END.get() + index * platform::BACK_END_SIZE;
        Some(Self {
            kind: DeviceKind::BackEnd,
            region: Span::new(Ipa::new(start), platform::BACK_END_SIZE)?,
            interrupt: Some(IntId::new(platform::BACK_END_IRQ.get() + index as u32)),
            peer: Some(peer),
        })
    }
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
            peer: None,
        })
    }));
    slots
}

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
            peer: None,
        })
    })
    .collect()
}

/// Gives the first transports of a VM with [`platform_slots`] to `devices`, and leaves the others empty. The answer is whether
/// there is room for them.
pub fn add_virtio(
    slots: &mut DeviceSlots,
    devices: impl Iterator<Item = (VirtioKind, Option<Peer>)>,
) -> bool {
    let mut count = 0;
    for (kind, peer) in devices {
        let Some(slot) = DeviceSlot::virtio(count, kind, peer) else {
            return false;
        };
        if slots.push(slot).is_err() {
            return false;
        }
        count += 1;
    }
    let taken = count as u64 * platform::VIRTIO_STRIDE;
    for slot in slots
        .iter_mut()
        .filter(|slot| slot.kind == DeviceKind::EmptyTransports)
    {
        let (start, len) = (slot.region.start(), slot.region.len());
        let rest = start.get().checked_add(taken).zip(len.checked_sub(taken));
        match rest.and_then(|(start, len)| Span::new(Ipa::new(start), len)) {
            Some(rest) => slot.region = rest,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let virtio = VirtioKind::ALL.map(DeviceKind::Virtio);
        for kind in DeviceKind::ALL.into_iter().chain(virtio) {
            assert_eq!(DeviceKind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(DeviceKind::from_word("pl012"), None);
    }

    #[test]
    fn a_vm_with_a_firmware_has_one_of_each_kind_and_room_for_more() {
        let slots = firmware_slots();
        let kinds = slots.iter().map(|slot| slot.kind);
        let own = DeviceKind::ALL.into_iter();
        let added = [DeviceKind::BackEnd, DeviceKind::Channel];
        assert!(kinds.eq(own.filter(|kind| !added.contains(kind))));
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

    #[test]
    fn devices_take_the_first_transports() {
        let mut slots = platform_slots();
        let devices = [(VirtioKind::Entropy, None), (VirtioKind::Block, None)];
        assert!(add_virtio(&mut slots, devices.into_iter()));
        let found = slots.iter().rev().take(2).map(|slot| slot.region.start());
        assert!(found.eq([0x0a00_0200, 0x0a00_0000].map(Ipa::new)));
        let lines = slots.iter().rev().take(2).map(|slot| slot.interrupt);
        assert!(lines.eq([49, 48].map(|line| Some(IntId::new(line)))));
        let empty = |slot: &&DeviceSlot| slot.kind == DeviceKind::EmptyTransports;
        let rest = slots.iter().find(empty).map(|slot| slot.region);
        assert_eq!(rest, Span::new(Ipa::new(0x0a00_0400), 30 * 0x200));
    }

    #[test]
    fn there_is_no_room_for_more_than_a_vm_can_have() {
        let mut slots = platform_slots();
        let many = [(VirtioKind::Block, None); MAX_SLOTS];
        assert!(!add_virtio(&mut slots, many.into_iter()));
    }
}
