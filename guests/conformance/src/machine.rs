//! What the cases need to know of the machine, and what is to be run.

use crate::hostile::Hostile;
use crate::tree::{self, Area, Arguments, MAX_AREAS};
use hanok_types::GicVersion;
use heapless::Vec;

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
    /// Which interrupt controller there is.
    pub gic: GicVersion,
    /// The registers of all devices that the tree names.
    pub devices: Vec<Area, MAX_AREAS>,
    /// The device tree itself.
    pub tree: Area,
}

impl Machine {
    /// From what the tree said.
    pub fn new(arguments: &Arguments) -> Self {
        Self {
            cpus: arguments.cpus.clamp(1, crate::cpu::MAX_CPUS),
            ram: arguments.ram.start,
            ram_size: arguments.ram.size,
            host: tree::host(arguments),
            gic: arguments.gic.version(),
            devices: arguments.devices.clone(),
            tree: arguments.tree,
        }
    }

    /// RAM.
    pub fn memory(&self) -> Area {
        Area {
            start: self.ram,
            size: self.ram_size,
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
    /// Look at every address.
    Sweep,
    /// Hold a pattern in memory until a key comes, then look whether it is there.
    Hold,
    /// Harm others.
    Hostile(Hostile),
    /// Try everything.
    Fuzz,
}
