//! The device tree of a guest: it describes exactly the devices that its VM has, with the names, layout
//! and phandles of QEMU's `virt`, so that a guest that finds its devices there finds them here, too.
//!
//! Bindings are those of the Devicetree Specification v0.4 and of the Linux kernel's
//! Documentation/devicetree/bindings.

mod channels;
mod devices;
mod screens;
mod slots;

pub use channels::GuestChannel;
pub use screens::{GuestPanel, GuestScreen, ScreenMode};

use crate::board::HostDevice;
use crate::model::PassThrough;
use crate::slot::{DeviceSlot, VirtioKind};
use crate::tree as read;
use crate::write::{Build, node, pair, tree};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use dtoolkit::model::DeviceTreeNode;
use hanok_types::{GICV2_CPUS, GicVersion, IntId, Ipa, Span, VcpuId, platform};

/// The parameters of a guest's tree.
#[derive(Clone, Copy, Debug)]
pub struct GuestTree<'a> {
    /// The VM's name.
    pub name: &'a str,
    /// Rows and columns of the user's terminal, if there is one.
    pub terminal: Option<(u16, u16)>,
    /// The number of vCPUs; each has the affinity of [`VcpuId::affinity`].
    pub vcpus: usize,
    /// RAM.
    pub memory: Span<Ipa>,
    /// The kernel's command line.
    pub bootargs: &'a str,
    /// The guest's addresses of the initramfs.
    pub initramfs: Option<Span<Ipa>>,
    /// RAM that the kernel leaves alone: it holds code that was added to the kernel.
    pub reserved: Option<Span<Ipa>>,
    /// The version of the VM's interrupt controller.
    pub gic: GicVersion,
    /// Its devices of the virtual platform.
    pub slots: &'a [DeviceSlot],
    /// Its channels.
    pub channels: &'a [GuestChannel<'a>],
    /// The devices that are passed through to it.
    pub devices: &'a [GuestDevice<'a>],
    /// What it serves for other VMs.
    pub back_ends: &'a [GuestBackEnd<'a>],
}

/// A virtio device of another VM that the guest serves.
#[derive(Clone, Copy, Debug)]
pub struct GuestBackEnd<'a> {
    /// Its slot here.
    pub slot: &'a DeviceSlot,
    /// The name of the other VM.
    pub client: &'a str,
    /// What the device is.
    pub kind: VirtioKind,
    /// The guest's address of the registers of the board's device behind it, if there is one.
    pub device: Option<Ipa>,
    /// Of sockets, the client's CID (virtio 1.2, 5.10.4).
    pub cid: Option<u32>,
    /// Of a network, the client's MAC address and its VLAN.
    pub interface: Option<([u8; 6], Option<u16>)>,
    /// What is behind it in a guest that is a Linux.
    pub source: Option<GuestSource<'a>>,
}

/// What a program of a Linux serves another VM's device with.
#[derive(Clone, Copy, Debug)]
pub enum GuestSource<'a> {
    /// A disk, by a file.
    Image(GuestImage<'a>),
    /// A network, by the tap interface of this name.
    Tap(&'a str),
    /// A directory, by one of its own.
    Directory(GuestDirectory<'a>),
}

/// A directory in the file systems of the VM that serves it.
#[derive(Clone, Copy, Debug)]
pub struct GuestDirectory<'a> {
    /// Its absolute path.
    pub path: &'a str,
    /// The name by which the client mounts it.
    pub tag: &'a str,
    /// Whether the client may only read it.
    pub read_only: bool,
}

/// An image of a disk, in the file systems of the VM that serves it.
#[derive(Clone, Copy, Debug)]
pub struct GuestImage<'a> {
    /// The absolute path of the file.
    pub file: &'a str,
    /// How the content lies in it, by a word of the description.
    pub format: &'a str,
    /// Whether the client may only read it.
    pub read_only: bool,
}

/// A device that is passed through.
#[derive(Clone, Copy, Debug)]
pub struct GuestDevice<'a> {
    /// Its description in the board's tree.
    pub host: &'a HostDevice,
    /// The registers and interrupts that the VM gets, with the guest's addresses.
    pub given: &'a PassThrough,
}

