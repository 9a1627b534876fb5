//! The short way into a list register.
//!
//! What `delivery.rs` does for any number of interrupts, done for the frequent case alone: a
//! single private interrupt without a level or a physical interrupt behind it, in practice
//! an SGI, has become pending, and nothing else has changed. Its outcome is the same.

use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use crate::state::{Cpu, MAX_LRS, Vgic};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId};

impl Vgic {
    /// [`Self::send_sgi`] by ICC_SGI1R_EL1, or GICD_SGIR of a GICv2, for a single target;
    /// whether that is to be told. `id` is below 16.
    #[inline(always)]
    pub fn send_sgi_to(&mut self, from: VcpuId, id: u32, target: VcpuId) -> bool {
        self.send_sgis_to(from, 1 << (id % 16), target)
    }

    /// [`Self::send_sgi_to`] of several at once, a bit of `sgis` each, which takes about as long as
    /// one.
    #[inline]
    pub fn send_sgis_to(&mut self, from: VcpuId, sgis: u16, target: VcpuId) -> bool {
        let groups = self.groups;
        let index = target.index();
        let Some(cpu) = self.cpus.get_mut(index).filter(|_| index < self.vcpus) else {
            return false;
        };
        let sourced = cpu.private.sourced & u32::from(sgis);
        if sourced != 0 {
            cpu.senders.add_all(sourced as u16, from);
        }
        let sent = sourced | cpu.private.group1 & u32::from(sgis);
        cpu.private.latch |= sent;
        let due = sent & (cpu.private.listed | cpu.private.candidates(groups)) != 0;
        if due {
            cpu.attention = true;
            cpu.again |= sent & cpu.private.listed != 0;
            cpu.words |= 1;
        }
        due
    }

    /// [`Self::send_sgi_to`] and then [`Self::enter`] in the most frequent case: nothing else
    /// has changed, and the SGI stands in a list register, where the guest has taken and ended
    /// it since it was last looked at. `None`, and nothing is changed, in other cases. `sgi` is
    /// its bit; `from` says who sent it, where that matters, which it does for a GICv2.
    #[inline(always)]
    pub fn show_sgi_again(
        &mut self,
        from: Option<VcpuId>,
        sgi: u32,
        target: VcpuId,
        lrs: &mut impl ListRegisters,
    ) -> Option<()> {
        let cpu = &mut self.cpus[target.index()];
        if cpu.attention | cpu.overflow || cpu.private.latch & sgi != 0 {
            return None;
        }
        let id = sgi.trailing_zeros();
        let empty = lrs.empty();
        // A GICv2's: beside an interrupt whose end is left to the CPU nothing may stand.
        if from.is_some() && cpu.used & empty != cpu.used {
            return None;
        }
        let slot = cpu.ended_slot_of(id, empty)?;
        let shadow = &mut cpu.lr[slot % MAX_LRS];
        // As it was listed, and had anything of it changed since, `attention` would be set. A
        // GICv3's is sent to those of group 1 alone.
        if shadow.state() != LrState::Pending || from.is_none() && !shadow.group1() {
            return None;
        }
        if let Some(from) = from {
            *shadow = shadow.with_eoi(false).with_sender(from.index() as u8);
            cpu.senders.replace(id, from);
        }
        lrs.write(slot, shadow.into_bits());
        Some(())
    }

