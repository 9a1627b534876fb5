//! What the cases need to know of the machine.

use crate::tree::{self, Area, Arguments, Host, MAX_AREAS};
use hanok_types::{GicVersion, platform};
use heapless::Vec;

/// The machine as the cases need to know it.
pub struct Machine {
    /// How many CPUs the tree names.
    pub cpus: usize,
    /// Where RAM starts.
    pub ram: u64,
    /// Its length in bytes.
    pub ram_size: u64,
    /// Which cases must hold: those of Hanok or those of QEMU's machine.
    pub host: Host,
    /// Which interrupt controller there is.
    pub gic: GicVersion,
    /// The register ranges of all devices that the tree names.
    pub devices: Vec<Area, MAX_AREAS>,
    /// The device tree itself.
    pub tree: Area,
    /// Whether the board has a clock, by which the VM's begins (without `conformance.clock=no`).
    pub has_clock: bool,
    /// Whether each access to the VM's device of the board is an exit (`conformance.access=trap`).
    pub traps_own_device: bool,
    /// Random bytes of the tree: `rng-seed` and `kaslr-seed`.
    pub seeds: [&'static [u8]; 2],
}

impl Machine {
    /// Collects it from the device tree.
    pub fn new(arguments: &Arguments) -> Self {
        Self {
            cpus: arguments.cpus.clamp(1, crate::cpu::MAX_CPUS),
            ram: arguments.ram.start,
            ram_size: arguments.ram.size,
            host: tree::host(arguments),
            gic: arguments.gic.version(),
            devices: devices(arguments),
            tree: arguments.tree,
            has_clock: arguments.value("conformance.clock=") != Some("no"),
            traps_own_device: arguments.value("conformance.access=") == Some("trap"),
            seeds: arguments.seeds,
        }
    }

    /// The range of RAM.
    pub fn memory(&self) -> Area {
        Area {
            start: self.ram,
            size: self.ram_size,
        }
    }

    /// Returns whether the VM has a device of the board (`conformance.device=yes`).
    pub fn has_own_device(&self) -> bool {
        let own = platform::PASS_THROUGH.get();
        self.devices.iter().any(|area| area.start == own)
    }

    /// The first address above RAM.
    pub fn ram_end(&self) -> u64 {
        self.ram + self.ram_size
    }
}

/// The devices that the tree names at its root; and behind them, with `conformance.device=yes`, the
/// device of the board that the VM has.
fn devices(arguments: &Arguments) -> Vec<Area, MAX_AREAS> {
    let mut devices = arguments.devices.clone();
    let own = Area {
        start: platform::PASS_THROUGH.get(),
        size: 0x1000,
    };
    if arguments.value("conformance.device=") == Some("yes") {
        assert!(devices.push(own).is_ok(), "too many devices");
    }
    devices
}
