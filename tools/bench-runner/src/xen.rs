//! Domains that Xen begins itself, as its first one is: the device tree names each, with its kernel and its memory
//! (Xen 4.17, docs/misc/arm/device-tree/booting.txt, "Creating Multiple Domains directly from Xen").
//!
//! QEMU writes the tree with the payload as dom0's kernel; what it has no words for is added to that tree, which
//! QEMU is then given back.

use std::collections::BTreeSet;
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

/// What runs in Xen.
pub struct Domains<'a> {
    /// The first domain's kernel, where it is put, and what it is told. `None` for a Xen without a first domain.
    pub first: Option<(&'a Path, u64, &'a str)>,
    /// The first domain's initramfs, and where it is put.
    pub initramfs: Option<(&'a Path, u64)>,
    /// The domains that Xen begins itself.
    pub others: Vec<Domain>,
    /// What Xen is told.
    pub words: &'a str,
}

/// A domain that Xen begins itself, with one vCPU.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its kernel.
    pub kernel: PathBuf,
    /// Where that is put.
    pub at: u64,
    /// Its initramfs, and where that is put.
    pub initramfs: Option<(PathBuf, u64)>,
    /// Whether it has Xen's own interfaces, such as the store by which it finds its devices.
    pub is_enhanced: bool,
    /// What it is told.
    pub cmdline: String,
    /// KiB of its memory.
    pub memory: u64,
    /// Whether it has a UART, whose text Xen puts on its own.
    pub has_console: bool,
}

impl Domain {
    /// One that sleeps for ever. Its kernel is written to `path`.
    pub fn idle(path: PathBuf, at: u64, architecture: Architecture) -> Result<Self> {
        fs::write(&path, sleeper(architecture))?;
        Ok(Self {
            kernel: path,
            at,
            initramfs: None,
            is_enhanced: false,
            cmdline: String::new(),
            memory: MEMORY,
            has_console: false,
        })
    }

    fn node(&self, number: usize) -> Result<DeviceTreeNode> {
        let mut kernel = module("kernel", &self.kernel, self.at)?;
        if !self.cmdline.is_empty() {
            kernel.add_property(property("bootargs", text(&self.cmdline))?);
        }
        let mut domain = node(&format!("domU{number}"))?;
        domain.add_property(property("compatible", text("xen,domain"))?);
        for (name, cells) in [("#address-cells", 2_u32), ("#size-cells", 2), ("cpus", 1)] {
            domain.add_property(property(name, cells.to_be_bytes().to_vec())?);
        }
        domain.add_property(property("memory", self.memory.to_be_bytes().to_vec())?);
        if self.has_console {
            domain.add_property(property("vpl011", Vec::new())?);
        }
        if self.is_enhanced {
            domain.add_property(property("xen,enhanced", text("enabled"))?);
        }
        domain.add_child(kernel);
        if let Some((initramfs, at)) = &self.initramfs {
            domain.add_child(module("ramdisk", initramfs, *at)?);
        }
        Ok(domain)
    }
}

