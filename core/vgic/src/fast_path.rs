//! The fast paths into a list register and out of it.
//!
//! They do what `delivery.rs` does for any number of interrupts, for the most frequent case alone:
//! a single private interrupt without a level or a physical interrupt behind it, in practice
//! an SGI, has become pending, and nothing else has changed. The outcome is that of the slow path
//! (`fast_path_tests.rs`, `fast_path_table_tests.rs`).

use crate::bank::SPI_BANKS;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use crate::state::{Cpu, MAX_LRS, Vgic};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet};

impl Vgic {
    /// [`Self::send_sgi`] by ICC_SGI1R_EL1, or GICD_SGIR of a GICv2, for a single target. Returns the
    /// vCPUs to be kicked. `id` is below 16.
    #[inline(always)]
    pub fn send_sgi_to(&mut self, from: VcpuId, id: u32, target: VcpuId) -> VcpuSet {
        self.send_sgis_to(from, 1 << (id % 16), target)
    }

    /// [`Self::send_sgi_to`] for several SGIs at once, one for each bit of `sgis`. It takes about as
    /// long as for one.
    #[inline]
    pub fn send_sgis_to(&mut self, from: VcpuId, sgis: u16, target: VcpuId) -> VcpuSet {
        let groups = self.groups;
        let Some(cpu) = self.cpus.get_mut(target.index()) else {
            return VcpuSet::EMPTY;
        };
        let sourced = cpu.private.sourced & u32::from(sgis);
        if sourced != 0 {
            cpu.senders.add_all(sourced as u16, from);
        }
        let sent = sourced | cpu.private.group1 & u32::from(sgis);
        cpu.private.latch |= sent;
        if sent & (cpu.private.listed | cpu.private.candidates(groups)) == 0 {
            return VcpuSet::EMPTY;
        }
        cpu.attention = true;
        cpu.relatched |= sent & cpu.private.listed != 0;
        cpu.words |= 1;
        VcpuSet::only(target)
    }

    /// [`Self::send_sgi_to`] and then [`Self::enter`] in the most frequent case: nothing else
    /// has changed, and the SGI stands in a list register, where the guest has acknowledged and ended
    /// it since the list register was last read. In all other cases it changes nothing, and the
    /// answer is `None`. `sgi` is the SGI's bit; `from` is the sender on a GICv2, and `None` on a
    /// GICv3, whose SGIs do not know their sender.
    #[inline(always)]
    pub fn relist_sgi(
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
        // On a GICv2 no other interrupt may be listed beside one whose end is left to the CPU.
        if from.is_some() && cpu.used & empty != cpu.used {
            return None;
        }
        let slot = cpu.ended_slot_of(id, empty)?;
        let shadow = &mut cpu.lr[slot % MAX_LRS];
        // The list register's former value still holds: if anything of the interrupt had changed,
        // `attention` would be set. On a GICv3 the SGI is sent only if it is in group 1.
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
    /// interrupt with a physical one behind it, and nothing else has changed. The answer is the
    /// physical interrupt, which the caller must deactivate. In all other cases nothing is changed,
    /// and the answer is `None`.
    #[inline(always)]
    pub fn end_of_hardware(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> Option<IntId> {
        let cpu = self.cpus.get_mut(vcpu.index())?;
        // On a GICv3 a maintenance interrupt most often says that there is room for interrupts that wait.
        let room = self.version.served() == GicVersion::V3 && cpu.waits();
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

    /// [`Self::enter`] in the most frequent case: lists the one interrupt that is newly pending.
    /// Where there is more to do than that, nothing is changed, and the answer is `None`.
    #[inline(always)]
    pub fn list_latched(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> Option<()> {
        let (groups, version) = (self.groups, self.version.served());
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
        (cpu.attention, cpu.relatched) = (false, false);
        Some(())
    }

    /// [`Self::enter`] where the interrupt of one device is newly pending, and the guest has ended all that was listed. Where
    /// there is more to do than to list it, the answer is `None`, and nothing is changed but what the slow path does first: ended interrupts are not
    /// listed any more.
    #[inline(never)]
    pub(crate) fn list_lone(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> Option<()> {
        const SLOT: usize = 0;
        let cpu = self.cpus.get(vcpu.index())?;
        // Word 0 has the private ones.
        if cpu.words & 1 != 0 || !cpu.words.is_power_of_two() {
            return None;
        }
        let plain = !cpu.discard && !cpu.waits() && !cpu.reports;
        if !plain || cpu.refold || cpu.relatched || cpu.waiting_words() != cpu.words {
            return None;
        }
        let used = cpu.used;
        if used & !lrs.empty() != 0 {
            return None;
        }
        if used != 0 {
            self.end_listed(vcpu.index(), used, lrs);
        }
        let Self {
            cpus, spis, groups, ..
        } = self;
        let cpu = cpus.get_mut(vcpu.index())?;
        if !cpu.words.is_power_of_two() || lrs.count() == 0 {
            return None;
        }
        let word = cpu.words.trailing_zeros() as usize;
        let offer = cpu.offer(word, spis, *groups);
        let (new, others) = (offer.pending, offer.acknowledged | offer.forced);
        let spi = word.checked_sub(1)? % SPI_BANKS;
        let (bank, homed) = (&mut spis[spi], cpu.homed[spi]);
        // The ends of those whose lines are high are reported, and on a GICv2 that has to be enabled.
        let reported = bank.line & !bank.edge;
        if !new.is_power_of_two() || others != 0 || new & homed & !reported == 0 {
            return None;
        }
        let bit = new.trailing_zeros();
        let lr = bank.list(bit, bank.priority(bit));
        let lr = lr.with_virtual_id(word as u32 * 32 + bit);
        *cpu.lr.get_mut(SLOT)? = lr;
        cpu.used = 1 << SLOT;
        if lr.hardware() {
            cpu.hardware_slot = SLOT as u8;
        }
        lrs.write(SLOT, lr.into_bits());
        cpu.words = 0;
        (cpu.attention, cpu.heads_changed) = (false, false);
        Some(())
    }
}

impl Cpu {
    /// The list register for the interrupt of bit `new`: the one in which it was listed before and
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

    /// Lists the interrupt of bit `new` in list register `slot`, in which it was listed before and has
    /// ended, or which was free. The answer is the list register's new value.
    #[inline(always)]
    fn relist(&mut self, new: u32, slot: usize) -> Option<u64> {
        let id = new.trailing_zeros();
        let bank = &mut self.private;
        let shadow = self.lr.get_mut(slot)?;
        // The interrupt was listed there, and has ended.
        if bank.listed & !bank.sourced & new != 0 {
            // All but the state still holds: if the priority, group or enable had changed since,
            // `refold` would be set.
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

    /// Lists an SGI that is in no list register, or that has ended in one.
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
