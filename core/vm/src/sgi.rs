//! Software generated interrupts, from vCPU to vCPU.
//!
//! The frequent SGI goes to a single other vCPU. It is left as posted SGIs ([`PostedSgis`]) for the
//! pCPU of that vCPU, which is kicked. So the sender takes no lock, and the receiver takes that of
//! the interrupt controller once. The sender puts all other SGIs into the interrupt controller
//! itself.
//!
//! Posted SGIs are put into the interrupt controller before the state of their vCPU's private interrupts is
//! read or changed. For a moment they are neither posted nor in the interrupt controller: after the
//! receiver has taken them, and before it has the lock. A read in that moment shows the SGI not pending, as
//! if it had been acknowledged; a write that clears it in that moment (GICR_ICPENDR0) comes before it, as
//! does one that clears what a list register shows already.

use crate::{Attempt, Guest, Kick, Machine, PostedSgis, Vm};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, VcpuId};
use hanok_vgic::{GuestInterface, SgiRegister, Sgir, Vgic};

impl Vm {
    /// Handles a guest's write of `value` to ICC_SGI1R_EL1 by vCPU `from`: posts the SGI, if it is
    /// for one other vCPU.
    #[inline(always)]
    pub fn post_group1_sgi(&self, machine: &impl Machine, from: VcpuId, value: u64) -> Attempt {
        match SgiRegister::single_target(value) {
            Some((id, target)) => self.post(machine, self.gic_version(), from, id, target),
            None => Attempt::Untouched,
        }
    }

    /// The same for a write of GICD_SGIR, which only a GICv2 has. `version` is [`Self::gic_version`], which
    /// the caller may know beforehand.
    #[inline(always)]
    pub fn post_sgir(
        &self,
        machine: &impl Machine,
        version: GicVersion,
        from: VcpuId,
        value: u32,
    ) -> Attempt {
        match Sgir::single_target(value) {
            Some((id, target)) if version == GicVersion::V2 => {
                self.post(machine, version, from, id, target)
            }
            _ => Attempt::Untouched,
        }
    }

    /// Posts SGI `id`, below 16, from one vCPU to another. [`Attempt::Untouched`] if the target
    /// does not exist or is the sender, or if the SGI needs more than posted SGIs can carry.
    #[inline(always)]
    fn post(
        &self,
        machine: &impl Machine,
        version: GicVersion,
        from: VcpuId,
        id: u32,
        target: VcpuId,
    ) -> Attempt {
        if target == from {
            return Attempt::Untouched;
        }
        let Some((home, requests)) = self.reach(target) else {
            return Attempt::Untouched;
        };
        let posted = match version {
            GicVersion::V3 => Some(PostedSgis::anonymous(id)),
            GicVersion::V2 => PostedSgis::signed(id, from, target),
        };
        let Some(posted) = posted else {
            return Attempt::Untouched;
        };
        if requests.post(posted) == Kick::Needed {
            machine.kick(home);
        }
        Attempt::Done
    }

    /// Puts a vCPU's posted SGIs into the interrupt controller.
    pub(crate) fn deliver_posted_sgis(&self, gic: &mut Vgic, to: VcpuId) {
        let posted = self.requests(to).take_posted_sgis();
        if !posted.is_empty() {
            put_in(gic, posted, to);
        }
    }

    /// Lists posted SGIs, which the caller has taken, if they are a single SGI that was listed before and
    /// nothing else has changed. `version` is [`Self::gic_version`], which the caller may know at compile
    /// time.
    #[inline(always)]
    pub fn show_posted_sgis(
        &self,
        to: VcpuId,
        posted: PostedSgis,
        version: GicVersion,
        lists: &mut impl ListRegisters,
    ) -> Attempt {
        let (sgi, from) = match version {
            GicVersion::V3 => (posted.single_anonymous(), None),
            GicVersion::V2 => match posted.single(to) {
                Some((id, from)) => (Some(1 << id), Some(from)),
                None => (None, None),
            },
        };
        let Some(sgi) = sgi else {
            return Attempt::Untouched;
        };
        let mut gic = self.gic.lock();
        match gic.relist_sgi(from, sgi, to, lists) {
            Some(_) => Attempt::Done,
            None => Attempt::Untouched,
        }
    }
}

/// Puts all SGIs of a sender in at once, so that sixteen take about as long as one.
fn put_in(gic: &mut Vgic, posted: PostedSgis, to: VcpuId) {
    for (sgis, from) in posted.lanes(to) {
        // The receiver's own pCPU runs this, and lists them next, so that no kick is needed.
        let _ = gic.send_sgis_to(from, sgis, to);
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// Serves a request about changed interrupts, which was taken with its posted SGIs.
    pub fn interrupts_changed(&mut self, posted: PostedSgis) {
        put_in(&mut self.vm.gic.lock(), posted, self.vcpu.id);
        self.sync_lists();
    }

    /// Handles a guest's write of `value` to a GICv2's GICD_SGIR: sends the SGI, if it is for one
    /// vCPU.
    #[inline(always)]
    pub(crate) fn send_sgir(&mut self, value: u32) -> Attempt {
        let Some((id, target)) = Sgir::single_target(value) else {
            return Attempt::Untouched;
        };
        self.send_to_one(id, target);
        Attempt::Done
    }

    /// Sends SGI `id` of group 1 to one vCPU.
    #[inline(always)]
    fn send_to_one(&mut self, id: u32, target: VcpuId) {
        if self.vm.post(
            self.machine,
            self.vm.gic_version(),
            self.vcpu.id,
            id,
            target,
        ) == Attempt::Untouched
        {
            self.put_in(id, target);
        }
    }

    #[inline(never)]
    fn put_in(&mut self, id: u32, target: VcpuId) {
        let from = self.vcpu.id;
        let kick = self.vm.gic.lock().send_sgi_to(from, id, target);
        if kick.contains(from) {
            self.sync_lists();
        } else if !kick.is_empty() {
            self.vm.attract(self.machine, target);
        }
    }
}
