//! Real devices in the guest's tree: they are children of the platform bus, as on QEMU's `virt`,
//! and their addresses count from the start of that bus.

use super::{DEVICE_CLOCK_HANDLE, GIC_HANDLE, GuestDevice};
use crate::board::{FixedClock, HostBridge, HostDevice};
use crate::model::Line;
use crate::tree as read;
use crate::write::{Build, node, pair};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::{Address, Hpa, IntId, Ipa, Span, platform};

/// Adds the bus, its devices and their clocks to `root`. Without devices, `root` stays as it is.
pub(super) fn add(
    root: DeviceTreeNode,
    devices: &[GuestDevice<'_>],
    memory: impl Iterator<Item = Span<Ipa>>,
) -> DeviceTreeNode {
    if devices.is_empty() {
        return root;
    }
    let mut clocks: Vec<&FixedClock> = Vec::new();
    for clock in devices.iter().flat_map(|device| &device.host.clocks) {
        if !clocks.contains(&clock) {
            clocks.push(clock);
        }
    }
    let start = platform::PASS_THROUGH.get();
    let compatible = ["qemu,platform", "simple-bus"];
    // The bus maps 0 to `start`; addresses and sizes have two cells each.
    let size = platform::PASS_THROUGH_SIZE as u32;
    let ranges = [0, 0, 0, start as u32, 0, size];
    let mut bus = node(format!("platform-bus@{start:x}"))
        .with("interrupt-parent", GIC_HANDLE)
        .with("ranges", ranges)
        .with("#address-cells", 2u32)
        .with("#size-cells", 2u32)
        .with("compatible", compatible.as_slice());
    if devices
        .iter()
        .any(|device| device.host.bus_master.is_some())
    {
        bus = bus.with(
            "dma-ranges",
            memory.flat_map(dma_range).collect::<Vec<u8>>(),
        );
    }
    for device in devices {
        let child = match &device.host.bridge {
            Some(bridge) => device.to_bridge(bridge),
            None => device.to_node(&clocks),
        };
        if let Some(child) = child {
            bus.add_child(child);
        }
    }
    let clocks = clocks.into_iter().enumerate();
    clocks.fold(root.and(bus), |root, (index, clock)| {
        root.and(clock_node(index, clock))
    })
}

impl GuestDevice<'_> {
    /// The guest's address of its first registers.
    pub fn address(&self) -> Option<Ipa> {
        let offset = self.guest_offset(self.host.registers.first()?)?;
        platform::PASS_THROUGH.checked_add(offset)
    }

    fn to_node(self, clocks: &[&FixedClock]) -> Option<DeviceTreeNode> {
        let places: Vec<u64> = (self.host.registers.iter())
            .filter_map(|span| self.guest_offset(span))
            .collect();
        let (name, _) = self
            .host
            .name
            .split_once('@')
            .unwrap_or((&self.host.name, ""));
        let mut child = node(format!("{name}@{:x}", places.first()?));
        for (name, value) in &self.host.properties {
            child = child.with(name, value.as_slice());
        }
        let lens = self.host.registers.iter().map(Span::len);
        let reg = places.into_iter().zip(lens);
        let reg = reg.flat_map(|(at, len)| pair(at, len));
        child = child.with("reg", reg.collect::<Vec<u8>>());
        let coherent = |pair: &(String, Vec<u8>)| pair.0 == "dma-coherent";
        if self.host.bus_master.is_some() && !self.host.properties.iter().any(coherent) {
            // The root's `dma-coherent` is for the virtual platform's own devices.
            child = child.flag("dma-noncoherent");
        }
        if !self.host.interrupts.is_empty() {
            child = child.with("interrupts", self.interrupts());
        }
        if self.host.clocks.is_empty() {
            Some(child)
        } else {
            Some(child.with("clocks", clock_handles(self.host, clocks)))
        }
    }

    /// A PCIe host bridge: without MSIs, for which a VM has no controller, and without an SMMU, which is not its own.
    fn to_bridge(self, bridge: &HostBridge) -> Option<DeviceTreeNode> {
        let at = self.guest_offset(&bridge.configuration)?;
        let mut ranges: Vec<u8> = Vec::new();
        for window in &bridge.windows {
            let cpu = self.guest_offset(&window.cpu)?;
            ranges.extend(window.space.to_be_bytes());
            ranges.extend(pair(window.bus, cpu));
            ranges.extend(window.cpu.len().to_be_bytes());
        }
        let mut map: Vec<u32> = Vec::new();
        for (device, pin, line) in &bridge.interrupts {
            let mut given = self.given.interrupts.iter();
            let given = given.find(|given| given.board == line.id)?;
            map.extend([*device, 0, 0, *pin, GIC_HANDLE, 0, 0]);
            map.extend(cells(given.guest, line.trigger));
        }
        let node = node(format!("pcie@{at:x}"))
            .with("compatible", "pci-host-ecam-generic")
            .with("device_type", "pci")
            .with("#address-cells", 3u32)
            .with("#size-cells", 2u32)
            .with("#interrupt-cells", 1u32)
            .with("bus-range", [0u32, 0].as_slice())
            .with("linux,pci-domain", 0u32)
            .with("reg", pair(at, bridge.configuration.len()))
            .with("ranges", ranges)
            .with("interrupt-map-mask", bridge.mask.as_slice())
            .with("interrupt-map", map);
        let coherent = |pair: &(String, Vec<u8>)| pair.0 == "dma-coherent";
        Some(if self.host.properties.iter().any(coherent) {
            node.flag("dma-coherent")
        } else {
            node.flag("dma-noncoherent")
        })
    }

    /// The guest's address of these registers of the board, counted from the start of the bus.
    fn guest_offset(&self, span: &Span<Hpa>) -> Option<u64> {
        let mut ranges = self.given.registers.iter();
        ranges.find_map(|range| {
            let inside = range.host_span()?.offset_of(span.start())?;
            let at = range.ipa.checked_add(inside)?;
            at.get().checked_sub(platform::PASS_THROUGH.get())
        })
    }

    fn interrupts(&self) -> Vec<u32> {
        let lines = self.host.interrupts.iter().filter_map(|line| {
            let is_it = |given: &&Line| given.board == line.id;
            let given = self.given.interrupts.iter().find(is_it)?;
            Some(cells(given.guest, line.trigger))
        });
        lines.flatten().collect()
    }
}

