//! The devices of the virtual platform in the guest's tree: one node for each kind. Flash and empty
//! transports have no nodes: a guest would find nothing in them.

use super::{CLOCK_HANDLE, device, interrupt};
use crate::slot::{DeviceKind, DeviceSlot};
use crate::write::{Build, pair};
use alloc::format;
use alloc::string::String;
use dtoolkit::model::DeviceTreeNode;

/// Adds the nodes of `slots` to `root`, the first slot's last. With the platform's own slots that
/// is the order of QEMU's tree.
pub(super) fn add(root: DeviceTreeNode, slots: &[DeviceSlot]) -> DeviceTreeNode {
    let nodes = slots.iter().rev().filter_map(node);
    nodes.fold(root, |root, node| root.and(node))
}

/// The path of the serial port's node, if there is one.
pub(super) fn serial_path(slots: &[DeviceSlot]) -> Option<String> {
    let serial = slots.iter().find(|slot| slot.kind == DeviceKind::Pl011)?;
    Some(format!("/pl011@{:x}", serial.region.start().get()))
}

fn node(slot: &DeviceSlot) -> Option<DeviceTreeNode> {
    match slot.kind {
        DeviceKind::Pl011 => Some(uart(slot)),
        DeviceKind::Pl031 => Some(rtc(slot)),
        DeviceKind::Schedule => Some(schedule(slot)),
        // `channels.rs` writes channels' nodes, which say more.
        DeviceKind::EmptyTransports | DeviceKind::Flash | DeviceKind::Channel => None,
    }
}

fn uart(slot: &DeviceSlot) -> DeviceTreeNode {
    let clocks = ["uartclk", "apb_pclk"];
    let node = device("pl011", slot.region.start())
        .with("clock-names", clocks.as_slice())
        .with("clocks", [CLOCK_HANDLE, CLOCK_HANDLE]);
    primecell(node, slot, "arm,pl011")
}

fn rtc(slot: &DeviceSlot) -> DeviceTreeNode {
    let node = device("pl031", slot.region.start())
        .with("clock-names", "apb_pclk")
        .with("clocks", CLOCK_HANDLE);
    primecell(node, slot, "arm,pl031")
}

/// Whoever looks for the node finds it by `compatible`: no other system has one like it.
fn schedule(slot: &DeviceSlot) -> DeviceTreeNode {
    let (start, len) = (slot.region.start(), slot.region.len());
    device("schedule", start)
        .with("reg", pair(start.get(), len))
        .with("compatible", "hanok,schedule")
}

/// The properties that the nodes of all PrimeCells have.
fn primecell(node: DeviceTreeNode, slot: &DeviceSlot, name: &str) -> DeviceTreeNode {
    let node = match slot.interrupt {
        Some(line) => node.with("interrupts", interrupt(line)),
        None => node,
    };
    let (start, len) = (slot.region.start().get(), slot.region.len());
    let compatible = [name, "arm,primecell"];
    node.with("reg", pair(start, len))
        .with("compatible", compatible.as_slice())
}
