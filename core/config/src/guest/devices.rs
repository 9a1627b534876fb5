//! Devices that are passed through, in the guest's tree: children of the platform bus, as on
//! QEMU's `virt`, their addresses counted from where that begins.

use super::{DEVICE_CLOCK_HANDLE, GIC_HANDLE, GuestDevice};
use crate::board::{FixedClock, HostDevice};
use crate::model::Line;
use crate::write::{Build, node};
use alloc::format;
use alloc::vec::Vec;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::{Address, Hpa, IntId, Span, platform};

/// `root` with the bus, its devices and their clocks; without devices, as it is.
pub(super) fn add(root: DeviceTreeNode, devices: &[GuestDevice<'_>]) -> DeviceTreeNode {
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
    // From 0 on the bus to `start`, an address of two cells.
    let ranges = [0, 0, start as u32, platform::PASS_THROUGH_SIZE as u32];
    let mut bus = node(format!("platform-bus@{start:x}"))
        .with("interrupt-parent", GIC_HANDLE)
        .with("ranges", ranges)
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("compatible", compatible.as_slice());
    for device in devices {
        if let Some(child) = device.to_node(&clocks) {
            bus.add_child(child);
        }
    }
    let clocks = clocks.into_iter().enumerate();
    clocks.fold(root.and(bus), |root, (index, clock)| {
        root.and(clock_node(index, clock))
    })
}

impl GuestDevice<'_> {
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
        let reg = reg.flat_map(|(at, len)| [at as u32, len as u32]);
        child = child.with("reg", reg.collect::<Vec<u32>>());
        if !self.host.interrupts.is_empty() {
            child = child.with("interrupts", self.interrupts());
        }
        match self.host.clocks.is_empty() {
            true => Some(child),
            false => Some(child.with("clocks", clock_handles(self.host, clocks))),
        }
    }

    /// Where registers of the board are for the guest, from the bus's start.
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

/// An SPI in the GIC's binding, its trigger as the board has it; an unknown one is a level.
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
