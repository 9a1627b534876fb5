//! Writes the model as a device tree, on the PC, and has the helpers of both writers of trees.

use crate::channel::ChannelEnd;
use crate::cores::{Claim, CorePolicy, Group, Promise, Terms, Word};
use crate::model::{Blob, Line, PassThrough, System, VmConfig, gic_word};
use crate::parse::VERSION;
use crate::slot::DeviceSlot;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use dtoolkit::ToPropertyValue;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};

impl System {
    /// The system's tree, which [`System::parse`] reads back.
    pub fn to_tree(&self) -> Vec<u8> {
        let mut vms = node("vms");
        for (index, vm) in self.vms.iter().enumerate() {
            let mut node = vm.to_node(index);
            let own = self
                .promises
                .iter()
                .filter(|promise| promise.vm.index() == index);
            for (number, promise) in own.enumerate() {
                node.add_child(promise.to_node(number));
            }
            vms.add_child(node);
        }
        let mut root = node("")
            .with("compatible", "hanok,system")
            .with("hanok,version", VERSION)
            .with("gic", gic_word(self.gic))
            .with("slice", self.slice)
            .with("switch-cost", self.switch_cost)
            .with("trace-records", self.trace.records)
            .with("trace-classes", self.trace.classes)
            .with("#address-cells", 2u32)
            .with("#size-cells", 2u32)
            .and(vms);
        for (cpu, policy) in self.policies.iter().enumerate() {
            let own = node(format!("core@{cpu}")).with("cpu", cpu as u32);
            let core = match policy {
                CorePolicy::RoundRobin => None,
                CorePolicy::Servers { order, slack } => {
                    let core = own.with("order", order.word());
                    Some(core.with("slack", slack.word()))
                }
                CorePolicy::Global { order, pool } => {
                    let core = own.with("order", order.word());
                    Some(core.with("pool", pool.index() as u32))
                }
            };
            if let Some(mut core) = core {
                let own = self.groups.iter().filter(|group| group.cpu.index() == cpu);
                for (number, group) in own.enumerate() {
                    core.add_child(group.to_node(number));
                }
                root.add_child(core);
            }
        }
        tree(root)
    }
}

impl VmConfig {
    fn to_node(&self, index: usize) -> DeviceTreeNode {
        let cpus: Vec<u32> = self.cpus.iter().map(|cpu| cpu.index() as u32).collect();
        let mut vm = node(format!("vm@{index}"))
            .with("label", self.name.as_str())
            .with("cpus", cpus)
            .with("memory", pair(self.memory.start().get(), self.memory.len()))
            .with("entry", self.entry.get())
            .with("argument", self.argument)
            .with("trusted", u32::from(self.trusted))
            .with("autostart", u32::from(self.autostart))
            .with("aarch32", u32::from(self.aarch32))
            .with("rewritten", u32::from(self.rewritten));
        if let Some(span) = self.trampolines {
            vm = vm.with("trampolines", pair(span.start().get(), span.len()));
        }
        if self.watchdog > 0 {
            vm = vm.with("watchdog", self.watchdog);
        }
        for (number, blob) in self.blobs.iter().enumerate() {
            vm.add_child(blob.to_node(number));
        }
        for (number, slot) in self.slots.iter().enumerate() {
            vm.add_child(slot.to_node(number));
        }
        for (number, end) in self.channels.iter().enumerate() {
            vm.add_child(end.to_node(number));
        }
        for (number, device) in self.devices.iter().enumerate() {
            vm.add_child(device.to_node(number));
        }
        vm
    }
}

impl Promise {
    fn to_node(self, number: usize) -> DeviceTreeNode {
        let node = node(format!("promise@{number}")).with("vcpu", self.vcpu.index() as u32);
        match self.claim {
            Claim::Promise { group, terms, ask } => terms
                .add_to(node.with("group", u32::from(group)))
                .with("ask-limit", ask.limit)
                .with("ask-shortest", ask.shortest),
            Claim::Share(share) => node
                .with("weight", u32::from(share.weight))
                .with("cap", u32::from(share.cap.unwrap_or(100))),
        }
    }
}

