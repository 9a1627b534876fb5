//! Channels between VMs in the guest's tree: one node for each, found by `compatible = "hanok,channel"` and its name.

use super::{GuestScreen, device, edge, interrupt};
use crate::channel::ChannelEnd;
use crate::write::{Build, node, pair};
use alloc::format;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::IntId;

/// A channel, as one of its members is told of it.
#[derive(Clone, Copy, Debug)]
pub struct GuestChannel<'a> {
    /// Its name.
    pub name: &'a str,
    /// The names of all members' VMs, by their index.
    pub members: &'a [&'a str],
    /// The VM's own end.
    pub end: &'a ChannelEnd,
    /// Whether the doorbell is an input event for programs of a Linux that has no driver for channels.
    pub events: bool,
    /// What it is, if its memory holds the pictures of a screen.
    pub screen: Option<GuestScreen>,
}

/// BTN_TRIGGER_HAPPY1 of Linux's input-event-codes.h: a key that no desktop has a use for.
const EVENT_CODE: u32 = 0x2c0;

/// Adds the nodes of `channels` to `root`.
pub(super) fn add(root: DeviceTreeNode, channels: &[GuestChannel<'_>]) -> DeviceTreeNode {
    channels
        .iter()
        .fold(root, |root, channel| channel.add(root))
}

impl GuestChannel<'_> {
    fn add(&self, root: DeviceTreeNode) -> DeviceTreeNode {
        let Some((slot, line)) = self
            .end
            .slot()
            .and_then(|slot| Some((slot, slot.interrupt?)))
        else {
            return root;
        };
        let panel = match self.screen {
            Some(GuestScreen {
                mode, panel: None, ..
            }) => return root.and(mode.frame_buffer(self.end.memory.start())),
            Some(GuestScreen { mode, panel }) => panel.map(|panel| (mode, panel)),
            None => None,
        };
        let (registers, memory) = (slot.region, self.end.memory);
        let reg = [
            pair(registers.start().get(), registers.len()),
            pair(memory.start().get(), memory.len()),
        ];
        let names = ["registers", "memory"];
        let (name, compatible) = match panel {
            Some(_) => ("screen", "hanok,screen"),
            None => ("channel", "hanok,channel"),
        };
        let mut node = device(name, registers.start())
            .with("reg", reg.concat())
            .with("reg-names", names.as_slice())
            .with("interrupts", interrupt(line))
            .with("hanok,name", self.name)
            .with("hanok,members", self.members)
            .with("hanok,index", u32::from(self.end.index))
            .with("compatible", compatible);
        if self.end.read_only {
            node = node.flag("read-only");
        }
        if self.end.cached {
            node = node.flag("hanok,cached");
        }
        if let Some((mode, panel)) = panel {
            node = panel.add_to(mode.add_to(node));
        }
        let root = root.and(node);
        if self.events {
            root.and(self.event(line))
        } else {
            root
        }
    }

    /// The doorbell as a key of Linux's gpio-keys, which needs no GPIO: each rising edge of the line is an event. The driver
    /// does not acknowledge a ring, so that the line must be none that is triggered by level.
    fn event(&self, line: IntId) -> DeviceTreeNode {
        let name = format!("hanok,channel {}", self.name);
        events(node(format!("channel-{}", self.name)), &name, line)
    }
}

/// The node `keys`, as that of an input device called `name`, which has an event for each rising edge of `line`.
pub(super) fn events(keys: DeviceTreeNode, name: &str, line: IntId) -> DeviceTreeNode {
    let bell = node("bell")
        .with("label", name)
        .with("linux,code", EVENT_CODE)
        .with("debounce-interval", 0u32)
        .with("interrupts", edge(line));
    keys.with("label", name)
        .with("compatible", "gpio-keys")
        .and(bell)
}
