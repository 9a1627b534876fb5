//! Reads a system's device tree into the model, on the board.

use crate::channel::{ChannelEnd, MAX_CHANNELS};
use crate::cores::{Ask, Claim, CorePolicy, Group, Promise, Terms, Word};
use crate::error::{TreeError, TreeNode};
use crate::fdt::{Fdt, FdtNode};
#[cfg(feature = "write")]
use crate::model::System;
use crate::model::{
    Blob, BlobKind, Line, MAX_BLOBS, MAX_DEVICES, MAX_LINES, MAX_REGISTERS, MAX_SEEDS, PassThrough,
    Registers, SystemView, Trace, VmConfig, gic_from_word,
};
use crate::slot::{DeviceKind, DeviceSlot, DeviceSlots, MAX_SLOTS, Peer};
use crate::structure;
use crate::tree::{self, Cells};
use hanok_sched::Share;
use hanok_types::{CpuId, Hpa, IntId, Ipa, MAX_CPUS, MAX_VCPUS, MAX_VMS, Span, VcpuId, VmId};
use heapless::{String, Vec};

/// The version of the system tree's binding that this code reads and writes.
pub(crate) const VERSION: u32 = 9;

/// A system's tree whose form is verified. Its parts are read one by one, into memory that the reader
/// sizes by counting the parts first. So no reader needs room for the largest system.
#[derive(Debug)]
pub struct SystemTree<'t> {
    fdt: Fdt<'t>,
    payload_len: u64,
}

impl<'t> SystemTree<'t> {
    /// [`Self::new`] for the system's tree at the start of `payload`, if its bytes have the
    /// [`crate::sum`] that the image tool computed. Without the sum, a flipped bit could go unnoticed, as
    /// the tree may still be well formed.
    pub fn verified(payload: &'t [u8], sum: u64) -> Result<Self, TreeError> {
        let tree = structure::flattened(payload)?;
        if crate::sum(tree) != sum {
            return Err(TreeError::Damaged);
        }
        Self::new(tree, payload.len() as u64)
    }

    /// The system's tree at the start of `tree`; bytes after it are ignored. `payload_len` is the length
    /// in bytes of the payload to which the blobs' offsets refer.
    pub fn new(tree: &'t [u8], payload_len: u64) -> Result<Self, TreeError> {
        let fdt = tree::open(tree)?;
        if !tree::compatible(&fdt.root(), "hanok,system") {
            return Err(TreeError::NotASystem);
        }
        match Reader::new(fdt.root(), TreeNode::Root).cell("hanok,version")? {
            VERSION => Ok(Self { fdt, payload_len }),
            other => Err(TreeError::Version(other)),
        }
    }

    /// Reads the VMs, the promises to their vCPUs, and the groups of vCPUs, and hands them to `parts`.
    pub fn each(&self, parts: &mut dyn Parts) -> Result<(), TreeError> {
        let root = self.fdt.root();
        for (index, node) in children(&root, "vms", "vm").enumerate() {
            if index >= MAX_VMS {
                return Err(TreeNode::Root.too_many("VMs", MAX_VMS));
            }
            let vm = parse_vm(node, index, parts)?;
            parts.vm(vm);
        }
        each_named(&root, "core", &mut |number, core| {
            let cpu = Reader::new(core, TreeNode::Core(number)).small("cpu")?;
            each_named(&core, "group", &mut |group, node| {
                let reader = Reader::new(node, TreeNode::Group(number, group));
                parts.group(parse_group(CpuId::new(cpu), &reader)?);
                Ok(())
            })
        })
    }

    /// The system of these parts, which were read from this tree, if it keeps every rule.
    pub fn system<'a>(
        &self,
        vms: &'a [VmConfig],
        promises: &'a [Promise],
        groups: &'a [Group],
    ) -> Result<SystemView<'a>, TreeError> {
        let root = self.fdt.root();
        let mut policies = [CorePolicy::RoundRobin; MAX_CPUS];
        each_named(&root, "core", &mut |number, core| {
            let place = TreeNode::Core(number);
            let (cpu, policy) = parse_core(&Reader::new(core, place))?;
            let own = policies.get_mut(cpu as usize);
            *own.ok_or(TreeError::Malformed { place, name: "cpu" })? = policy;
            Ok(())
        })?;
        let reader = Reader::new(root, TreeNode::Root);
        let system = SystemView {
            vms,
            promises,
            groups,
            gic: reader.read("gic", |value| gic_from_word(tree::as_text(value)?))?,
            slice: reader.cell("slice")?,
            switch_cost: reader.cell("switch-cost")?,
            trace: Trace {
                records: reader.cell("trace-records")?,
                classes: reader.cell("trace-classes")?,
            },
            policies,
        };
        system.check(self.payload_len)?;
        Ok(system)
    }
}