const CLOCK_HANDLE: u32 = 0x8000;
const GIC_HANDLE: u32 = 0x8001;
const RNG_SEED_LEN: usize = 32;
const KASLR_SEED_LEN: usize = 8;
/// The phandle of the first clock of devices that are passed through; the others follow.
const DEVICE_CLOCK_HANDLE: u32 = 0x8100;
const LEVEL_HIGH: u32 = 4;
const EDGE_RISING: u32 = 1;
/// Only with a GICv2: the CPUs to which a private interrupt goes, from this bit of its flags on.
const PPI_CPUS_SHIFT: u32 = 8;

/// Memory that is reserved, and mapped as all of RAM is (Devicetree Specification v0.4, 3.5).
fn reserved(span: Span<Ipa>) -> DeviceTreeNode {
    let start = span.start().get();
    let child = node(format!("code@{start:x}")).with("reg", pair(start, span.len()));
    node("reserved-memory")
        .flag("ranges")
        .with("#size-cells", 2u32)
        .with("#address-cells", 2u32)
        .and(child)
}

/// A guest's tree in its flattened form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset and length of the properties `rng-seed` and `kaslr-seed`, which are zero, and
    /// which the board fills with random bytes before the guest begins.
    pub seeds: Vec<(u32, u32)>,
    /// The offset of the address that a bus master uses for the first byte of RAM. It is zero, and the board
    /// replaces it by RAM's host address (big-endian, 8 bytes), and those behind it by those of channels' memory. `None`
    /// without a bus master.
    pub host_address: Option<u32>,
}

impl GuestTree<'_> {
    /// A node that QEMU's tree does not have. It says that this is a VM, for programs that want to know
    /// (`systemd-detect-virt` and others look for this node), and gives userlands the VM's name and the size
    /// of the terminal.
    fn hypervisor(&self) -> DeviceTreeNode {
        let node = node("hypervisor")
            .with("compatible", "hanok,hypervisor")
            .with("hanok,vm", self.name);
        match self.terminal {
            Some((rows, columns)) => {
                node.with("hanok,terminal", format!("{rows} {columns}").as_str())
            }
            None => node,
        }
    }

    /// Writes the tree.
    pub fn write(&self) -> Written {
        let bytes = tree(self.root());
        let seeds = seeds(&bytes).unwrap_or_default();
        let host_address = devices::host_address(&bytes);
        Written {
            bytes,
            seeds,
            host_address,
        }
    }

    fn root(&self) -> DeviceTreeNode {
        let root = node("")
            .with("interrupt-parent", GIC_HANDLE)
            .flag("dma-coherent")
            .with("model", "linux,dummy-virt")
            .with("#size-cells", 2u32)
            .with("#address-cells", 2u32)
            .with("compatible", "linux,dummy-virt")
            .and(psci())
            .and(self.hypervisor())
            .and(self.memory());
        let root = match self.reserved {
            Some(span) => root.and(reserved(span)),
            None => root,
        };
        let root = slots::add(root, self.slots)
            .and(self.gic())
            .and(self.cpus())
            .and(self.timer())
            .and(clock())
            .and(self.aliases())
            .and(self.chosen());
        let root = slots::add_back_ends(root, self.back_ends);
        let root = channels::add(root, self.channels);
        let channels = self.channels.iter().map(|channel| channel.end.memory);
        let memory = core::iter::once(self.memory).chain(channels);
        devices::add(root, self.devices, memory)
    }

    fn memory(&self) -> DeviceTreeNode {
        node(format!("memory@{:x}", self.memory.start().get()))
            .with("reg", pair(self.memory.start().get(), self.memory.len()))
            .with("device_type", "memory")
    }

    fn gic(&self) -> DeviceTreeNode {
        let redistributors = self.vcpus as u64 * platform::GIC_REDIST_STRIDE;
        let intc = device("intc", platform::GIC_DIST).with("phandle", GIC_HANDLE);
        let intc = match self.gic {
            GicVersion::V2 => {
                let reg = [
                    pair(platform::GIC_DIST.get(), platform::GIC_V2_FRAME_SIZE),
                    pair(platform::GIC_V2_CPU.get(), platform::GIC_V2_FRAME_SIZE),
                ];
                intc.with("reg", reg.concat())
                    .with("compatible", "arm,cortex-a15-gic")
            }
            GicVersion::V3 => {
                let reg = [
                    pair(platform::GIC_DIST.get(), platform::GIC_DIST_SIZE),
                    pair(platform::GIC_REDIST.get(), redistributors),
                ];
                intc.with("reg", reg.concat())
                    .with("#redistributor-regions", 1u32)
                    .with("compatible", "arm,gic-v3")
            }
        };
        intc.flag("ranges")
            .with("#size-cells", 2u32)
            .with("#address-cells", 2u32)
            .flag("interrupt-controller")
            .with("#interrupt-cells", 3u32)
    }

    fn cpus(&self) -> DeviceTreeNode {
        let cpus = node("cpus")
            .with("#size-cells", 0u32)
            .with("#address-cells", 1u32);
        (0..self.vcpus).fold(cpus, |cpus, index| {
            let affinity = VcpuId::new(index as u8).affinity();
            cpus.and(
                node(format!("cpu@{affinity:x}"))
                    .with("reg", affinity as u32)
                    .with("enable-method", "psci")
                    .with("compatible", "arm,armv8")
                    .with("device_type", "cpu"),
            )
        })
    }

    fn timer(&self) -> DeviceTreeNode {
        let compatible = ["arm,armv8-timer", "arm,armv7-timer"];
        let interrupts = [
            platform::TIMER_SECURE_IRQ,
            platform::TIMER_PHYSICAL_IRQ,
            platform::TIMER_VIRTUAL_IRQ,
            platform::TIMER_HYP_IRQ,
        ];
        let cells = interrupts.map(|id| {
            let [kind, number, flags] = interrupt(id);
            [kind, number, flags | self.ppi_cpus()]
        });
        node("timer")
            .with("interrupts", cells.concat())
            .flag("always-on")
            .with("compatible", compatible.as_slice())
    }

    /// The CPUs of a private interrupt, in its flags, which only GICv2's binding has.
    fn ppi_cpus(&self) -> u32 {
        let cpus = self.vcpus.min(GICV2_CPUS) as u32;
        match self.gic {
            GicVersion::V2 => ((1 << cpus) - 1) << PPI_CPUS_SHIFT,
            GicVersion::V3 => 0,
        }
    }

    fn aliases(&self) -> DeviceTreeNode {
        let aliases = node("aliases");
        match slots::serial_path(self.slots) {
            Some(path) => aliases.with("serial0", path.as_str()),
            None => aliases,
        }
    }

    fn chosen(&self) -> DeviceTreeNode {
        let chosen = node("chosen");
        let chosen = match slots::serial_path(self.slots) {
            Some(path) => chosen.with("stdout-path", path.as_str()),
            None => chosen,
        };
        let chosen = chosen
            .with("bootargs", self.bootargs)
            .with("rng-seed", [0u8; RNG_SEED_LEN])
            .with("kaslr-seed", [0u8; KASLR_SEED_LEN]);
        match self.initramfs {
            None => chosen,
            Some(span) => chosen
                .with("linux,initrd-start", span.start().get())
                .with("linux,initrd-end", span.end().get()),
        }
    }
}

