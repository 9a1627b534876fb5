//! The CPU interface of a guest, behind the list registers: the CPU's own virtual one, or one in software.

use crate::interface_registers::InterfaceRegister;
use crate::state::{MAX_LRS, Vgic};
use crate::{Access, SoftwareInterface};
use hanok_hal::ListRegisters;
use hanok_types::{VcpuId, VcpuSet};

/// This pCPU's list registers, as those know them that handle a guest's accesses to its CPU interface.
pub trait GuestInterface: ListRegisters {
    /// Calls `act` with the interface in software to which the list registers belong; `None` if the CPU has
    /// an interface for its guest, which is the default and costs no instruction.
    #[inline(always)]
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        let _ = act;
        None
    }

    /// Brings the list registers up to date before a vCPU goes back to its guest. The answer is the
    /// set of other vCPUs that must be kicked.
    #[inline(always)]
    fn refresh(&mut self, vgic: &mut Vgic, vcpu: VcpuId) -> VcpuSet
    where
        Self: Sized,
    {
        let kick = vgic.enter(vcpu, self);
        if self.software(|own| own.maintenance_is_due()) == Some(true) {
            kick.union(self.maintain(vgic, vcpu))
        } else {
            kick
        }
    }

    /// An interface in software has no maintenance interrupt: does at once what that would do.
    #[inline(never)]
    fn maintain(&mut self, vgic: &mut Vgic, vcpu: VcpuId) -> VcpuSet
    where
        Self: Sized,
    {
        let mut kick = VcpuSet::EMPTY;
        // A report may free a list register, and the interrupt that gets it may be reported, too,
        // but at most this many times.
        for _ in 0..MAX_LRS {
            kick = kick.union(vgic.maintenance(vcpu, self));
            if self.software(|own| own.maintenance_is_due()) != Some(true) {
                break;
            }
        }
        kick
    }

    /// Executes a guest's read of a register; `None` if the interface is not in software.
    fn read_register(
        &mut self,
        register: InterfaceRegister,
        vgic: &mut Vgic,
        vcpu: VcpuId,
    ) -> Option<Access>
    where
        Self: Sized,
    {
        let value = self.software(|own| own.read(register))?;
        let kick = match register {
            InterfaceRegister::Acknowledge(_) => self.refresh(vgic, vcpu),
            _ => VcpuSet::EMPTY,
        };
        Some(Access {
            value,
            kick,
            deactivated: None,
        })
    }

    /// Executes a guest's write of a register; `None` if the interface is not in software.
    fn write_register(
        &mut self,
        register: InterfaceRegister,
        value: u32,
        vgic: &mut Vgic,
        vcpu: VcpuId,
    ) -> Option<Access>
    where
        Self: Sized,
    {
        let deactivated = self.software(|own| own.write(register, value))?;
        let kick = match register {
            InterfaceRegister::End(_) | InterfaceRegister::Deactivate => self.refresh(vgic, vcpu),
            _ => VcpuSet::EMPTY,
        };
        Some(Access {
            value: 0,
            kick,
            deactivated,
        })
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
