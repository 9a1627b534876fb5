//! What the cases need to know of the machine.

use crate::tree::{self, Area, Arguments, Host, MAX_AREAS};
use hanok_types::GicVersion;
use heapless::Vec;

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