fn device(name: &str, at: Ipa) -> DeviceTreeNode {
    node(format!("{name}@{:x}", at.get()))
}

/// An interrupt in the GIC's binding: type, number, flags.
fn interrupt(id: IntId) -> [u32; 3] {
    if id.is_private() {
        [1, id.get() - 16, LEVEL_HIGH]
    } else {
        [0, id.get() - 32, LEVEL_HIGH]
    }
}

/// [`interrupt`] that is triggered by a rising edge.
fn edge(id: IntId) -> [u32; 3] {
    let [kind, number, _] = interrupt(id);
    [kind, number, EDGE_RISING]
}

fn psci() -> DeviceTreeNode {
    let compatible = ["arm,psci-1.0", "arm,psci-0.2"];
    node("psci")
        .with("method", "hvc")
        .with("compatible", compatible.as_slice())
}

fn clock() -> DeviceTreeNode {
    node("apb-pclk")
        .with("phandle", CLOCK_HANDLE)
        .with("clock-output-names", "clk24mhz")
        .with("clock-frequency", 24_000_000u32)
        .with("#clock-cells", 0u32)
        .with("compatible", "fixed-clock")
}

/// The ranges of the seeds in a flattened tree.
fn seeds(bytes: &[u8]) -> Option<Vec<(u32, u32)>> {
    let chosen = read::open(bytes).ok()?.root().child("chosen")?;
    let mut seeds = vec![];
    for name in ["rng-seed", "kaslr-seed"] {
        let value = read::value(&chosen, name)?;
        let offset = (value.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        seeds.push((
            u32::try_from(offset).ok()?,
            u32::try_from(value.len()).ok()?,
        ));
    }
    Some(seeds)
}