#[cfg(feature = "write")]
impl System {
    /// Reads a system if its tree's bytes have this sum, see [`SystemTree::verified`].
    pub fn verified(payload: &[u8], sum: u64) -> Result<Self, TreeError> {
        Self::read(&SystemTree::verified(payload, sum)?)
    }

    /// Reads a system's tree, see [`SystemTree::new`], and applies every rule.
    pub fn parse(tree: &[u8], payload_len: u64) -> Result<Self, TreeError> {
        Self::read(&SystemTree::new(tree, payload_len)?)
    }

    fn read(tree: &SystemTree<'_>) -> Result<Self, TreeError> {
        let mut system = Self::default();
        tree.each(&mut system)?;
        let SystemView {
            gic,
            slice,
            switch_cost,
            trace,
            policies,
            ..
        } = tree.system(&system.vms, &system.promises, &system.groups)?;
        Ok(Self {
            gic,
            slice,
            switch_cost,
            trace,
            policies,
            ..system
        })
    }
}

#[cfg(feature = "write")]
impl Parts for System {
    fn vm(&mut self, vm: VmConfig) {
        self.vms.push(vm);
    }

    fn promise(&mut self, promise: Promise) {
        self.promises.push(promise);
    }

    fn group(&mut self, group: Group) {
        self.groups.push(group);
    }
}

/// Takes the parts of a system as they are read.
pub trait Parts {
    /// A VM.
    fn vm(&mut self, vm: VmConfig);
    /// What a vCPU of the VM that comes next is promised.
    fn promise(&mut self, promise: Promise);
    /// A group; groups of a pCPU come in their order.
    fn group(&mut self, group: Group);
}

/// The children named `name` of the children named `group` of `node`.
fn children<'a>(
    node: &FdtNode<'a>,
    group: &'static str,
    name: &'static str,
) -> impl Iterator<Item = FdtNode<'a>> + use<'a> {
    named(node, group).flat_map(move |group| named(&group, name))
}

/// The children of `node` whose name, without the unit address, is `name`.
fn named<'a>(
    node: &FdtNode<'a>,
    name: &'static str,
) -> impl Iterator<Item = FdtNode<'a>> + use<'a> {
    node.children()
        .filter(move |child| child.name_without_address() == name)
}

/// Calls `take` for each child of `node` that is named `name`, with its number.
///
/// Kept out of line and used for several kinds of children: the code that walks a tree is long, and the
/// image has to be small.
#[inline(never)]
fn each_named<'a>(
    node: &FdtNode<'a>,
    name: &'static str,
    take: &mut dyn FnMut(usize, FdtNode<'a>) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let mut children = named(node, name).enumerate();
    children.try_for_each(|(number, child)| take(number, child))
}

fn parse_vm(node: FdtNode<'_>, index: usize, parts: &mut dyn Parts) -> Result<VmConfig, TreeError> {
    let place = TreeNode::Vm(index);
    let vm = Reader::new(node, place);
    let mut config = VmConfig {
        name: vm.read("label", |value| {
            String::try_from(tree::as_text(value)?).ok()
        })?,
        cpus: vm.cpus()?,
        memory: vm.span("memory")?,
        entry: Ipa::new(vm.cell_pair("entry")?),
        argument: vm.cell_pair("argument")?,
        blobs: Vec::new(),
        slots: DeviceSlots::new(),
        channels: Vec::new(),
        devices: Vec::new(),
        trusted: vm.boolean("trusted")?,
        autostart: vm.boolean("autostart")?,
        aarch32: vm.boolean("aarch32")?,
        rewritten: vm.boolean("rewritten")?,
        trampolines: vm.span_if_any("trampolines")?,
        watchdog: vm.cell_if_any("watchdog")?.unwrap_or(0),
    };
    each_named(&node, "promise", &mut |number, promise| {
        let reader = Reader::new(promise, TreeNode::Promise(index, number));
        parts.promise(parse_promise(VmId::new(index as u8), &reader)?);
        Ok(())
    })?;
    each_named(&node, "blob", &mut |number, blob| {
        let blob = parse_blob(&Reader::new(blob, TreeNode::Blob(index, number)))?;
        let too_many = place.too_many("blobs", MAX_BLOBS);
        config.blobs.push(blob).map_err(|_| too_many)
    })?;
    each_named(&node, "slot", &mut |number, slot| {
        let slot = parse_slot(&Reader::new(slot, TreeNode::Slot(index, number)))?;
        let too_many = place.too_many("devices of the virtual platform", MAX_SLOTS);
        config.slots.push(slot).map_err(|_| too_many)
    })?;
    each_named(&node, "channel", &mut |number, end| {
        let end = parse_channel(&Reader::new(end, TreeNode::Channel(index, number)))?;
        let too_many = place.too_many("channels", MAX_CHANNELS);
        config.channels.push(end).map_err(|_| too_many)
    })?;
    each_named(&node, "device", &mut |number, device| {
        let device = parse_device(&Reader::new(device, TreeNode::Device(index, number)))?;
        let too_many = place.too_many("devices", MAX_DEVICES);
        config.devices.push(device).map_err(|_| too_many)
    })?;
    Ok(config)
}

