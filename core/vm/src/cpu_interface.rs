//! A guest's accesses to its CPU interface, on a CPU that has none for guests.
//!
//! The interface itself, with its rules, is [`hanok_vgic::SoftwareInterface`]. An access changes the list
//! registers of this pCPU, and brings them up to date at once, as it may have made room in them.

use crate::{Guest, Machine};
use hanok_devices::Access;
use hanok_types::Width;
use hanok_vgic::{GuestInterface, InterfaceRegister};

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// Does an access to a register of the frame GICC, which takes words only (IHI 0048B, 4.1.4). The answer is
    /// the value of a load, or zero for a store; `None` if the interface is not in software.
    #[inline(always)]
    pub(crate) fn cpu_interface(&mut self, offset: u64, access: Access) -> Option<u64> {
        let (vm, machine, vcpu) = (self.vm, self.machine, self.vcpu.id);
        self.lists.software(|_| ())?;
        let mut gic = vm.gic.lock();
        vm.deliver_posted_sgis(&mut gic, vcpu);
        let register = InterfaceRegister::of_frame(offset);
        let done = match register.filter(|_| access.width == Width::Word) {
            Some(register) if access.write => {
                let value = access.value as u32;
                self.lists.write_register(register, value, &mut gic, vcpu)?
            }
            Some(register) => self.lists.read_register(register, &mut gic, vcpu)?,
            None => {
                gic.count_unknown();
                hanok_vgic::Access::default()
            }
        };
        if let Some(physical) = done.deactivated {
            machine.deactivate(physical);
        }
        vm.release(machine, &mut gic, vcpu);
        drop(gic);
        vm.notify(machine, done.kick, Some(vcpu));
        Some(done.value.into())
    }
}