    /// [`Self::maintenance`] in the most frequent case: the guest has ended one private
    /// interrupt with a physical one behind, and nothing else has changed. The physical one,
    /// which is to be deactivated; `None`, and nothing is changed, in other cases.
    #[inline(always)]
    pub fn end_of_hardware(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> Option<IntId> {
        let cpu = self.cpus.get_mut(vcpu.index())?;
        // Of a GICv3 a report most often says that there is room for what waits.
        let room = self.version == GicVersion::V3 && cpu.waits();
        if cpu.attention || cpu.stuck || room {
            return None;
        }
        let ended = lrs.ended() & cpu.used;
        if !ended.is_power_of_two() {
            return None;
        }
        let slot = ended.trailing_zeros() as usize;
        let lr = cpu.lr.get_mut(slot)?;
        let id = lr.virtual_id();
        let mask = 1u32.checked_shl(id)?;
        let bank = &mut cpu.private;
        let due = bank.latch | bank.hardware | bank.line & !bank.edge;
        if bank.hardware_listed & mask == 0 || due & mask != 0 {
            return None;
        }
        bank.active &= !mask;
        bank.forced &= !mask;
        bank.shown &= !mask;
        bank.soft &= !mask;
        bank.hardware_listed &= !mask;
        bank.listed &= !mask;
        let physical = bank.physical(id);
        cpu.used &= !(1 << slot);
        *lr = Lr::new();
        lrs.write(slot, 0);
        Some(IntId::new(physical.into()))
    }

    /// [`Self::enter`] in the most frequent case: shows the one interrupt that is new; `None`,
    /// and nothing is changed, where there is more to do than that.
    #[inline(always)]
    pub fn show_latched(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> Option<()> {
        let (groups, version) = (self.groups, self.version);
        let cpu = self.cpus.get_mut(vcpu.index())?;
        if cpu.discard || cpu.refold || cpu.waits() || cpu.forced != 0 || cpu.words != 1 {
            return None;
        }
        let bank = &cpu.private;
        let new = bank.latch;
        let levels = bank.line & !bank.edge | bank.hardware;
        let lone = new.is_power_of_two() && levels | bank.stranded() == 0;
        if !lone || bank.delivered(groups) & new == 0 {
            return None;
        }
        if version == GicVersion::V2 && cpu.used & !lrs.empty() != 0 {
            return None;
        }
        let slot = cpu.slot_for(new, lrs)?;
        let lr = cpu.relist(new, slot)?;
        lrs.write(slot, lr);
        if version == GicVersion::V2 && Lr::from_bits(lr).eoi() && !cpu.reports {
            cpu.reports = true;
            lrs.report_ends(true);
        }
        cpu.used |= 1 << slot;
        cpu.words = 0;
        (cpu.attention, cpu.again) = (false, false);
        Some(())
    }
}

impl Cpu {
    /// The list register for the interrupt of bit `new`: the one where it stood before and
    /// has ended, or else a free one.
    #[inline(always)]
    fn slot_for(&self, new: u32, lrs: &impl ListRegisters) -> Option<usize> {
        let empty = lrs.empty();
        if self.private.listed & new == 0 {
            let all = (1u32 << lrs.count().min(MAX_LRS)) - 1;
            let free = empty & !self.used & all;
            return (free != 0).then_some(free.trailing_zeros() as usize);
        }
        self.ended_slot_of(new.trailing_zeros(), empty)
    }

    /// The list register in which interrupt `id` stood and has ended, of those that are `empty`.
    #[inline(always)]
    pub(crate) fn ended_slot_of(&self, id: u32, empty: u32) -> Option<usize> {
        let mut ended = empty & self.used;
        while ended != 0 {
            let slot = ended.trailing_zeros() as usize;
            if self.lr[slot % MAX_LRS].virtual_id() == id {
                return Some(slot);
            }
            ended &= ended - 1;
        }
        None
    }

    /// The value of list register `slot`, in which the interrupt of bit `new` stood and has
    /// ended, or nothing stood; and the bookkeeping of it.
    #[inline(always)]
    fn relist(&mut self, new: u32, slot: usize) -> Option<u64> {
        let id = new.trailing_zeros();
        let bank = &mut self.private;
        let shadow = self.lr.get_mut(slot)?;
        // What stood there has ended.
        if bank.listed & !bank.sourced & new != 0 {
            // Had its priority, group or enable changed since, `refold` would be set; so all
            // but the state still holds.
            *shadow = shadow.with_state(LrState::Pending);
            bank.latch &= !new;
            bank.active &= !new;
            bank.forced &= !new;
            bank.shown |= new;
            bank.soft |= new;
            return Some(shadow.into_bits());
        }
        bank.active &= !new;
        bank.forced &= !new;
        self.list_new(id, slot)
    }

    /// Lists an SGI that is in no list register, or in one that it has left.
    #[inline(never)]
    fn list_new(&mut self, id: u32, slot: usize) -> Option<u64> {
        let new = 1 << id;
        let bank = &mut self.private;
        bank.shown &= !new;
        bank.soft &= !new;
        let lr = if bank.sourced & new != 0 {
            self.show_sgi(id, true, Reports::NONE)
        } else {
            bank.show(id, true, true, Reports::NONE)
        };
        let lr = lr.with_virtual_id(id);
        *self.lr.get_mut(slot)? = lr;
        Some(lr.into_bits())
    }
}
