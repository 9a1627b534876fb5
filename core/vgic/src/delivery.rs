//! Between the model and the list registers of one vCPU.
//!
//! Here is what the hypervisor calls, and how one interrupt moves; `fill.rs` says which ones do.

use crate::bank::SPI_BANKS;
use crate::bank::{Bank, bits};
use crate::fill::Cause;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use crate::state::{Cpu, InterruptPlace, MAX_LRS, Vgic};
use crate::urgency::Urgency;
use hanok_hal::ListRegisters;
use hanok_types::{VcpuId, VcpuSet};

impl Vgic {
    /// Whether [`Self::enter`] has something to do before the vCPU goes (back) to its guest.
    #[inline]
    pub fn needs_entry(&self, vcpu: VcpuId) -> bool {
        self.cpu(vcpu.index()).is_some_and(|cpu| cpu.attention)
    }

    /// Whether certainly nothing is pending for `vcpu`, whose list registers these are: nothing has changed
    /// since they were written, nothing waits for one, and the guest has ended what they held.
    #[inline]
    pub fn is_drained(&self, vcpu: VcpuId, lrs: &impl ListRegisters) -> bool {
        self.cpu(vcpu.index())
            .is_some_and(|cpu| !cpu.attention && !cpu.waits() && cpu.used & !lrs.empty() == 0)
    }

    /// Whether more is pending than found list registers, and nothing is new.
    #[inline]
    pub fn some_merely_wait(&self, vcpu: VcpuId) -> bool {
        let cpu = self.cpus.get(vcpu.index());
        cpu.is_some_and(|cpu| cpu.waits() && !cpu.attention)
    }

    /// Whether [`Self::enter`] would do much: at most 5,000 instructions, but nothing should be done
    /// beside it with interrupts masked.
    #[inline]
    pub fn entry_is_long(&self, vcpu: VcpuId) -> bool {
        let cpu = self.cpu(vcpu.index());
        cpu.is_some_and(|cpu| cpu.attention && cpu.has_much())
    }

