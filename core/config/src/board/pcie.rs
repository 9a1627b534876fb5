//! A PCIe host bridge, and the SMMUv3 in front of its devices (Linux's bindings `host-generic-pci`, `pci-iommu` and
//! `arm,smmu-v3`).
//!
//! A VM is given a whole bridge, but only its first bus: each device there is a stream of the SMMU, by which the
//! hypervisor knows whose it is.

use super::place::At;
use super::{BoardTree, devices};
use crate::tree::{self, Cells};
use devices::Line;
use hanok_types::{Hpa, IntId, Span};

const BRIDGE: &str = "pci-host-ecam-generic";
const SMMU: &str = "arm,smmu-v3";
/// The least size of a range of registers that is aligned for a guest as it is on the board's bus.
#[cfg(feature = "write")]
pub(super) const LARGE: u64 = BUS;
/// The bytes of a bus's configuration space: 256 functions of 4 KiB.
const BUS: u64 = 1 << 20;
/// The functions of a bus.
const FUNCTIONS: u32 = 256;
/// The first stream of a bus can have no larger number, as the stream table has an entry for each below.
const MAX_STREAM: u32 = 1 << 16;

/// A PCIe host bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieHost {
    /// The configuration space of its first bus.
    pub configuration: Span<Hpa>,
    /// The SMMU in front of all devices of this bus.
    pub smmu: Option<BoardSmmu>,
}

/// An SMMUv3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardSmmu {
    /// Its registers.
    pub registers: Span<Hpa>,
    /// The interrupt of its event queue, and whether an edge triggers it.
    pub event: (IntId, bool),
    /// The stream of the bus's first function; the others follow.
    pub first: u32,
}

impl BoardTree<'_> {
    /// The board's first PCIe host bridge. It is looked for in the whole tree again, as most systems do not use it.
    pub fn pcie(&self) -> Option<PcieHost> {
        let fdt = tree::open(self.bytes).ok()?;
        let root = At::root(&fdt);
        let at = root.find(&|at| at.is_okay() && is_bridge(at))?;
        Some(PcieHost {
            configuration: configuration(&at)?,
            smmu: smmu(&at, &root, &devices::find_gic(&root)?),
        })
    }
}

pub(super) fn is_bridge(at: &At<'_>) -> bool {
    tree::compatible(at.node(), BRIDGE)
}

/// The configuration space of the first bus.
pub(super) fn configuration(at: &At<'_>) -> Option<Span<Hpa>> {
    let all = at.spans().next()??;
    Span::new(all.start(), BUS).filter(|bus| all.covers(bus))
}

/// The SMMU in front of all devices of the first bus.
pub(super) fn smmu(bridge: &At<'_>, root: &At<'_>, gic: &At<'_>) -> Option<BoardSmmu> {
    let mut map = Cells(tree::value(bridge.node(), "iommu-map")?);
    let (from, handle, first, count) = (map.one()?, map.one()?, map.one()?, map.one()?);
    if from != 0 || count < FUNCTIONS || first > MAX_STREAM {
        return None;
    }
    let has_handle = |at: &At<'_>| tree::cell(at.node(), "phandle") == Some(handle);
    let at = root.find(&has_handle)?;
    if !tree::compatible(at.node(), SMMU) || !at.is_okay() {
        return None;
    }
    let event = tree::strings(at.node(), "interrupt-names").position(|name| name == "eventq")?;
    let Line::Gic { id, flags } = devices::line(&at, gic, event) else {
        return None;
    };
    Some(BoardSmmu {
        registers: at.spans().next()??,
        event: (id, flags & 3 != 0),
        first,
    })
}
