//! Virtio devices that one VM serves for another, as they are written, and what comes of them (`links.rs`).

use crate::diagnostic::{Report, Words};
use crate::disk_images::ImageDraft;
use crate::interfaces::{Interface, InterfaceDraft};
use crate::linux_sources::{LinuxSource, SourceDraft};
use crate::table::{self, At, Reader};
use hanok_config::{DeviceSlots, VirtioKind};
use std::ops::Range;

const A_VM: &str = "the name of the VM that serves it";
const A_CID: &str = "a number from 3 to 4294967294";
const A_DEVICE: &str = "a device that the other VM has, such as \"virtio_mmio@a003e00\"";

/// A virtio device of a VM that another one serves, as it is written.
#[derive(Clone, Debug)]
pub(crate) struct SharedDraft {
    pub(crate) kind: VirtioKind,
    pub(crate) span: Range<usize>,
    pub(crate) from: At<String>,
    /// Networks may have none: then only the VMs that the other one serves are in them. Neither has what a Linux serves.
    pub(crate) device: Option<At<String>>,
    pub(crate) source: Option<SourceDraft>,
    pub(crate) interface: Option<InterfaceDraft>,
    /// Of sockets.
    pub(crate) cid: Option<At<u32>>,
}

/// A device that a VM serves for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// The other VM's name.
    pub client: String,
    /// What the device is.
    pub kind: VirtioKind,
    /// The index of the board's device that serves it, among those that the VM has. Networks may have none, and what a Linux serves has none.
    pub device: Option<usize>,
    /// What is behind it, if a program of a Linux serves it.
    pub source: Option<LinuxSource>,
    /// What it is besides, if it is a network.
    pub interface: Option<Interface>,
    /// The client's CID, by which others find it, if it is for sockets.
    pub cid: Option<u32>,
    /// The index of its slot among the VM's.
    pub slot: usize,
}

/// What a VM has of shared devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    pub(crate) slots: DeviceSlots,
    pub(crate) back_ends: Vec<BackEnd>,
}

impl SharedDraft {
    /// The devices of a VM that others serve, in the order of their kinds.
    pub(crate) fn read_all(reader: &mut Reader<'_, '_>, report: &mut Report) -> Vec<Self> {
        let kinds = [
            ("disk", VirtioKind::Block),
            ("network", VirtioKind::Network),
            ("directory", VirtioKind::Directory),
            ("console", VirtioKind::Console),
            ("vsock", VirtioKind::Vsock),
        ];
        let mut all = Vec::new();
        for (key, kind) in kinds {
            let read = |reader: &mut Reader<'_, '_>, report: &mut Report| {
                let from = reader.require(report, "from", A_VM, table::word);
                let network = kind == VirtioKind::Network;
                let sockets = kind == VirtioKind::Vsock;
                let source = source(kind, reader, report);
                let device = if sockets {
                    None
                } else if kind == VirtioKind::Console {
                    Some(reader.require(report, "device", A_DEVICE, table::word)?)
                } else {
                    reader.get(report, "device", A_DEVICE, table::word)
                };
                one_of_both(kind, reader, report, device.as_ref())?;
                let needs = matches!(kind, VirtioKind::Block | VirtioKind::Directory);
                // What is written wrong is told of already.
                let wrong = network && reader.has("tap");
                if (needs && device.is_none() || wrong) && source.is_none() {
                    return None;
                }
                let interface = network.then(|| InterfaceDraft::read(reader, report));
                let cid = if sockets {
                    Some(reader.require(report, "cid", A_CID, cid)?)
                } else {
                    None
                };
                Some(Self {
                    kind,
                    span: reader.span.clone(),
                    from: from?,
                    device,
                    source,
                    interface,
                    cid,
                })
            };
            let found = reader.tables(report, key, read);
            all.extend(found.into_iter().flatten().flatten());
        }
        all
    }
}

/// A CID of a guest: 0 to 2 and the last one are not (virtio 1.2, 5.10.4).
fn cid(value: &toml::de::DeValue<'_>) -> Option<u32> {
    let number = u32::try_from(table::number(value)?).ok()?;
    (3..u32::MAX).contains(&number).then_some(number)
}

/// What a Linux serves the device with, if that is written.
fn source(
    kind: VirtioKind,
    reader: &mut Reader<'_, '_>,
    report: &mut Report,
) -> Option<SourceDraft> {
    match kind {
        VirtioKind::Block => ImageDraft::read(reader, report).map(SourceDraft::image),
        VirtioKind::Network => SourceDraft::tap(reader, report),
        VirtioKind::Directory => SourceDraft::directory(reader, report),
        _ => None,
    }
}

/// Whether a device has what it needs: either a device of the board or something of a Linux's behind it. A network may have neither.
fn one_of_both(
    kind: VirtioKind,
    reader: &Reader<'_, '_>,
    report: &mut Report,
    device: Option<&At<String>>,
) -> Option<()> {
    let (noun, key, why) = match kind {
        VirtioKind::Block => (
            "disk",
            "file",
            "behind it is a device of the board, or an image in the files of a Linux",
        ),
        VirtioKind::Network => (
            "network",
            "tap",
            "behind it is a device of the board, or an interface of a Linux, whose bridge leads on",
        ),
        VirtioKind::Directory => (
            "directory",
            "path",
            "behind it is a device of the board, or a directory in the files of a Linux",
        ),
        _ => return Some(()),
    };
    let (span, what) = match (reader.has("device"), reader.has(key)) {
        (false, false) if kind != VirtioKind::Network => (
            reader.span.clone(),
            format!("a {noun} needs either `device` or `{key}`"),
        ),
        (true, true) => (
            device.map_or(reader.span.clone(), |at| at.span.clone()),
            format!("a {noun} has both `device` and `{key}`"),
        ),
        _ => return Some(()),
    };
    report.refuse(&span, Words::new(what, why, "write one of them"));
    None
}