/// Memory for a bus master whose accesses are not translated: it maps the memory's host address, which is
/// zero here, to the guest's address (Devicetree Specification 2.3.9, `dma-ranges`).
fn dma_range(memory: Span<Ipa>) -> Vec<u8> {
    let (host, guest) = (0, memory.start().get());
    [pair(host, guest), memory.len().to_be_bytes().to_vec()].concat()
}

/// The offset of the host address in a flattened tree.
pub(super) fn host_address(bytes: &[u8]) -> Option<u32> {
    let bus = format!("platform-bus@{:x}", platform::PASS_THROUGH.get());
    let node = read::open(bytes).ok()?.root().child(&bus)?;
    let value = read::value(&node, "dma-ranges")?;
    let offset = (value.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
    u32::try_from(offset).ok()
}

/// An SPI in the GIC's binding, with the trigger that it has on the board; an unknown trigger is a
/// level.
fn cells(id: IntId, trigger: u32) -> [u32; 3] {
    let flags = if trigger == 0 {
        super::LEVEL_HIGH
    } else {
        trigger
    };
    [0, id.get().saturating_sub(32), flags]
}

fn clock_handles(host: &HostDevice, clocks: &[&FixedClock]) -> Vec<u32> {
    let index = |clock| clocks.iter().position(|other| *other == clock);
    let indexes = host.clocks.iter().filter_map(index);
    indexes
        .map(|index| DEVICE_CLOCK_HANDLE + index as u32)
        .collect()
}

fn clock_node(index: usize, clock: &FixedClock) -> DeviceTreeNode {
    node(format!("device-clock-{index}"))
        .with("compatible", "fixed-clock")
        .with("#clock-cells", 0u32)
        .with("clock-frequency", clock.frequency)
        .with("phandle", DEVICE_CLOCK_HANDLE + index as u32)
}
