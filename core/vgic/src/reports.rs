//! Whether the end of an interrupt is reported, or left to the CPU: see the crate's
//! documentation, "Interrupts of real devices".

use crate::state::Vgic;
use hanok_hal::ListRegisters;
use hanok_types::GicVersion;

/// Which ends the guest's CPU reports.
#[derive(Clone, Copy)]
pub(crate) struct Reports {
    /// Each.
    pub all: bool,
    /// That of one with a physical interrupt behind, which is not left to the CPU.
    pub hardware: bool,
}

impl Vgic {
    /// Of a GICv2: whether `more` stand in list registers beside others, or are several. See the
    /// crate's documentation, "Interrupts of real devices".
    pub(crate) fn company(&self, cpu: usize, more: usize) -> bool {
        let used = self.cpu(cpu).map_or(0, |cpu| cpu.used.count_ones());
        self.version == GicVersion::V2 && used as usize + more != 1
    }

    /// Whether a list register deactivates a physical interrupt with its own.
    pub(crate) fn left_to_cpu(&self, cpu: usize) -> bool {
        let cpu = self.cpu(cpu);
        cpu.is_some_and(|cpu| cpu.slots().any(|(_, lr)| lr.hardware()))
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
