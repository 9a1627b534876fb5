//! Domains that Xen begins itself, as its first one is: the device tree names each, with its kernel and its memory
//! (Xen 4.17, docs/misc/arm/device-tree/booting.txt, "Creating Multiple Domains directly from Xen").
//!
//! QEMU writes the tree with the payload as dom0's kernel; what it has no words for is added to that tree, which
//! QEMU is then given back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use hanok_base::process;
use hanok_boot::machine;
use hanok_system::Architecture;

/// KiB of an idle domain's memory: what its kernel takes, and what Xen keeps of it for itself.
const MEMORY: u64 = 16 << 10;
/// Bytes of an idle domain's kernel.
const KERNEL: usize = 4096;

/// The payload as dom0, and idle domains.
pub struct Domains<'a> {
    /// The payload, and where it is put.
    pub payload: (&'a Path, u64),
    /// What it is told.
    pub cmdline: &'a str,
    /// Where the idle domains' kernel is written, and where it is put.
    pub idle: (PathBuf, u64),
    /// How many of these there are.
    pub count: usize,
    /// Of all.
    pub architecture: Architecture,
}

impl Domains<'_> {
    /// The tree for Xen, written to `path`. `qemu` is a machine with Xen.
    pub fn tree(&self, qemu: &mut Command, path: &Path) -> Result<PathBuf> {
        let (payload, at) = (machine::escaped(self.payload.0), self.payload.1);
        let words = self.cmdline.replace(',', ",,");
        qemu.arg("-device").arg(format!(
            "guest-loader,addr={at:#x},kernel={payload},bootargs={words}"
        ));
        let dump = format!("dumpdtb={}", path.display());
        process::run(qemu.args(["-nodefaults", "-display", "none", "-machine", &dump]))?;
        let bytes = fs::read(path)?;
        let flat = Fdt::new(&bytes).map_err(|error| anyhow!("QEMU's tree: {error}"))?;
        let mut tree = DeviceTree::from_fdt(&flat);
        let chosen = tree
            .find_node_mut("/chosen")
            .context("QEMU's tree has no /chosen")?;
        for number in 0..self.count {
            chosen.add_child(self.domain(number)?);
        }
        fs::write(path, tree.to_dtb())?;
        Ok(path.to_owned())
    }

    /// Puts everything into the memory of a machine with Xen, and its tree.
    pub fn put(&self, qemu: &mut Command, tree: &Path) -> Result<()> {
        fs::write(&self.idle.0, sleeper(self.architecture))?;
        qemu.arg("-dtb").arg(tree);
        for (file, at) in [self.payload, (&self.idle.0, self.idle.1)] {
            let file = machine::escaped(file);
            qemu.arg("-device")
                .arg(format!("loader,file={file},addr={at:#x},force-raw=on"));
        }
        Ok(())
    }

    fn domain(&self, number: usize) -> Result<DeviceTreeNode> {
        let at = self.idle.1;
        let mut kernel = node(&format!("module@{at:x}"))?;
        let compatible = b"multiboot,kernel\0multiboot,module\0".to_vec();
        kernel.add_property(property("compatible", compatible)?);
        kernel.add_property(property(
            "reg",
            [at, KERNEL as u64].map(u64::to_be_bytes).concat(),
        )?);
        let mut domain = node(&format!("domU{number}"))?;
        domain.add_property(property("compatible", b"xen,domain\0".to_vec())?);
        for (name, cells) in [("#address-cells", 2_u32), ("#size-cells", 2), ("cpus", 1)] {
            domain.add_property(property(name, cells.to_be_bytes().to_vec())?);
        }
        domain.add_property(property("memory", MEMORY.to_be_bytes().to_vec())?);
        domain.add_child(kernel);
        Ok(domain)
    }
}

fn node(name: &str) -> Result<DeviceTreeNode> {
    DeviceTreeNode::new(name).map_err(|error| anyhow!("a node {name}: {error}"))
}

fn property(name: &str, value: Vec<u8>) -> Result<DeviceTreeProperty> {
    DeviceTreeProperty::new(name, value).map_err(|error| anyhow!("a property {name}: {error}"))
}

/// A kernel that sleeps for ever, as Linux' boot protocols want a kernel to look: no interrupt is on, so that nothing
/// wakes it.
fn sleeper(architecture: Architecture) -> Vec<u8> {
    let words: &[(usize, u32)] = match architecture {
        // An arm64 Image: a branch to its first instruction behind the header, the bytes it takes, the magic number;
        // `wfi`, and a branch to it.
        Architecture::Arm64 => &[
            (0, 0x1400_0010),
            (16, KERNEL as u32),
            (56, 0x644d_5241),
            (64, 0xd503_207f),
            (68, 0x17ff_ffff),
        ],
        // A zImage: the same, with the magic number, where it starts (anywhere) and where it ends.
        Architecture::Arm => &[
            (0, 0xea00_000a),
            (0x24, 0x016f_2818),
            (0x28, 0),
            (0x2c, KERNEL as u32),
            (0x30, 0xe320_f003),
            (0x34, 0xeaff_fffd),
        ],
    };
    let mut image = vec![0; KERNEL];
    for (at, word) in words {
        image[*at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::{Node, Property};

    #[test]
    fn a_domain_is_described_as_xen_reads_it() {
        let domains = Domains {
            payload: (Path::new("payload"), 0x5000_0000),
            cmdline: "",
            idle: ("idle".into(), 0x5800_0000),
            count: 1,
            architecture: Architecture::Arm64,
        };
        let domain = domains.domain(3).unwrap();
        assert_eq!(domain.name(), "domU3");
        let value =
            |node: &DeviceTreeNode, name: &str| node.property(name).unwrap().value().to_vec();
        assert_eq!(value(&domain, "memory"), MEMORY.to_be_bytes());
        let kernel = domain.child("module@58000000").unwrap();
        assert_eq!(value(kernel, "reg")[..8], 0x5800_0000_u64.to_be_bytes());
    }

    #[test]
    fn both_sleepers_have_their_magic_number_and_end_within() {
        let wide = sleeper(Architecture::Arm64);
        assert_eq!(&wide[56..60], b"ARM\x64");
        let narrow = sleeper(Architecture::Arm);
        assert_eq!(narrow[0x24..0x28], 0x016f_2818_u32.to_le_bytes());
        assert_eq!((wide.len(), narrow.len()), (KERNEL, KERNEL));
    }
}
