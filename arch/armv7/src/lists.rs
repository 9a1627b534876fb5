//! This CPU's list registers: a GICv2's memory.

use hanok_arm_common::GichLists;
use hanok_hal::ListRegisters;

/// What the virtual interface keeps of a vCPU beside its interrupts: the guest's masks and
/// settings, and the priorities at which it is interrupted now. All zero out of reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceState {
    /// GICH_VMCR.
    vmcr: u32,
    /// GICH_APR.
    active: u32,
}

/// The list registers of the CPU that holds it.
#[derive(Debug)]
pub enum HostLists {
    /// GICv2's.
    V2(GichLists),
}

impl HostLists {
    fn lists(&self) -> &GichLists {
        let Self::V2(lists) = self;
        lists
    }

    fn lists_mut(&mut self) -> &mut GichLists {
        let Self::V2(lists) = self;
        lists
    }

    /// Empties them all, as they are whenever nobody is in this CPU. Once.
    pub fn clear(&mut self) {
        self.lists_mut().reset();
    }

    /// Gives the interface the state it has for a vCPU, and lets it signal.
    pub fn enter(&mut self, state: &InterfaceState) {
        let lists = self.lists_mut();
        lists.set_vmcr(state.vmcr);
        lists.set_active_priorities(state.active);
        lists.enable(true);
    }

    /// Takes the vCPU's state out of the interface, which signals no more.
    pub fn leave(&mut self, state: &mut InterfaceState) {
        let lists = self.lists_mut();
        state.vmcr = lists.vmcr();
        state.active = lists.active_priorities();
        lists.enable(false);
    }

    /// Lets the interface signal no more; its state is of no use to anybody.
    pub fn stop(&mut self) {
        self.lists_mut().enable(false);
    }

    /// Bits of priority that the virtual interface has.
    pub fn priority_bits(&self) -> u32 {
        self.lists().priority_bits()
    }
}

impl ListRegisters for HostLists {
    #[inline(always)]
    fn count(&self) -> usize {
        self.lists().count()
    }

    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        self.lists().read(index)
    }

    #[inline(always)]
    fn write(&mut self, index: usize, value: u64) {
        self.lists_mut().write(index, value);
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        self.lists().empty()
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.lists_mut().set_none_pending_interrupt(on);
    }

    fn report_ends(&mut self, on: bool) {
        self.lists_mut().report_ends(on);
    }
}
