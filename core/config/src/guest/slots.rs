//! The devices of the virtual platform in the guest's tree: one node for each kind. Flash that takes no
//! commands and empty transports have no nodes: a guest would find nothing in them.

use super::channels::events;
use super::{CLOCK_HANDLE, GuestBackEnd, GuestSource, device, edge, interrupt};
use crate::slot::{DeviceKind, DeviceSlot};
use crate::write::{Build, node as named, pair};
use alloc::format;
use alloc::string::String;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::{IntId, Ipa};

/// Adds the nodes of `slots` to `root`, the first slot's last. With the platform's own slots that
/// is the order of QEMU's tree. Those of virtio follow in the order of their addresses, by which a guest numbers them.
pub(super) fn add(root: DeviceTreeNode, slots: &[DeviceSlot]) -> DeviceTreeNode {
    let is_virtio = |slot: &&DeviceSlot| matches!(slot.kind, DeviceKind::Virtio(_));
    let others = slots.iter().rev().filter(|slot| !is_virtio(slot));
    let virtio = slots.iter().filter(is_virtio);
    let nodes = others.chain(virtio).filter_map(node);
    nodes.fold(root, |root, node| root.and(node))
}

/// Adds a node for each device of another VM that the guest serves.
pub(super) fn add_back_ends(root: DeviceTreeNode, all: &[GuestBackEnd<'_>]) -> DeviceTreeNode {
    all.iter().fold(root, |root, back_end| {
        let slot = back_end.slot;
        let (start, len) = (slot.region.start(), slot.region.len());
        let node = device("back-end", start)
            .with("reg", pair(start.get(), len))
            .with("compatible", "hanok,back-end")
            .with("hanok,client", back_end.client)
            .with("hanok,kind", back_end.kind.word());
        let node = match back_end.device {
            Some(device) => node.with("hanok,device", device.get()),
            None => node,
        };
        let node = match back_end.cid {
            Some(cid) => node.with("hanok,cid", u64::from(cid)),
            None => node,
        };
        let (mac, vlan) = back_end.interface.unzip();
        let node = match mac {
            Some(mac) => node.with("local-mac-address", &mac[..]),
            None => node,
        };
        let node = match vlan.flatten() {
            Some(vlan) => node.with("hanok,vlan", u32::from(vlan)),
            None => node,
        };
        let Some(line) = slot.interrupt else {
            return root.and(node);
        };
        let node = node.with("interrupts", interrupt(line));
        match back_end.source {
            Some(source) => root
                .and(of_source(node, source))
                .and(bell(slot.region.start(), line)),
            None => root.and(node),
        }
    })
}

/// The properties of what a Linux serves.
fn of_source(node: DeviceTreeNode, source: GuestSource<'_>) -> DeviceTreeNode {
    let (node, read_only) = match source {
        GuestSource::Image(image) => {
            let node = node
                .with("hanok,image", image.file)
                .with("hanok,format", image.format);
            (node, image.read_only)
        }
        GuestSource::Tap(name) => (node.with("hanok,tap", name), false),
        GuestSource::Directory(directory) => {
            let node = node
                .with("hanok,directory", directory.path)
                .with("hanok,tag", directory.tag);
            (node, directory.read_only)
        }
    };
    if read_only {
        node.flag("read-only")
    } else {
        node
    }
}

/// The interrupt of a back end as an input event: a program of Linux's serves it, which has no other way to an interrupt.
fn bell(registers: Ipa, line: IntId) -> DeviceTreeNode {
    let name = format!("hanok,back-end {:x}", registers.get());
    events(
        named(format!("back-end-{:x}", registers.get())),
        &name,
        line,
    )
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
        DeviceKind::Nor => Some(nor(slot)),
        DeviceKind::FwCfg => Some(fw_cfg(slot)),
        DeviceKind::Virtio(_) => Some(virtio(slot)),
        // What it serves is said by the tool, which knows the names; and `channels.rs` writes channels' nodes.
        DeviceKind::BackEnd
        | DeviceKind::EmptyTransports
        | DeviceKind::Flash
        | DeviceKind::Channel => None,
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

/// `Documentation/devicetree/bindings/virtio/mmio.yaml` of the Linux kernel. The interrupt's trigger is that of QEMU's tree.
fn virtio(slot: &DeviceSlot) -> DeviceTreeNode {
    let (start, len) = (slot.region.start(), slot.region.len());
    let node = device("virtio_mmio", start).flag("dma-coherent");
    let node = match slot.interrupt {
        Some(line) => node.with("interrupts", edge(line)),
        None => node,
    };
    node.with("reg", pair(start.get(), len))
        .with("compatible", "virtio,mmio")
}

/// Whoever looks for the node finds it by `compatible`: no other system has one like it.
fn schedule(slot: &DeviceSlot) -> DeviceTreeNode {
    let (start, len) = (slot.region.start(), slot.region.len());
    device("schedule", start)
        .with("reg", pair(start.get(), len))
        .with("compatible", "hanok,schedule")
}

/// One of the two banks that QEMU has in a node: the first one takes no commands.
fn nor(slot: &DeviceSlot) -> DeviceTreeNode {
    let (start, len) = (slot.region.start(), slot.region.len());
    device("flash", start)
        .with("bank-width", 4u32)
        .with("reg", pair(start.get(), len))
        .with("compatible", "cfi-flash")
}

fn fw_cfg(slot: &DeviceSlot) -> DeviceTreeNode {
    let (start, len) = (slot.region.start(), slot.region.len());
    device("fw-cfg", start)
        .with("reg", pair(start.get(), len))
        .with("compatible", "qemu,fw-cfg-mmio")
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