fn parse_core(core: &Reader<'_>) -> Result<(u32, CorePolicy), TreeError> {
    let order = core.word("order")?;
    let policy = match tree::value(&core.node, "pool") {
        Some(_) => CorePolicy::Global {
            order,
            pool: CpuId::new(core.small("pool")?),
        },
        None => CorePolicy::Servers {
            order,
            slack: core.word("slack")?,
        },
    };
    Ok((core.cell("cpu")?, policy))
}

fn parse_promise(vm: VmId, promise: &Reader<'_>) -> Result<Promise, TreeError> {
    let claim = match promise.cell_if_any("weight")? {
        Some(weight) => Claim::Share(Share {
            weight: weight.try_into().map_err(|_| promise.malformed("weight"))?,
            // A cap of all of a CPU is none.
            cap: Some(promise.small("cap")?).filter(|cap| *cap < 100),
        }),
        None => Claim::Promise {
            group: promise.small("group")?,
            terms: parse_terms(promise)?,
            ask: Ask {
                limit: promise.cell("ask-limit")?,
                shortest: promise.cell_pair("ask-shortest")?,
            },
        },
    };
    Ok(Promise {
        vm,
        vcpu: VcpuId::new(promise.small("vcpu")?),
        claim,
    })
}

fn parse_group(cpu: CpuId, group: &Reader<'_>) -> Result<Group, TreeError> {
    Ok(Group {
        cpu,
        home: group.small("home")?,
        order: group.word("order")?,
        terms: parse_terms(group)?,
    })
}

#[inline(never)]
fn parse_terms(node: &Reader<'_>) -> Result<Terms, TreeError> {
    Ok(Terms {
        kind: node.word("kind")?,
        period: node.cell_pair("period")?,
        budget: node.cell_pair("budget")?,
        deadline: node.cell_pair("deadline")?,
        priority: node.cell_pair("priority")?,
    })
}

fn parse_slot(slot: &Reader<'_>) -> Result<DeviceSlot, TreeError> {
    Ok(DeviceSlot {
        kind: slot.read("kind", |value| DeviceKind::from_word(tree::as_text(value)?))?,
        region: slot.span("region")?,
        interrupt: slot.cell_if_any("interrupt")?.map(IntId::new),
        peer: match tree::value(&slot.node, "peer-vm") {
            Some(_) => Some(Peer {
                vm: VmId::new(slot.small("peer-vm")?),
                slot: slot.small("peer-slot")?,
            }),
            None => None,
        },
    })
}

fn parse_channel(end: &Reader<'_>) -> Result<ChannelEnd, TreeError> {
    Ok(ChannelEnd {
        number: end.small("number")?,
        index: end.small("index")?,
        memory: end.span("memory")?,
        read_only: end.boolean("read-only")?,
        cached: end.boolean("cached")?,
    })
}

fn parse_device(device: &Reader<'_>) -> Result<PassThrough, TreeError> {
    let name = device.read("label", |value| {
        String::try_from(tree::as_text(value)?).ok()
    })?;
    let mut registers = Vec::new();
    let mut cells = Cells(device.read("registers", Some)?);
    while !cells.is_empty() {
        let (ipa, host, len) = (cells.two(), cells.two(), cells.two());
        let range = ipa.zip(host).zip(len).map(|((ipa, host), len)| Registers {
            ipa: Ipa::new(ipa),
            host: Hpa::new(host),
            len,
        });
        let range = range.ok_or_else(|| device.malformed("registers"))?;
        let too_many = device.place.too_many("ranges of registers", MAX_REGISTERS);
        registers.push(range).map_err(|_| too_many)?;
    }
    Ok(PassThrough {
        name,
        registers,
        interrupts: device.lines()?,
        trapped: device.boolean("trapped")?,
    })
}

fn parse_blob(blob: &Reader<'_>) -> Result<Blob, TreeError> {
    let (offset, len) = blob.read("source", |value| {
        let mut cells = Cells(value);
        let source = (cells.two()?, cells.two()?);
        cells.is_empty().then_some(source)
    })?;
    Ok(Blob {
        kind: blob.read("kind", |value| BlobKind::from_word(tree::as_text(value)?))?,
        offset,
        len,
        load: Ipa::new(blob.cell_pair("load")?),
        sum: blob.cell_pair("sum")?,
        seeds: blob.seeds()?,
        host_address: blob.cell_if_any("host-address")?,
    })
}

