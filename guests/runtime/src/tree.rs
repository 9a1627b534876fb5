//! Reads the device tree (Devicetree Specification 0.4): the devices, the CPUs, the command line.
//! In every tree that the programs get, these are directly below the root.

use crate::console::Sink;
use crate::gic::Layout;
use crate::psci::Conduit;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use heapless::Vec;

/// The largest number of register areas in a tree.
pub const MAX_AREAS: usize = 64;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first address.
    pub start: u64,
    /// The size in bytes.
    pub size: u64,
}

impl Area {
    /// The first address behind it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }
}

/// What the tree says of the machine.
pub struct Machine {
    /// The command line.
    pub bootargs: &'static str,
    /// The number of CPUs.
    pub cpus: usize,
    /// RAM.
    pub ram: Area,
    /// The interrupt controller.
    pub gic: Layout,
    /// The virtual timer's interrupt, where the tree has a generic timer.
    pub timer: Option<u32>,
    /// How PSCI is called: by HVC where the tree says nothing.
    pub psci: Conduit,
    /// Where to say something: Xen's console where the tree says that Xen has one, else the UART.
    pub console: Sink,
    /// The registers of all devices.
    pub devices: Vec<Area, MAX_AREAS>,
    /// The tree itself.
    pub tree: Area,
    /// The initramfs, where there is one.
    pub initramfs: Option<Area>,
    /// Random bytes: `rng-seed` and `kaslr-seed`; empty where the tree has none.
    pub seeds: [&'static [u8]; 2],
}

impl Machine {
    /// Reads the tree.
    ///
    /// # Safety
    ///
    /// `tree` is the address of a device tree, mapped, that nobody changes.
    pub unsafe fn read(tree: u64) -> Result<Self, &'static str> {
        // SAFETY: the caller's promise.
        let blob = unsafe { blob(tree) };
        let fdt =
            Fdt::new(blob).map_err(|_| "the boot protocol's register holds no device tree")?;
        let root = Root::new(fdt.root()).ok_or("the tree's addresses have no 1 or 2 cells")?;
        Ok(Self {
            bootargs: root.bootargs().unwrap_or(""),
            cpus: root.cpus(),
            ram: root.ram().ok_or("the tree has no memory")?,
            gic: root
                .gic()
                .ok_or("the tree has no interrupt controller that is known")?,
            timer: root.timer(),
            psci: root.psci(),
            console: root.console().ok_or("the tree has no console")?,
            devices: root.devices(),
            tree: Area {
                start: tree,
                size: blob.len() as u64,
            },
            initramfs: root.initramfs(),
            seeds: ["rng-seed", "kaslr-seed"].map(|name| root.seed(name)),
        })
    }

    /// The value of the last word of the command line that begins with `key`, so that added words
    /// take precedence.
    pub fn value(&self, key: &str) -> Option<&'static str> {
        let words = self.bootargs.split_ascii_whitespace();
        words.filter_map(|word| word.strip_prefix(key)).next_back()
    }
}

/// The tree at `tree`, as long as its header says.
///
/// # Safety
///
/// As for [`Machine::read`].
pub unsafe fn blob(tree: u64) -> &'static [u8] {
    // SAFETY: the caller vouches for the header, so for its length too.
    unsafe {
        let header = tree as usize as *const [u8; 8];
        let [a, b, c, d] = (*header).last_chunk().copied().unwrap_or_default();
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        core::slice::from_raw_parts(tree as usize as *const u8, size)
    }
}

/// The command line alone.
///
/// # Safety
///
/// As for [`Machine::read`].
pub unsafe fn bootargs(tree: u64) -> Option<&'static str> {
    // SAFETY: the caller's promise.
    let fdt = Fdt::new(unsafe { blob(tree) }).ok()?;
    Root::new(fdt.root())?.bootargs()
}

/// The root, and the numbers of cells in its children's `reg`.
struct Root {
    node: FdtNode<'static>,
    address_cells: usize,
    size_cells: usize,
}

impl Root {
    fn new(node: FdtNode<'static>) -> Option<Self> {
        let cells = |name| {
            let value = property(&node, name)?;
            let count = number(value.first_chunk::<4>()?);
            (1..=2).contains(&count).then_some(count as usize)
        };
        Some(Self {
            address_cells: cells("#address-cells")?,
            size_cells: cells("#size-cells")?,
            node,
        })
    }