impl Domains<'_> {
    /// The tree for Xen, written to `path`. `qemu` is a machine with Xen.
    pub fn tree(&self, qemu: &mut Command, path: &Path) -> Result<PathBuf> {
        if let Some((kernel, at, words)) = self.first {
            let (kernel, words) = (machine::escaped(kernel), words.replace(',', ",,"));
            qemu.arg("-device").arg(format!(
                "guest-loader,addr={at:#x},kernel={kernel},bootargs={words}"
            ));
        }
        if let Some((initramfs, at)) = self.initramfs {
            let initramfs = machine::escaped(initramfs);
            qemu.arg("-device")
                .arg(format!("guest-loader,addr={at:#x},initrd={initramfs}"));
        }
        let dump = format!("dumpdtb={}", path.display());
        process::run(qemu.args(["-nodefaults", "-display", "none", "-machine", &dump]))?;
        let bytes = fs::read(path)?;
        let flat = Fdt::new(&bytes).map_err(|error| anyhow!("QEMU's tree: {error}"))?;
        let mut tree = DeviceTree::from_fdt(&flat);
        let chosen = tree
            .find_node_mut("/chosen")
            .context("QEMU's tree has no /chosen")?;
        if self.first.is_none() {
            // `bootargs` would be a first domain's.
            chosen.add_property(property("xen,xen-bootargs", text(self.words))?);
        }
        for (number, domain) in self.others.iter().enumerate() {
            chosen.add_child(domain.node(number)?);
        }
        fs::write(path, tree.to_dtb())?;
        Ok(path.to_owned())
    }

    /// Puts everything into the memory of a machine with Xen, and its tree.
    pub fn put(&self, qemu: &mut Command, tree: &Path) {
        qemu.arg("-dtb").arg(tree);
        let first = self.first.iter().map(|&(kernel, at, _)| (kernel, at));
        let first = first.chain(self.initramfs);
        let others = self.others.iter().flat_map(|domain| {
            let initramfs = domain.initramfs.as_ref();
            let initramfs = initramfs.map(|(path, at)| (&**path, *at));
            [(&*domain.kernel, domain.at)].into_iter().chain(initramfs)
        });
        // Domains may have one kernel.
        for (file, at) in first.chain(others).collect::<BTreeSet<_>>() {
            let file = machine::escaped(file);
            qemu.arg("-device")
                .arg(format!("loader,file={file},addr={at:#x},force-raw=on"));
        }
    }
}

/// A part of a domain that is in memory at `at`: its kernel, or its initramfs (`ramdisk`).
fn module(kind: &str, file: &Path, at: u64) -> Result<DeviceTreeNode> {
    let bytes = fs::metadata(file)?.len();
    let mut module = node(&format!("module@{at:x}"))?;
    let compatible = format!("multiboot,{kind}\0multiboot,module\0").into_bytes();
    module.add_property(property("compatible", compatible)?);
    let reg = [at, bytes].map(u64::to_be_bytes).concat();
    module.add_property(property("reg", reg)?);
    Ok(module)
}

/// A text as a tree has it.
pub fn text(words: &str) -> Vec<u8> {
    [words.as_bytes(), b"\0"].concat()
}

/// An empty node.
pub fn node(name: &str) -> Result<DeviceTreeNode> {
    DeviceTreeNode::new(name).map_err(|error| anyhow!("a node {name}: {error}"))
}

/// A property.
pub fn property(name: &str, value: Vec<u8>) -> Result<DeviceTreeProperty> {
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
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kernel");
        let idle = Domain::idle(path, 0x5800_0000, Architecture::Arm64).unwrap();
        let initramfs = dir.path().join("initramfs");
        fs::write(&initramfs, [7; 9]).unwrap();
        let speaks = Domain {
            cmdline: "a=b".into(),
            has_console: true,
            is_enhanced: true,
            initramfs: Some((initramfs, 0x6800_0000)),
            ..idle.clone()
        };
        let [idle, speaks] = [idle, speaks].map(|domain| domain.node(3).unwrap());
        assert_eq!(idle.name(), "domU3");
        let value = |node: &DeviceTreeNode, name: &str| {
            node.property(name).map(|found| found.value().to_vec())
        };
        assert_eq!(value(&idle, "memory").unwrap(), MEMORY.to_be_bytes());
        let reg = [0x5800_0000, KERNEL as u64].map(u64::to_be_bytes).concat();
        let kernel = idle.child("module@58000000").unwrap();
        assert_eq!(value(kernel, "reg").unwrap(), reg);
        let console = [&idle, &speaks].map(|node| value(node, "vpl011").is_some());
        assert_eq!(console, [false, true]);
        let kernel = speaks.child("module@58000000").unwrap();
        assert_eq!(value(kernel, "bootargs").unwrap(), b"a=b\0");
        let store = [&idle, &speaks].map(|node| value(node, "xen,enhanced"));
        assert_eq!(store, [None, Some(b"enabled\0".to_vec())]);
        let initramfs = speaks.child("module@68000000").unwrap();
        let reg = [0x6800_0000, 9_u64].map(u64::to_be_bytes).concat();
        assert_eq!(value(initramfs, "reg").unwrap(), reg);
        let kind = value(initramfs, "compatible").unwrap();
        assert!(kind.starts_with(b"multiboot,ramdisk\0"));
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
