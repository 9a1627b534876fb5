//! What the device tree and the boot arguments say.

use crate::hostile;
use crate::machine::{Host, MAX_AREAS, Selection};
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use hanok_types::GicVersion;
use heapless::Vec;

/// Addresses that something answers at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// The first.
    pub start: u64,
    /// How many bytes.
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

/// What the tree said.
pub struct Arguments {
    bootargs: &'static str,
    /// How many CPUs.
    pub cpus: usize,
    /// RAM.
    pub ram: Area,
    /// The interrupt controller.
    pub gic: GicVersion,
    /// The registers of all devices.
    pub devices: Vec<Area, MAX_AREAS>,
    /// The tree itself.
    pub tree: Area,
}

impl Arguments {
    /// Reads the tree.
    ///
    /// # Safety
    ///
    /// `tree` is the address of a device tree, mapped, that nobody changes.
    pub unsafe fn from_tree(tree: u64) -> Result<Self, &'static str> {
        // SAFETY: the caller vouches for the header, so for its length too.
        let blob = unsafe {
            let header = tree as *const [u8; 8];
            let [a, b, c, d] = (*header).last_chunk().copied().unwrap_or_default();
            let size = u32::from_be_bytes([a, b, c, d]) as usize;
            core::slice::from_raw_parts(tree as *const u8, size)
        };
        let fdt = Fdt::new(blob).map_err(|_| "x0 holds no device tree")?;
        let root = fdt.root();
        Ok(Self {
            bootargs: bootargs(&root).unwrap_or(""),
            cpus: cpus(&root),
            ram: ram(&root).ok_or("the tree has no memory")?,
            gic: gic(&root).ok_or("the tree has no interrupt controller that is known")?,
            devices: devices(&root),
            tree: Area {
                start: tree,
                size: blob.len() as u64,
            },
        })
    }

    /// What `conformance.run` says; all cases where it says nothing.
    pub fn selection(&self) -> Selection<'_> {
        match self.value("conformance.run=") {
            Some("reset-loop") => Selection::ResetLoop,
            Some("off-all") => Selection::OffAll,
            Some("sweep") => Selection::Sweep,
            Some("hold") => Selection::Hold,
            Some(names) => match hostile::named(names) {
                Some(hostile) => Selection::Hostile(hostile),
                None => Selection::Cases(names),
            },
            None => Selection::Cases("all"),
        }
    }

    /// Which promise counts.
    pub fn host(&self) -> Host {
        match self.value("conformance.host=") {
            Some("hanok") => Host::Hanok,
            _ => Host::Qemu,
        }
    }

    /// What the last word that begins so says: words that are added count more.
    pub fn value(&self, key: &str) -> Option<&str> {
        let words = self.bootargs.split_ascii_whitespace();
        words.filter_map(|word| word.strip_prefix(key)).next_back()
    }
}

fn property<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let property = node.properties().find(|property| property.name() == name)?;
    property.value_as::<&'a [u8]>().ok()
}

fn text(value: &'static [u8]) -> Option<&'static str> {
    core::str::from_utf8(value.split(|byte| *byte == 0).next()?).ok()
}

fn bootargs(root: &FdtNode<'static>) -> Option<&'static str> {
    let chosen = root.children().find(|node| node.name() == "chosen")?;
    text(property(&chosen, "bootargs")?)
}

fn cpus(root: &FdtNode<'_>) -> usize {
    let cpus = root.children().find(|node| node.name() == "cpus");
    cpus.map_or(1, |cpus| {
        let named = cpus
            .children()
            .filter(|node| node.name().starts_with("cpu@"));
        named.count()
    })
}

fn ram(root: &FdtNode<'_>) -> Option<Area> {
    let memory = root
        .children()
        .find(|node| node.name().starts_with("memory"))?;
    areas(property(&memory, "reg")?).next()
}

fn gic(root: &FdtNode<'_>) -> Option<GicVersion> {
    root.children().find_map(|node| {
        let compatible = property(&node, "compatible")?;
        let mut names = compatible.split(|byte| *byte == 0);
        names.find_map(|name| match name {
            b"arm,gic-v3" => Some(GicVersion::V3),
            b"arm,cortex-a15-gic" | b"arm,gic-400" => Some(GicVersion::V2),
            _ => None,
        })
    })
}

/// Starts and lengths, each of two cells on this platform.
fn areas(reg: &[u8]) -> impl Iterator<Item = Area> + '_ {
    let (pairs, _) = reg.as_chunks::<16>();
    pairs.iter().filter_map(|pair| {
        let (start, rest) = pair.split_first_chunk()?;
        Some(Area {
            start: u64::from_be_bytes(*start),
            size: u64::from_be_bytes(*rest.first_chunk()?),
        })
    })
}

/// The registers of whatever is a device: it says what it is compatible with. A bus of
/// devices (`platform-bus`) has none of its own, and nobody gives us devices on it.
fn devices(root: &FdtNode<'_>) -> Vec<Area, MAX_AREAS> {
    root.children()
        .filter(|node| property(node, "compatible").is_some())
        .filter_map(|node| property(&node, "reg"))
        .flat_map(areas)
        .take(MAX_AREAS)
        .collect()
}