impl Group {
    fn to_node(self, number: usize) -> DeviceTreeNode {
        let node = node(format!("group@{number}"))
            .with("home", u32::from(self.home))
            .with("order", self.order.word());
        self.terms.add_to(node)
    }
}

impl Terms {
    fn add_to(self, node: DeviceTreeNode) -> DeviceTreeNode {
        node.with("kind", self.kind.word())
            .with("period", self.period)
            .with("budget", self.budget)
            .with("deadline", self.deadline)
            .with("priority", self.priority)
    }
}

impl DeviceSlot {
    fn to_node(self, number: usize) -> DeviceTreeNode {
        let node = node(format!("slot@{number}"))
            .with("kind", self.kind.word())
            .with("region", pair(self.region.start().get(), self.region.len()));
        let node = match self.interrupt {
            Some(line) => node.with("interrupt", line.get()),
            None => node,
        };
        match self.peer {
            Some(peer) => node
                .with("peer-vm", peer.vm.index() as u32)
                .with("peer-slot", u32::from(peer.slot)),
            None => node,
        }
    }
}

impl ChannelEnd {
    fn to_node(self, number: usize) -> DeviceTreeNode {
        node(format!("channel@{number}"))
            .with("number", u32::from(self.number))
            .with("index", u32::from(self.index))
            .with("memory", pair(self.memory.start().get(), self.memory.len()))
            .with("read-only", u32::from(self.read_only))
            .with("cached", u32::from(self.cached))
    }
}

impl PassThrough {
    fn to_node(&self, number: usize) -> DeviceTreeNode {
        let ranges = self.registers.iter();
        let longs = ranges.flat_map(|range| [range.ipa.get(), range.host.get(), range.len]);
        let registers: Vec<u8> = longs.flat_map(u64::to_be_bytes).collect();
        let device = node(format!("device@{number}"))
            .with("label", self.name.as_str())
            .with("registers", registers)
            .with("trapped", u32::from(self.trapped));
        if self.interrupts.is_empty() {
            return device;
        }
        let lines = self.interrupts.iter();
        let cells = |line: &Line| [line.guest.get(), line.board.get(), line.edge.into()];
        device.with("lines", lines.flat_map(cells).collect::<Vec<u32>>())
    }
}

impl Blob {
    fn to_node(&self, number: usize) -> DeviceTreeNode {
        let blob = node(format!("blob@{number}"))
            .with("kind", self.kind.word())
            .with("source", pair(self.offset, self.len))
            .with("load", self.load.get())
            .with("sum", self.sum);
        let blob = match self.host_address {
            Some(offset) => blob.with("host-address", offset),
            None => blob,
        };
        if self.seeds.is_empty() {
            return blob;
        }
        let seeds: Vec<u32> = self
            .seeds
            .iter()
            .flat_map(|seed| [seed.0, seed.1])
            .collect();
        blob.with("seeds", seeds)
    }
}

/// A node whose name this crate knows to be valid.
pub(crate) fn node(name: impl Into<String>) -> DeviceTreeNode {
    DeviceTreeNode::new_unchecked(name)
}

/// Address and size, of two cells each.
pub(crate) fn pair(first: u64, second: u64) -> Vec<u8> {
    [first.to_be_bytes(), second.to_be_bytes()].concat()
}

/// The flattened tree under `root`.
pub(crate) fn tree(root: DeviceTreeNode) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    tree.root = root;
    tree.to_dtb()
}

/// Methods to build a node in one expression.
pub(crate) trait Build {
    /// Adds a property, whose name this crate knows to be valid.
    fn with(self, name: &str, value: impl ToPropertyValue) -> Self;
    /// Adds a property without a value.
    fn flag(self, name: &str) -> Self;
    /// Adds a child.
    fn and(self, child: DeviceTreeNode) -> Self;
}

impl Build for DeviceTreeNode {
    fn with(mut self, name: &str, value: impl ToPropertyValue) -> Self {
        self.add_property(DeviceTreeProperty::new_unchecked(name, value));
        self
    }

    fn flag(self, name: &str) -> Self {
        self.with(name, Vec::<u8>::new())
    }

    fn and(mut self, child: DeviceTreeNode) -> Self {
        self.add_child(child);
        self
    }
}
