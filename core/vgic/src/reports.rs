//! Whether the end of an interrupt is reported, or left to the CPU: see the crate's
//! documentation, "Interrupts of real devices".

use crate::state::{Cpu, Vgic};
use hanok_hal::ListRegisters;
use hanok_types::GicVersion;

/// Which ends the guest's CPU reports.
#[derive(Clone, Copy)]
pub(crate) struct Reports {
    /// Each.
    pub all: bool,
    /// That of an active one that is pending again: it is to line up with others that wait.
    pub active: bool,
    /// That of one with a physical interrupt behind, which is not left to the CPU.
    pub hardware: bool,
}

impl Reports {
    /// Only what must be reported in any case.
    pub const NONE: Self = Self {
        all: false,
        active: false,
        hardware: false,
    };
}

impl Vgic {
    /// Of a GICv2: whether what is listed does not stand alone, or others wait. See the crate's
    /// documentation, "Interrupts of real devices".
    pub(crate) fn company(&self, cpu: usize, others_wait: bool) -> bool {
        let used = |cpu: &Cpu| cpu.used.count_ones();
        self.version == GicVersion::V2 && (others_wait || self.cpu(cpu).map_or(0, used) != 1)
    }

    /// Lets the maintenance interrupts of a GICv2 through, or not.
    pub(crate) fn report_ends(&mut self, cpu: usize, on: bool, lrs: &mut impl ListRegisters) {
        if self.version == GicVersion::V2
            && let Some(state) = self.cpu_mut(cpu)
            && core::mem::replace(&mut state.reports, on) != on
        {
            lrs.report_ends(on);
        }
    }
}
