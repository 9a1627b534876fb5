//! This CPU's list registers: a GICv3's system registers, a GICv2's memory, or the software's.

#[cfg(target_arch = "aarch64")]
mod hardware;

use crate::GichLists;
#[cfg(target_arch = "arm")]
use crate::SoftwareLists;
use hanok_hal::{ListRegisters, VirtualCpuInterface};
#[cfg(target_arch = "arm")]
use hanok_vgic::SoftwareInterfaceState;
use hanok_vgic::{GuestInterface, SoftwareInterface};
#[cfg(target_arch = "aarch64")]
pub use hardware::HardwareLists;

/// The state of a vCPU's virtual interface beside its interrupts: the guest's masks and settings, and the
/// active priorities. All are zero after a reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterfaceState {
    /// ICH_VMCR_EL2 or GICH_VMCR.
    vmcr: usize,
    /// ICH_AP0R<n> and ICH_AP1R<n>; GICH_APR is the first one.
    active: [(usize, usize); ACTIVE],
    /// That of an interface in software, in place of these.
    #[cfg(target_arch = "arm")]
    software: SoftwareInterfaceState,
}

/// The number of registers for active priorities that an interface may have.
const ACTIVE: usize = if cfg!(target_arch = "arm") { 1 } else { 4 };

/// The list registers, of either kind, of the CPU that holds this value.
#[derive(Debug)]
pub enum HostLists {
    /// GICv3's.
    #[cfg(target_arch = "aarch64")]
    V3(HardwareLists),
    /// GICv2's.
    V2(GichLists),
    /// Those in software.
    #[cfg(target_arch = "arm")]
    Software(SoftwareLists),
}

impl HostLists {
    /// Empties all list registers, once: they are always empty while no vCPU is in this CPU.
    pub fn clear(&mut self) {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3(lists) => lists.clear(),
            Self::V2(lists) => lists.reset(),
            #[cfg(target_arch = "arm")]
            Self::Software(lists) => lists.reset(),
        }
    }

    /// The number of bits of priority of the virtual interface.
    pub fn priority_bits(&self) -> u32 {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3(_) => HardwareLists::priority_bits(),
            Self::V2(lists) => lists.priority_bits(),
            #[cfg(target_arch = "arm")]
            Self::Software(_) => SoftwareInterface::PRIORITY_BITS,
        }
    }
}

macro_rules! of_either {
    ($self:ident, $lists:ident => $call:expr) => {
        match $self {
            #[cfg(target_arch = "aarch64")]
            Self::V3($lists) => $call,
            Self::V2($lists) => $call,
            #[cfg(target_arch = "arm")]
            Self::Software($lists) => $call,
        }
    };
}

impl ListRegisters for HostLists {
    #[inline(always)]
    fn count(&self) -> usize {
        of_either!(self, lists => lists.count())
    }

    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        of_either!(self, lists => lists.read(index))
    }

    #[inline(always)]
    fn write(&mut self, index: usize, value: u64) {
        of_either!(self, lists => lists.write(index, value));
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        of_either!(self, lists => lists.empty())
    }

    #[inline(always)]
    fn ended(&self) -> u32 {
        of_either!(self, lists => lists.ended())
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        of_either!(self, lists => lists.set_none_pending_interrupt(on));
    }

    fn report_ends(&mut self, on: bool) {
        of_either!(self, lists => lists.report_ends(on));
    }
}

impl GuestInterface for HostLists {
    #[inline(always)]
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        match self {
            #[cfg(target_arch = "arm")]
            Self::Software(lists) => lists.software(act),
            _ => {
                let _ = act;
                None
            }
        }
    }
}

impl VirtualCpuInterface for HostLists {
    type State = InterfaceState;

    fn enter(&mut self, state: &InterfaceState) {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3(lists) => lists.enter(state),
            Self::V2(lists) => {
                lists.set_vmcr(state.vmcr as u32);
                lists.set_active_priorities(state.active[0].0 as u32);
                lists.enable(true);
            }
            #[cfg(target_arch = "arm")]
            Self::Software(lists) => lists.load(&state.software),
        }
    }

    #[inline(always)]
    fn leave(&mut self, state: &mut InterfaceState) {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3(lists) => lists.leave(state),
            Self::V2(lists) => {
                state.vmcr = lists.vmcr() as usize;
                state.active[0].0 = lists.active_priorities() as usize;
                lists.enable(false);
            }
            #[cfg(target_arch = "arm")]
            Self::Software(lists) => lists.save(&mut state.software),
        }
    }

    fn stop(&mut self) {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3(lists) => lists.stop(),
            Self::V2(lists) => lists.enable(false),
            #[cfg(target_arch = "arm")]
            Self::Software(lists) => lists.stop(),
        }
    }
}
