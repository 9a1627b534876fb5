//! Which ends of interrupts cause a maintenance interrupt, and which are left to the CPU: see the
//! crate's documentation, "Interrupts of real devices".

use crate::state::{Cpu, Vgic};
use hanok_types::GicVersion;

/// The ends that the guest's CPU reports.
#[derive(Clone, Copy)]
pub(crate) struct Reports {
    /// All ends.
    pub all: bool,
    /// The end of an active interrupt that is pending again, which must then compete with others
    /// that wait.
    pub active: bool,
    /// The end of an interrupt with a physical one behind it, which is not left to the CPU.
    pub hardware: bool,
}

impl Reports {
    /// Only the ends that must be reported in any case.
    pub const NONE: Self = Self {
        all: false,
        active: false,
        hardware: false,
    };
}

impl Vgic {
    /// On a GICv2: whether several interrupts are listed, or others wait. See the crate's
    /// documentation, "Interrupts of real devices".
    pub(crate) fn company(&self, cpu: usize, others_wait: bool) -> bool {
        let used = |cpu: &Cpu| cpu.used.count_ones();
        self.version == GicVersion::V2 && (others_wait || self.cpu(cpu).map_or(0, used) != 1)
    }
}
