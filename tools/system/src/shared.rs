//! Virtio devices that one VM serves for another, as they are written, and what comes of them (`links.rs`).

use crate::diagnostic::Report;
use crate::table::{self, At, Reader};
use hanok_config::{DeviceSlots, VirtioKind};
use std::ops::Range;

const A_VM: &str = "the name of the VM that serves it";
const A_DEVICE: &str = "a device that the other VM has, such as \"virtio_mmio@a003e00\"";

/// A virtio device of a VM that another one serves, as it is written.
#[derive(Clone, Debug)]
pub(crate) struct SharedDraft {
    pub(crate) kind: VirtioKind,
    pub(crate) span: Range<usize>,
    pub(crate) from: At<String>,
    pub(crate) device: At<String>,
}

/// A device that a VM serves for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// The other VM's name.
    pub client: String,
    /// What the device is.
    pub kind: VirtioKind,
    /// The index of the board's device that serves it, among those that the VM has.
    pub device: usize,
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
        ];
        let mut all = Vec::new();
        for (key, kind) in kinds {
            let read = |reader: &mut Reader<'_, '_>, report: &mut Report| {
                let from = reader.require(report, "from", A_VM, table::word);
                let device = reader.require(report, "device", A_DEVICE, table::word);
                from.zip(device).map(|(from, device)| Self {
                    kind,
                    span: reader.span.clone(),
                    from,
                    device,
                })
            };
            let found = reader.tables(report, key, read);
            all.extend(found.into_iter().flatten().flatten());
        }
        all
    }
}
