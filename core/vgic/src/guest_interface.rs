//! The CPU interface of a guest, behind the list registers: the CPU's own virtual one, or one in software.

use crate::SoftwareInterface;
use hanok_hal::ListRegisters;

/// This pCPU's list registers, as those know them that handle a guest's accesses to its CPU interface.
pub trait GuestInterface: ListRegisters {
    /// Calls `act` with the interface in software to which the list registers belong; `None` if the CPU has
    /// an interface for its guest, which is the default and costs no instruction.
    #[inline(always)]
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        let _ = act;
        None
    }
}

impl GuestInterface for SoftwareInterface {
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        Some(act(self))
    }
}

#[cfg(any(test, feature = "fake"))]
impl GuestInterface for hanok_hal::fake::FakeListRegisters {}

#[cfg(any(test, feature = "fake"))]
impl GuestInterface for hanok_hal::fake::FakeCpuInterface {}
