//! What a guest gets of a PCIe host bridge: the configuration space of its first bus, a window of 32-bit addresses and
//! one of ports, and INTx interrupts (PCI Bus Binding to Open Firmware; Linux's binding `host-generic-pci`).
//!
//! The addresses on the bus stay the board's, as the bridge passes them on unchanged; only the CPU's side of a window is
//! another one for the guest.

use super::devices::{self, Line};
use super::line::HostLine;
use super::pcie;
use super::place::At;
use crate::tree::{self, Cells};
use alloc::vec::Vec;
use hanok_types::{Hpa, IntKind, Span};

/// The most bytes of a window that a VM gets: all its devices have 32 MiB together.
const MOST: u64 = 16 << 20;
/// The space of an address, in its first cell (2.2.1.1): ports, and memory with 32 bits.
const SPACE: u32 = 3 << 24;
const PORTS: u32 = 1 << 24;
const MEMORY: u32 = 2 << 24;

/// A PCIe host bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostBridge {
    /// The configuration space of its first bus, by the CPU's addresses.
    pub configuration: Span<Hpa>,
    /// Its windows.
    pub windows: Vec<Window>,
    /// `interrupt-map-mask`.
    pub mask: [u32; 4],
    /// The device, in the first cell of its address, its pin, and the interrupt that it has by `interrupt-map`.
    pub interrupts: Vec<(u32, u32, HostLine)>,
}

/// A range of addresses that the bridge passes on to its bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first cell of the address on the bus.
    pub space: u32,
    /// The address on the bus.
    pub bus: u64,
    /// The CPU's addresses.
    pub cpu: Span<Hpa>,
}

impl HostBridge {
    /// `None` if the node lacks something, or has what no guest would understand.
    pub(super) fn read(at: &At<'_>, gic: &At<'_>) -> Option<Self> {
        let bus_range = tree::value(at.node(), "bus-range");
        let first = bus_range.map_or(Some(0), |value| Cells(value).one());
        let windows = windows(at)?;
        let sound = first == Some(0)
            && at.cells() == (3, 2)
            && windows.iter().any(|window| window.space & SPACE == MEMORY);
        if !sound {
            return None;
        }
        let (mask, interrupts) = interrupts(at, gic)?;
        Some(Self {
            configuration: pcie::configuration(at)?,
            windows,
            mask,
            interrupts,
        })
    }

    /// Everything that a CPU accesses.
    pub(super) fn registers(&self) -> impl Iterator<Item = Span<Hpa>> {
        let windows = self.windows.iter().map(|window| window.cpu);
        core::iter::once(self.configuration).chain(windows)
    }
}

/// The first window of ports and the first of 32-bit memory, or as much of them as a VM gets.
fn windows(at: &At<'_>) -> Option<Vec<Window>> {
    let mut ranges = Cells(tree::value(at.node(), "ranges")?);
    let mut windows: Vec<Window> = Vec::new();
    while !ranges.is_empty() {
        let (space, bus) = (ranges.one()?, ranges.two()?);
        let (cpu, len) = (ranges.two()?, ranges.two()?);
        let known = [PORTS, MEMORY].contains(&(space & SPACE));
        let has = |window: &Window| window.space & SPACE == space & SPACE;
        if known && !windows.iter().any(has) {
            let cpu = Span::new(Hpa::new(cpu), len.min(MOST))?;
            windows.push(Window { space, bus, cpu });
        }
    }
    Some(windows)
}

type Interrupts = ([u32; 4], Vec<(u32, u32, HostLine)>);

/// `interrupt-map` with its mask, where all of it leads to SPIs of the GIC.
fn interrupts(at: &At<'_>, gic: &At<'_>) -> Option<Interrupts> {
    let mut cells = Cells(tree::value(at.node(), "interrupt-map-mask")?);
    let mut mask = [0; 4];
    for cell in &mut mask {
        *cell = cells.one()?;
    }
    let mut map = Cells(tree::value(at.node(), "interrupt-map")?);
    let mut found = Vec::new();
    while !map.is_empty() {
        let (device, _, pin) = (map.one()?, map.two()?, map.one()?);
        if map.one() != tree::cell(gic.node(), "phandle") {
            return None;
        }
        map.number(tree::cell(gic.node(), "#address-cells").unwrap_or(0))?;
        let Line::Gic { id, flags } = devices::specifier(&mut map, gic)? else {
            return None;
        };
        let trigger = flags & 0xf;
        let line = HostLine { id, trigger };
        if id.kind() != IntKind::Spi {
            return None;
        }
        found.push((device, pin, line));
    }
    Some((mask, found))
}
