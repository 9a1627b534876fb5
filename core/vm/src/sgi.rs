//! Software generated interrupts, from vCPU to vCPU.
//!
//! The frequent one goes to a single other vCPU. It is left as posted SGIs ([`PostedSgis`]) for the pCPU
//! of that vCPU, which is kicked: the sender takes no lock, and the receiver takes the one of
//! the interrupt controller once. All others are put in by the sender.
//!
//! PostedSgis is delivered before anybody looks at its vCPU's private interrupts, or changes what
//! becomes of them. There is one moment in which it is neither posted SGIs nor in the interrupt
//! controller: between the receiver's taking it and the lock. Who looks then sees the SGI not
//! pending, as if it had been acknowledged; and who clears it then (GICR_ICPENDR0) comes
//! before it, as one does who clears what a list register shows already.

use crate::{Guest, Machine, PostedSgis, Vm};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, VcpuId};
use hanok_vgic::{SgiRegister, Sgir, Vgic};

impl Vm {
    /// The guest's vCPU `from` wrote `value` to ICC_SGI1R_EL1: sends the SGI, if it is for one
    /// other vCPU. Otherwise `false`, and nothing has been done.
    #[inline(always)]
    pub fn post_group1_sgi(&self, machine: &impl Machine, from: VcpuId, value: u64) -> bool {
        SgiRegister::single_target(value)
            .is_some_and(|(id, target)| self.post(machine, from, id, target))
    }

    /// The same of what was written to GICD_SGIR, which only a GICv2 has.
    #[inline(always)]
    pub fn post_sgir(&self, machine: &impl Machine, from: VcpuId, value: u32) -> bool {
        let v2 = self.gic_version() == GicVersion::V2;
        v2 && Sgir::single_target(value)
            .is_some_and(|(id, target)| self.post(machine, from, id, target))
    }

    /// Sends SGI `id`, below 16, from one vCPU to another; `false`, and nothing has been done,
    /// where that is none, or itself, or needs more than posted SGIs can carry.
    #[inline(always)]
    fn post(&self, machine: &impl Machine, from: VcpuId, id: u32, target: VcpuId) -> bool {
        let Some(home) = self.home_of(target).filter(|_| target != from) else {
            return false;
        };
        let posted = match self.gic_version() {
            GicVersion::V3 => Some(PostedSgis::anonymous(id)),
            GicVersion::V2 => PostedSgis::signed(id, from, target),
        };
        let Some(posted) = posted else {
            return false;
        };
        if self.requests(target).post(posted) {
            machine.kick(home);
        }
        true
    }

    /// Puts a vCPU's posted SGIs into the interrupt controller.
    pub(crate) fn deliver_posted_sgis(&self, gic: &mut Vgic, to: VcpuId) {
        put_in(gic, self.requests(to).take_posted_sgis(), to);
    }

    /// Shows posted SGIs that were taken at once, where they are a single SGI that was shown before and
    /// nothing else is new; `false`, and nothing has been done, otherwise. `version` is
    /// [`Self::gic_version`], which the caller may know beforehand.
    #[inline(always)]
    pub fn show_posted_sgis(
        &self,
        to: VcpuId,
        posted: PostedSgis,
        version: GicVersion,
        lists: &mut impl ListRegisters,
    ) -> bool {
        let (sgi, from) = match version {
            GicVersion::V3 => (posted.single_anonymous(), None),
            GicVersion::V2 => match posted.single(to) {
                Some((id, from)) => (Some(1 << id), Some(from)),
                None => (None, None),
            },
        };
        let Some(sgi) = sgi else {
            return false;
        };
        let mut gic = self.gic.lock();
        gic.show_sgi_again(from, sgi, to, lists).is_some()
    }
}

/// All of a sender's at once, so that this takes about as long for sixteen as for one.
fn put_in(gic: &mut Vgic, posted: PostedSgis, to: VcpuId) {
    for (sgis, from) in posted.lanes(to) {
        gic.send_sgis_to(from, sgis, to);
    }
}

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    /// Serves a request to look at its interrupts, which was taken with its posted SGIs.
    pub fn interrupts_changed(&mut self, posted: PostedSgis) {
        put_in(&mut self.vm.gic.lock(), posted, self.vcpu.id);
        self.sync_lists();
    }

    /// The guest wrote `value` to a GICv2's GICD_SGIR: sends the SGI, if it is for one vCPU.
    /// Otherwise `false`, and nothing has been done.
    #[inline(always)]
    pub(crate) fn send_sgir(&mut self, value: u32) -> bool {
        let single = Sgir::single_target(value);
        if let Some((id, target)) = single {
            self.send_to_one(id, target);
        }
        single.is_some()
    }

    /// Sends SGI `id` of group 1 to one vCPU.
    #[inline(always)]
    fn send_to_one(&mut self, id: u32, target: VcpuId) {
        if !self.vm.post(self.machine, self.vcpu.id, id, target) {
            self.put_in(id, target);
        }
    }

    #[inline(never)]
    fn put_in(&mut self, id: u32, target: VcpuId) {
        let from = self.vcpu.id;
        let told = self.vm.gic.lock().send_sgi_to(from, id, target);
        if told && target != from {
            self.vm.attract(self.machine, target);
        } else if told {
            self.sync_lists();
        }
    }
}