    fn bootargs(&self) -> Option<&'static str> {
        let chosen = self.node.children().find(|node| node.name() == "chosen")?;
        let text = property(&chosen, "bootargs")?;
        core::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
    }

    /// The initramfs, where the boot loader put one (Linux, Documentation/arch/arm64/booting.rst).
    fn initramfs(&self) -> Option<Area> {
        let chosen = self.node.children().find(|node| node.name() == "chosen")?;
        let start = number(property(&chosen, "linux,initrd-start")?);
        let end = number(property(&chosen, "linux,initrd-end")?);
        let size = end.checked_sub(start)?;
        Some(Area { start, size })
    }

    fn seed(&self, name: &str) -> &'static [u8] {
        let chosen = self.node.children().find(|node| node.name() == "chosen");
        chosen
            .and_then(|node| property(&node, name))
            .unwrap_or_default()
    }

    fn cpus(&self) -> usize {
        let cpus = self.node.children().find(|node| node.name() == "cpus");
        cpus.map_or(1, |cpus| {
            let named = cpus
                .children()
                .filter(|node| node.name().starts_with("cpu@"));
            named.count()
        })
    }

    fn ram(&self) -> Option<Area> {
        let mut nodes = self.node.children();
        let memory = nodes.find(|node| node.name().starts_with("memory"))?;
        self.areas(property(&memory, "reg")?).next()
    }

    fn gic(&self) -> Option<Layout> {
        if let Some(node) = self.compatible("arm,gic-v3") {
            let [distributor, redistributors] = self.first_two(&node)?;
            return Some(Layout::V3 {
                distributor,
                redistributors,
            });
        }
        let node = self.compatible_with_one_of(&["arm,cortex-a15-gic", "arm,gic-400"])?;
        let [distributor, cpu] = self.first_two(&node)?;
        Some(Layout::V2 { distributor, cpu })
    }

    /// The third of the timer's interrupts is the virtual one; each has three cells, the first 1
    /// for one that is private to a CPU, the second its number from 16 on.
    fn timer(&self) -> Option<u32> {
        let node = self.compatible_with_one_of(&["arm,armv8-timer", "arm,armv7-timer"])?;
        let (cells, _) = property(&node, "interrupts")?.as_chunks::<4>();
        let [kind, id] = [6, 7].map(|at| cells.get(at).map(|cell| number(cell)));
        let private = kind? == 1 && id? < 16;
        private.then_some(id? as u32 + 16)
    }

    fn psci(&self) -> Conduit {
        let node = self.compatible_with_one_of(&["arm,psci-1.0", "arm,psci-0.2"]);
        match node.and_then(|node| property(&node, "method")) {
            Some(b"smc\0") => Conduit::Smc,
            _ => Conduit::Hvc,
        }
    }

    fn console(&self) -> Option<Sink> {
        if self.compatible("xen,xen").is_some() {
            return Some(Sink::Xen);
        }
        let first = |node| Some(self.areas(property(&node, "reg")?).next()?.start);
        match self.compatible("arm,pl011") {
            Some(node) => first(node).map(Sink::Pl011),
            None => first(self.compatible("arm,sbsa-uart")?).map(Sink::SbsaUart),
        }
    }

    /// The registers of every device, which is a node with a `compatible`. A bus of devices
    /// (`platform-bus`) has none of its own, and the programs get no devices on it.
    fn devices(&self) -> Vec<Area, MAX_AREAS> {
        let nodes = self.node.children();
        nodes
            .filter(|node| property(node, "compatible").is_some())
            .filter_map(|node| property(&node, "reg"))
            .flat_map(|reg| self.areas(reg))
            .take(MAX_AREAS)
            .collect()
    }

    fn compatible(&self, name: &str) -> Option<FdtNode<'static>> {
        self.node.children().find(|node| {
            let names = property(node, "compatible").unwrap_or_default();
            let mut names = names.split(|byte| *byte == 0);
            names.any(|one| one == name.as_bytes())
        })
    }

    fn compatible_with_one_of(&self, names: &[&str]) -> Option<FdtNode<'static>> {
        names.iter().find_map(|name| self.compatible(name))
    }

    /// Where the first two areas of a node's registers start.
    fn first_two(&self, node: &FdtNode<'static>) -> Option<[u64; 2]> {
        let mut areas = self.areas(property(node, "reg")?);
        Some([areas.next()?.start, areas.next()?.start])
    }

    /// The areas in a `reg`: starts and sizes.
    fn areas(&self, reg: &'static [u8]) -> impl Iterator<Item = Area> + use<> {
        let address = self.address_cells * 4;
        let pairs = reg.chunks_exact(address + self.size_cells * 4);
        pairs.map(move |pair| {
            let (start, size) = pair.split_at(address);
            Area {
                start: number(start),
                size: number(size),
            }
        })
    }
}

/// The value of a node's property.
pub fn property(node: &FdtNode<'static>, name: &str) -> Option<&'static [u8]> {
    let property = node.properties().find(|property| property.name() == name)?;
    property.value_as::<&'static [u8]>().ok()
}

/// The number in these bytes, the most significant first.
pub fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
