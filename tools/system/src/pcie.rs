//! Devices that QEMU puts on the board's PCIe bus, each at a place of its own.

use crate::board::Board;
use crate::diagnostic::{Report, Words, nearest};
use crate::disks::{self, Content};
use crate::table::{self, At, Reader};
use std::ops::Range;

const A_DEVICE: &str = "\"nvme\", \"virtio-blk\", \"virtio-net\" or \"edu\"";
/// The places on the bus, behind the bridge's own.
const PLACES: usize = 31;

/// A device on the board's PCIe bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieDevice {
    /// What it is.
    pub kind: PcieKind,
    /// QEMU's name of the bus.
    pub bus: String,
}

/// What a device on the board's PCIe bus is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PcieKind {
    /// An NVMe disk.
    Nvme(Content),
    /// A virtio disk.
    VirtioBlock(Content),
    /// A virtio network interface; behind it is QEMU's own network.
    VirtioNetwork,
    /// QEMU's device for exercises, which copies between memory and itself.
    Edu,
}

/// A `[[pcie]]` as it is written.
pub(crate) struct PcieDraft {
    span: Range<usize>,
    device: Option<At<String>>,
    content: disks::Draft,
}

impl PcieDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            device: reader.require(report, "device", A_DEVICE, table::word),
            content: disks::Draft::read(reader, report),
        }
    }

    fn kind(&self, report: &mut Report) -> Option<PcieKind> {
        let device = self.device.as_ref()?;
        let kind = match device.value.as_str() {
            "nvme" => PcieKind::Nvme(self.content.content(report)?),
            "virtio-blk" => PcieKind::VirtioBlock(self.content.content(report)?),
            "edu" if self.content.is_none() => PcieKind::Edu,
            "virtio-net" if self.content.is_none() => PcieKind::VirtioNetwork,
            "edu" | "virtio-net" => {
                let why = "only a disk has content";
                let what = format!("\"{}\" with a `file` or a `size`", device.value);
                let words = Words::new(what, why, "remove it");
                report.refuse(&self.span, words);
                return None;
            }
            other => {
                let what = format!("QEMU makes no PCIe device \"{other}\"");
                let why = format!("the devices are {A_DEVICE}");
                let remedy = match nearest(other, ["nvme", "virtio-blk", "virtio-net", "edu"]) {
                    Some(known) => format!("did you mean \"{known}\"?"),
                    None => "name one of them".to_owned(),
                };
                report.refuse(&device.span, Words::new(what, why, remedy));
                return None;
            }
        };
        Some(kind)
    }
}

/// The devices on the board's PCIe bus, as far as nothing is wrong with them.
pub(crate) fn resolve(report: &mut Report, board: &Board, drafts: &[PcieDraft]) -> Vec<PcieDevice> {
    let mut devices = Vec::new();
    for (index, draft) in drafts.iter().enumerate() {
        let Some(bus) = &board.qemu.pcie else {
            let why = format!("board {} has no PCIe bus for them", board.name);
            let remedy = "remove it, or choose a board that has one, such as qemu-virt-smmu";
            report.refuse(&draft.span, Words::new("a [[pcie]]", why, remedy));
            continue;
        };
        if index == PLACES {
            let why = format!("the bus has {PLACES} places");
            let words = Words::new("too many [[pcie]]", why, "remove some");
            report.refuse(&draft.span, words);
        }
        let kind = draft.kind(report);
        devices.extend(kind.map(|kind| PcieDevice {
            kind,
            bus: bus.clone(),
        }));
    }
    devices
}

impl PcieDevice {
    /// The arguments by which QEMU makes the device number `index`, at the place behind that number.
    pub(crate) fn qemu_args(&self, index: usize) -> Vec<String> {
        let (model, content) = match &self.kind {
            PcieKind::Nvme(content) => (format!("nvme,serial=hanok{index}"), Some(content)),
            // Without the second property QEMU's virtio devices pass the SMMU by.
            PcieKind::VirtioBlock(content) => (
                "virtio-blk-pci,disable-legacy=on,iommu_platform=on".to_owned(),
                Some(content),
            ),
            PcieKind::VirtioNetwork => {
                let model = "virtio-net-pci,disable-legacy=on,iommu_platform=on,romfile=";
                (format!("{model},netdev=pcie{index}"), None)
            }
            PcieKind::Edu => ("edu,dma_mask=0xffffffffffff".to_owned(), None),
        };
        let (bus, place) = (&self.bus, index + 1);
        let mut args = Vec::new();
        let mut drive = String::new();
        if self.kind == PcieKind::VirtioNetwork {
            args.extend(["-netdev".to_owned(), format!("user,id=pcie{index}")]);
        }
        if let Some(content) = content {
            let options = content.drive();
            args.push("-drive".to_owned());
            args.push(format!("if=none,id=pcie{index},{options}"));
            drive = format!(",drive=pcie{index}");
        }
        args.push("-device".to_owned());
        args.push(format!("{model}{drive},bus={bus},addr={place:#x}"));
        args
    }
}
