//! What the device tree and the boot arguments say.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

/// Which promise counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// QEMU's own machine: the architecture, and the platform.
    Qemu,
    /// Hanok: also what it hides.
    Hanok,
}

/// The machine as the cases need to know it.
pub struct Machine {
    /// How many CPUs the tree names.
    pub cpus: usize,
    /// Where RAM starts.
    pub ram: u64,
    /// Its length in bytes.
    pub ram_size: u64,
    /// Which promise counts.
    pub host: Host,
}

impl Machine {
    /// From what the tree said.
    pub fn new(arguments: &Arguments) -> Self {
        Self {
            cpus: arguments.cpus.clamp(1, crate::cpu::MAX_CPUS),
            ram: arguments.ram.0,
            ram_size: arguments.ram.1,
            host: arguments.host(),
        }
    }

    /// The first address above RAM.
    pub fn ram_end(&self) -> u64 {
        self.ram + self.ram_size
    }
}

/// What to run.
pub enum Selection<'a> {
    /// Cases by name.
    Cases(&'a str),
    /// Mark memory, and reset.
    ResetLoop,
    /// Turn every CPU off.
    OffAll,
}

/// What the tree said.
pub struct Arguments {
    bootargs: &'static str,
    cpus: usize,
    ram: (u64, u64),
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
        })
    }

    /// What `conformance.run` says; all cases where it says nothing.
    pub fn selection(&self) -> Selection<'_> {
        match self.value("conformance.run=") {
            Some("reset-loop") => Selection::ResetLoop,
            Some("off-all") => Selection::OffAll,
            Some(names) => Selection::Cases(names),
            None => Selection::Cases("all"),
        }
    }

    fn host(&self) -> Host {
        match self.value("conformance.host=") {
            Some("hanok") => Host::Hanok,
            _ => Host::Qemu,
        }
    }

    /// What the last word that begins so says: words that are added count more.
    fn value(&self, key: &str) -> Option<&str> {
        let words = self.bootargs.split_ascii_whitespace();
        words.filter_map(|word| word.strip_prefix(key)).next_back()
    }
}

fn bootargs(root: &FdtNode<'static>) -> Option<&'static str> {
    let chosen = root.children().find(|node| node.name() == "chosen")?;
    let property = chosen
        .properties()
        .find(|property| property.name() == "bootargs")?;
    property.value_as::<&str>().ok()
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

/// Start and length, both of two cells on this platform.
fn ram(root: &FdtNode<'_>) -> Option<(u64, u64)> {
    let memory = root
        .children()
        .find(|node| node.name().starts_with("memory"))?;
    let reg = memory
        .properties()
        .find(|property| property.name() == "reg")?;
    let (start, rest) = reg.value().split_first_chunk()?;
    let size = rest.first_chunk()?;
    Some((u64::from_be_bytes(*start), u64::from_be_bytes(*size)))
}