    /// Whether [`Self::enter`] would list two interrupts at most beside what is listed, or take two out
    /// at most, and so can follow at once what is long itself.
    pub fn entry_is_brief(&self, vcpu: VcpuId) -> bool {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index).filter(|cpu| cpu.attention) else {
            return true;
        };
        let several = cpu.words & cpu.words.wrapping_sub(1) != 0;
        if several || cpu.found || cpu.waits() {
            return false;
        }
        if cpu.refold {
            // Some that are listed are to be taken out, and no others put in.
            return cpu.words == 0 && cpu.used.count_ones() <= 2;
        }
        let word = cpu.words.trailing_zeros() as usize;
        // Where no word is marked, nothing is new.
        cpu.words == 0 || cpu.offer(word, &self.spis, self.groups).number() <= 2
    }

    /// Brings the list registers of this pCPU, on which `vcpu` is resident, up to date.
    /// Costs a few instructions where [`Self::needs_entry`] is false. Afterwards, and after
    /// every other call that may have ended a physical interrupt's virtual one, see
    /// [`Self::take_released`]. Returns the *other* vCPUs to be kicked, as an interrupt that
    /// the guest has sent elsewhere meanwhile is free now.
    #[inline]
    pub fn enter(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        if !self.needs_entry(vcpu) {
            return VcpuSet::EMPTY;
        }
        if self.show_latched(vcpu, lrs).is_none() {
            self.bring_up_to_date(vcpu.index(), Cause::Changed, lrs);
        }
        self.take_kicks(vcpu)
    }

    /// [`Self::enter`] without its short way: what that is measured against.
    #[cfg(test)]
    pub(crate) fn enter_at_length(
        &mut self,
        vcpu: VcpuId,
        lrs: &mut impl ListRegisters,
    ) -> VcpuSet {
        if self.needs_entry(vcpu) {
            self.bring_up_to_date(vcpu.index(), Cause::Changed, lrs);
        }
        self.take_kicks(vcpu)
    }

    /// After a maintenance interrupt: as [`Self::enter`], whether or not anything is new.
    pub fn maintenance(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        self.bring_up_to_date(vcpu.index(), Cause::Report, lrs);
        self.take_kicks(vcpu)
    }

    /// Reads the list registers of this pCPU, on which `vcpu` is resident, into the model,
    /// and leaves what they show to the guest as it is. Call it before a read of a register
    /// by this vCPU, and before [`Self::has_pending`]. Returns the *other* vCPUs to be
    /// kicked.
    pub fn fold(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        let index = vcpu.index();
        for slot in bits(self.cpu(index).map_or(0, |cpu| cpu.used)) {
            let read = self.fold_slot(index, slot as usize, lrs);
            if !read.is_valid() {
                // The report of this end is taken back by emptying the list register, and nothing
                // else says that there is room for what waits.
                if let Some(cpu) = self.cpu_mut(index) {
                    cpu.attention |= read.eoi() || cpu.waits();
                }
                self.unlist(index, slot as usize);
                self.clear_leftover(index, slot as usize, read, lrs);
            }
        }
        self.take_kicks(vcpu)
    }

    /// Takes `vcpu` off this pCPU: the model has the whole state afterwards, the list
    /// registers are empty. The vCPU may then stay away for any time, or enter elsewhere.
    /// Returns the *other* vCPUs to be kicked.
    pub fn leave(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        let index = vcpu.index();
        self.discard(index, lrs);
        let used = self.cpu(index).map_or(0, |cpu| cpu.used);
        for slot in bits(used) {
            let read = self.fold_slot(index, slot as usize, lrs);
            self.unlist(index, slot as usize);
            self.clear_leftover(index, slot as usize, read, lrs);
        }
        if let Some(cpu) = self.cpu_mut(index) {
            (cpu.refold, cpu.again, cpu.found) = (false, false, false);
            if cpu.waiting_words() != 0 {
                cpu.leave_those_that_wait(lrs);
            }
            if core::mem::take(&mut cpu.reports) {
                lrs.report_ends(false);
            }
        }
        self.take_kicks(vcpu)
    }

    fn take_kicks(&mut self, vcpu: VcpuId) -> VcpuSet {
        let mut kicks = core::mem::take(&mut self.kicks);
        kicks.remove(vcpu);
        kicks
    }

    /// Whether an interrupt would be signalled to `vcpu`: one is pending, enabled, of a
    /// forwarded group and not active. (The guest's own mask, ICC_PMR_EL1 and the group
    /// enables of its CPU interface, is not looked at: [`Self::most_urgent`] gives what is
    /// needed for that.) As of the last [`Self::fold`].
    pub fn has_pending(&self, vcpu: VcpuId) -> bool {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index) else {
            return false;
        };
        let waits = |word: u32| {
            let offer = cpu.offer(word as usize, &self.spis, self.groups);
            offer.pending != 0
        };
        let shows = |(_, lr)| {
            let (bank, bit) = self.listed(index, lr);
            bank.shown & bank.delivered(self.groups) & !bank.active & 1 << bit != 0
        };
        bits(cpu.words | cpu.heads.words()).any(waits) || cpu.slots().any(shows)
    }

    /// Priority of the most urgent interrupt that [`Self::has_pending`] found, and whether
    /// it is of group 1. ICC_PMR_EL1 masks it unless the priority is less than PMR.
    pub fn most_urgent(&self, vcpu: VcpuId) -> Option<(u8, bool)> {
        let index = vcpu.index();
        let cpu = self.cpu(index)?;
        let waits = bits(cpu.waiting_words()).map(|word| {
            let word = word as usize;
            let offer = cpu.offer(word, &self.spis, self.groups);
            cpu.bank(word, &self.spis).head(word, offer.pending)
        });
        let shown = cpu.slots().map(|(_, lr)| {
            let (bank, bit) = self.listed(index, lr);
            let pending = bank.shown & bank.delivered(self.groups) & !bank.active;
            bank.head(lr.virtual_id() as usize / 32, pending & 1 << bit)
        });
        let best = waits.chain(shown).min()?;
        if best == Urgency::NONE {
            return None;
        }
        let bank = cpu.bank(best.word(), &self.spis);
        Some((best.priority(), bank.group1 >> best.bit() & 1 != 0))
    }

    /// Clears list registers that hold what is not this vCPU's life: before the first entry
    /// and after a reset.
    pub(crate) fn discard(&mut self, cpu: usize, lrs: &mut impl ListRegisters) {
        if let Some(state) = self.cpu_mut(cpu).filter(|state| state.discard) {
            state.discard = false;
            // Those that are never used, too: what is in them after a reset is not known (IHI 0069H,
            // 12.4.7).
            (0..lrs.count()).for_each(|slot| lrs.write(slot, 0));
            lrs.set_none_pending_interrupt(false);
            lrs.report_ends(false);
            (state.called, state.reports) = (false, false);
        }
    }

    /// The bank of an interrupt that stands in a list register of `cpu`, and its bit.
    #[inline(always)]
    fn listed(&self, cpu: usize, lr: Lr) -> (&Bank, u32) {
        let bank = match lr.virtual_id() / 32 {
            0 => &self.cpus[cpu].private,
            word => &self.spis[(word as usize - 1) % SPI_BANKS],
        };
        (bank, lr.virtual_id() % 32)
    }

    /// [`Self::listed`], to be changed.
    #[inline(always)]
    fn listed_mut(&mut self, cpu: usize, lr: Lr) -> (&mut Bank, u32) {
        let bank = match lr.virtual_id() / 32 {
            0 => &mut self.cpus[cpu].private,
            word => &mut self.spis[(word as usize - 1) % SPI_BANKS],
        };
        (bank, lr.virtual_id() % 32)
    }

    pub(crate) fn is_latched(&self, cpu: usize, lr: Lr) -> bool {
        let (bank, bit) = self.listed(cpu, lr);
        bank.latch >> bit & 1 != 0
    }

    pub(crate) fn is_acknowledged(&self, cpu: usize, slot: usize) -> bool {
        let (bank, bit) = self.listed(cpu, self.shadow(cpu, slot));
        (bank.active & !bank.forced) >> bit & 1 != 0
    }

    /// Whether it is active because the guest wrote so, and may give way.
    pub(crate) fn is_forced(&self, cpu: usize, lr: Lr) -> bool {
        let (bank, bit) = self.listed(cpu, lr);
        bank.forced >> bit & 1 != 0
    }

    /// Recomputes the list register of an interrupt that stays in it; its value.
    pub(crate) fn refresh(&mut self, cpu: usize, slot: usize, reports: Reports) -> Lr {
        let id = self.shadow(cpu, slot).virtual_id();
        let place = InterruptPlace {
            cpu,
            word: id as usize / 32,
        };
        self.show(cpu, place, id % 32, slot, reports)
    }

    /// Puts an interrupt in list register `slot`, or renews it there; its value.
    pub(crate) fn show(
        &mut self,
        cpu: usize,
        place: InterruptPlace,
        bit: u32,
        slot: usize,
        reports: Reports,
    ) -> Lr {
        let groups = self.groups;
        let id = place.word as u32 * 32 + bit;
        let routed = match place.word.checked_sub(1) {
            None => u32::MAX,
            Some(spi) => self.cpus[cpu].routed[spi % SPI_BANKS],
        };
        let here = routed >> bit & 1 != 0;
        let (bank, _) = self.listed_mut(cpu, Lr::new().with_virtual_id(id));
        let wanted = bank.delivered(groups) & 1 << bit != 0;
        let lr = if bank.sourced >> bit & 1 != 0 {
            self.show_sgi(cpu, bit, wanted, reports)
        } else {
            let lr = bank.show(bit, wanted, here, reports);
            if lr.hardware() && reports.hardware {
                lr.with_eoi(true)
            } else {
                lr
            }
        };
        let lr = lr.with_virtual_id(id);
        self.keep(cpu, slot, lr);
        lr
    }

    /// Reads one list register into the bank of its interrupt; what was read.
    pub(crate) fn fold_slot(&mut self, cpu: usize, slot: usize, lrs: &impl ListRegisters) -> Lr {
        let read = Lr::from_bits(lrs.read(slot));
        let shadow = &mut self.cpus[cpu].lr[slot % MAX_LRS];
        shadow.set_state(read.state());
        let folded = *shadow;
        let (bank, bit) = self.listed_mut(cpu, folded);
        let released = bank.fold(bit, folded);
        self.any_released |= released;
        folded
    }

    /// The guest has ended what stood in a list register, which is empty now: back to its bank.
    pub(crate) fn end(&mut self, cpu: usize, slot: usize) {
        let groups = self.groups;
        let state = &mut self.cpus[cpu];
        let shadow = &mut state.lr[slot % MAX_LRS];
        shadow.set_state(LrState::Invalid);
        let lr = *shadow;
        state.used &= !(1 << slot);
        let (bank, bit) = self.listed_mut(cpu, lr);
        let Some(released) = bank.end(bit, lr.hardware()) else {
            // What the guest wrote meanwhile counts, too.
            let released = bank.fold(bit, lr);
            self.any_released |= released;
            return self.unlist(cpu, slot);
        };
        let due = bank.candidates(groups) >> bit & 1 != 0;
        self.any_released |= released;
        if due {
            let word = lr.virtual_id() as usize / 32;
            self.due_again(InterruptPlace { cpu, word }, bit);
        }
    }

    /// An interrupt that has left a list register of `place.cpu` is to be listed again, there or
    /// elsewhere.
    #[inline(never)]
    fn due_again(&mut self, place: InterruptPlace, bit: u32) {
        let state = &mut self.cpus[place.cpu];
        let routed = match place.word.checked_sub(1) {
            None => u32::MAX,
            Some(spi) => state.routed[spi % SPI_BANKS],
        };
        if routed >> bit & 1 != 0 {
            state.attention = true;
            state.words |= 1 << place.word;
            return;
        }
        let target = self.target_of(place, bit);
        let kick = target.map_or(VcpuSet::EMPTY, |target| self.mark(target, place));
        self.kicks = self.kicks.union(kick);
    }

    /// Moves the interrupt of a folded list register back to its bank.
    pub(crate) fn unlist(&mut self, cpu: usize, slot: usize) {
        let groups = self.groups;
        let state = &mut self.cpus[cpu];
        state.used &= !(1 << slot);
        let lr = state.lr[slot % MAX_LRS];
        let (bank, bit) = self.listed_mut(cpu, lr);
        let mask = 1 << bit;
        let sgi = bank.sourced & bank.shown & mask != 0;
        bank.unlist(bit);
        let due = bank.candidates(groups) & mask != 0;
        let active = bank.active & mask != 0;
        if sgi {
            self.take_back_sgi(cpu, bit);
        }
        let word = lr.virtual_id() as usize / 32;
        let place = InterruptPlace { cpu, word };
        if active {
            self.mark(cpu, place);
        } else if due {
            self.due_again(place, bit);
        }
    }
}

impl Cpu {
    /// All that waits is chosen from anew when the vCPU comes back.
    #[cold]
    #[inline(never)]
    fn leave_those_that_wait(&mut self, lrs: &mut impl ListRegisters) {
        self.words = self.waiting_words();
        self.attention |= self.overflow || self.forced != 0;
        self.heads.clear();
        (self.acknowledged, self.forced) = (0, 0);
        (self.overflow, self.next, self.stuck) = (false, Urgency::NONE, false);
        if core::mem::take(&mut self.called) {
            lrs.set_none_pending_interrupt(false);
        }
    }
}
