//! Reads the device tree (Devicetree Specification 0.4): the devices' addresses, and the command
//! line. On this platform all devices are directly below the root.

use crate::mmio::Registers;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

/// The interrupt controller.
pub enum GicNode {
    /// GICv2.
    V2 {
        /// GICD.
        distributor: Registers,
        /// GICC.
        cpu: Registers,
    },
    /// GICv3.
    V3 {
        /// GICD.
        distributor: Registers,
        /// GICR of all CPUs.
        redistributors: Registers,
    },
}

/// The machine's devices.
pub struct Machine {
    /// The serial port, a PL011.
    pub uart: Registers,
    /// The interrupt controller.
    pub gic: GicNode,
    /// The virtual timer's interrupt.
    pub timer: u32,
    /// Whether PSCI is called by SMC.
    pub psci_by_smc: bool,
    /// The command line.
    pub bootargs: &'static str,
}

impl Machine {
    /// Reads the tree.
    ///
    /// # Safety
    ///
    /// `tree` is the address of a device tree, mapped, that nobody changes and that
    /// describes this machine.
    pub unsafe fn read(tree: usize) -> Result<Self, &'static str> {
        // SAFETY: the caller vouches for the header, so for its length too.
        let blob = unsafe {
            let header = &*(tree as *const [u8; 8]);
            let size = header.last_chunk().copied().unwrap_or_default();
            core::slice::from_raw_parts(tree as *const u8, u32::from_be_bytes(size) as usize)
        };
        let fdt = Fdt::new(blob).map_err(|_| "the boot loader gave no device tree")?;
        let root = Root(fdt.root());
        // SAFETY: the caller vouches for what the tree says of the machine.
        unsafe {
            Ok(Self {
                uart: root.registers("arm,pl011", 0).ok_or("no PL011")?,
                gic: root.gic().ok_or("no interrupt controller")?,
                timer: root.timer().ok_or("no timer")?,
                psci_by_smc: root.psci_by_smc(),
                bootargs: root.bootargs().unwrap_or(""),
            })
        }
    }
}

struct Root(FdtNode<'static>);

impl Root {
    fn compatible(&self, name: &str) -> Option<FdtNode<'static>> {
        let is = |node: &FdtNode<'static>| {
            let names = value(node, "compatible").unwrap_or_default();
            names
                .split(|byte| *byte == 0)
                .any(|one| one == name.as_bytes())
        };
        self.0.children().find(is)
    }

    /// The node's range of registers number `index`.
    ///
    /// # Safety
    ///
    /// The tree describes this machine.
    unsafe fn registers(&self, compatible: &str, index: usize) -> Option<Registers> {
        let node = self.compatible(compatible)?;
        let address = cells(value(&self.0, "#address-cells")?, 0, 1)? as usize;
        let size = cells(value(&self.0, "#size-cells")?, 0, 1)? as usize;
        let reg = value(&node, "reg")?;
        let at = index * (address + size);
        let base = usize::try_from(cells(reg, at, address)?).ok()?;
        let length = usize::try_from(cells(reg, at + address, size)?).ok()?;
        // SAFETY: the tree says so. Devices below 1 GiB are mapped as such.
        (base < 1 << 30).then(|| unsafe { Registers::new(base, length) })
    }

    /// # Safety
    ///
    /// The tree describes this machine.
    unsafe fn gic(&self) -> Option<GicNode> {
        const V3: &str = "arm,gic-v3";
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(distributor) = self.registers(V3, 0) {
                let redistributors = self.registers(V3, 1)?;
                return Some(GicNode::V3 {
                    distributor,
                    redistributors,
                });
            }
            let v2 = ["arm,cortex-a15-gic", "arm,gic-400"];
            v2.into_iter().find_map(|name| {
                Some(GicNode::V2 {
                    distributor: self.registers(name, 0)?,
                    cpu: self.registers(name, 1)?,
                })
            })
        }
    }

    /// The interrupt of the virtual timer, which is the third of the timer's. Each has three cells:
    /// the first is 1 for an interrupt that is private to a CPU, the second is its number, counted
    /// from 16.
    fn timer(&self) -> Option<u32> {
        let node = self
            .compatible("arm,armv8-timer")
            .or_else(|| self.compatible("arm,armv7-timer"))?;
        let interrupts = value(&node, "interrupts")?;
        let private = cells(interrupts, 6, 1)? == 1;
        let number = u32::try_from(cells(interrupts, 7, 1)?).ok()?;
        (private && number < 16).then_some(number + 16)
    }

    fn psci_by_smc(&self) -> bool {
        let names = ["arm,psci-1.0", "arm,psci-0.2"];
        let node = names.into_iter().find_map(|name| self.compatible(name));
        node.and_then(|node| value(&node, "method")) == Some(b"smc\0")
    }

    fn bootargs(&self) -> Option<&'static str> {
        let chosen = self.0.children().find(|node| node.name() == "chosen")?;
        let text = value(&chosen, "bootargs")?;
        core::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
    }
}

fn value(node: &FdtNode<'static>, name: &str) -> Option<&'static [u8]> {
    let property = node.properties().find(|property| property.name() == name)?;
    property.value_as::<&'static [u8]>().ok()
}

/// The number in `count` cells, 1 or 2, from cell `at` on.
fn cells(value: &[u8], at: usize, count: usize) -> Option<u64> {
    let cell = |index: usize| {
        let bytes = value.get(index * 4..)?.first_chunk()?;
        Some(u64::from(u32::from_be_bytes(*bytes)))
    };
    match count {
        1 => cell(at),
        2 => Some(cell(at)? << 32 | cell(at + 1)?),
        _ => None,
    }
}