impl TreeNode {
    fn too_many(self, what: &'static str, most: usize) -> TreeError {
        TreeError::TooMany {
            place: self,
            what,
            most,
        }
    }
}

/// A node, and its place in the system for messages.
struct Reader<'a> {
    node: FdtNode<'a>,
    place: TreeNode,
}

impl<'a> Reader<'a> {
    fn new(node: FdtNode<'a>, place: TreeNode) -> Self {
        Self { node, place }
    }

    fn malformed(&self, name: &'static str) -> TreeError {
        let place = self.place;
        TreeError::Malformed { place, name }
    }

    /// Converts property `name` by `form`, whose answer to a value of the wrong form is `None`.
    fn read<T>(
        &self,
        name: &'static str,
        form: impl FnOnce(&'a [u8]) -> Option<T>,
    ) -> Result<T, TreeError> {
        let place = self.place;
        let value = tree::value(&self.node, name).ok_or(TreeError::Missing { place, name })?;
        form(value).ok_or_else(|| self.malformed(name))
    }

    fn word<T: Word>(&self, name: &'static str) -> Result<T, TreeError> {
        self.read(name, |value| T::from_word(tree::as_text(value)?))
    }

    fn cell(&self, name: &'static str) -> Result<u32, TreeError> {
        self.read(name, |value| value.try_into().ok().map(u32::from_be_bytes))
    }

    /// A cell that may be missing. One that is there and of another length is an error: it was meant to say something.
    #[inline(never)]
    fn cell_if_any(&self, name: &'static str) -> Result<Option<u32>, TreeError> {
        match self.cell(name) {
            Err(TreeError::Missing { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// A cell whose value is below 256.
    fn small(&self, name: &'static str) -> Result<u8, TreeError> {
        u8::try_from(self.cell(name)?).map_err(|_| self.malformed(name))
    }

    fn cell_pair(&self, name: &'static str) -> Result<u64, TreeError> {
        self.read(name, |value| value.try_into().ok().map(u64::from_be_bytes))
    }

    fn span_if_any(&self, name: &'static str) -> Result<Option<Span<Ipa>>, TreeError> {
        let there = tree::value(&self.node, name).is_some();
        there.then(|| self.span(name)).transpose()
    }

    fn span(&self, name: &'static str) -> Result<Span<Ipa>, TreeError> {
        self.read(name, |value| {
            let mut cells = Cells(value);
            cells.span().filter(|_| cells.is_empty())
        })
    }

    fn cpus(&self) -> Result<Vec<CpuId, MAX_VCPUS>, TreeError> {
        let mut cells = Cells(self.read("cpus", Some)?);
        let mut cpus = Vec::new();
        while !cells.is_empty() {
            let number = cells.one().and_then(|cell| u8::try_from(cell).ok());
            let cpu = CpuId::new(number.ok_or_else(|| self.malformed("cpus"))?);
            let too_many = self.place.too_many("vCPUs", MAX_VCPUS);
            cpus.push(cpu).map_err(|_| too_many)?;
        }
        Ok(cpus)
    }

    fn boolean(&self, name: &'static str) -> Result<bool, TreeError> {
        match self.cell(name)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed(name)),
        }
    }

    fn lines(&self) -> Result<Vec<Line, MAX_LINES>, TreeError> {
        let mut cells = Cells(tree::value(&self.node, "lines").unwrap_or_default());
        let mut lines = Vec::new();
        while !cells.is_empty() {
            let (guest, board, edge) = (cells.one(), cells.one(), cells.one());
            let edge = edge.filter(|edge| *edge <= 1);
            let line = guest
                .zip(board)
                .zip(edge)
                .map(|((guest, board), edge)| Line {
                    guest: IntId::new(guest),
                    board: IntId::new(board),
                    edge: edge == 1,
                });
            let line = line.ok_or_else(|| self.malformed("lines"))?;
            let too_many = self.place.too_many("interrupts", MAX_LINES);
            lines.push(line).map_err(|_| too_many)?;
        }
        Ok(lines)
    }

    fn seeds(&self) -> Result<Vec<(u32, u32), MAX_SEEDS>, TreeError> {
        let mut cells = Cells(tree::value(&self.node, "seeds").unwrap_or_default());
        let mut seeds = Vec::new();
        while !cells.is_empty() {
            let seed = cells.one().zip(cells.one());
            let seed = seed.ok_or_else(|| self.malformed("seeds"))?;
            let too_many = self.place.too_many("seeds", MAX_SEEDS);
            seeds.push(seed).map_err(|_| too_many)?;
        }
        Ok(seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_tree_of_another_version_is_told_which_one_is_read() {
        let text = TreeError::Version(VERSION + 1).to_string();
        let wanted = std::format!(
            "has version {}, this hypervisor reads version {VERSION}",
            VERSION + 1
        );
        assert!(text.ends_with(&wanted), "{text}");
    }
}
