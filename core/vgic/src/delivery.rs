//! How interrupts move between the model and the list registers of one vCPU.
//!
//! This file has the functions that the hypervisor calls, and those that move a single interrupt;
//! `fill.rs` decides which interrupts move.

use crate::bank::{Bank, SPI_BANKS, bits};
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

    /// Whether more interrupts are pending than found list registers, and nothing has changed since
    /// the last entry.
    #[inline]
    pub fn has_unchanged_overflow(&self, vcpu: VcpuId) -> bool {
        let cpu = self.cpus.get(vcpu.index());
        cpu.is_some_and(|cpu| cpu.waits() && !cpu.attention)
    }

    /// Whether [`Self::enter`] would take long: at most 5,000 instructions, but enough that the exit
    /// should do nothing else with interrupts masked.
    #[inline]
    pub fn entry_is_long(&self, vcpu: VcpuId) -> bool {
        let cpu = self.cpu(vcpu.index());
        cpu.is_some_and(|cpu| cpu.attention && cpu.has_much())
    }

    /// Whether [`Self::enter`] would list at most two more interrupts, or unlist at most two, and so may
    /// follow in the same exit as other long work.
    pub fn entry_is_brief(&self, vcpu: VcpuId) -> bool {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index).filter(|cpu| cpu.attention) else {
            return true;
        };
        let several = cpu.words & cpu.words.wrapping_sub(1) != 0;
        if several || cpu.heads_changed || cpu.waits() {
            return false;
        }
        if cpu.refold {
            // Listed interrupts have to be unlisted, and no others to be listed.
            return cpu.words == 0 && cpu.used.count_ones() <= 2;
        }
        let word = cpu.words.trailing_zeros() as usize;
        // Where no word is marked, no interrupt is newly pending.
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
        if self.list_latched(vcpu, lrs).is_none() && self.list_lone(vcpu, lrs).is_none() {
            self.bring_up_to_date(vcpu.index(), Cause::Changed, lrs);
        }
        self.take_kicks(vcpu)
    }

    /// [`Self::enter`] without its fast path, whose outcome is compared with this one's.
    #[cfg(test)]
    pub(crate) fn enter_slow_path(
        &mut self,
        vcpu: VcpuId,
        lrs: &mut impl ListRegisters,
    ) -> VcpuSet {
        if self.needs_entry(vcpu) {
            self.bring_up_to_date(vcpu.index(), Cause::Changed, lrs);
        }
        self.take_kicks(vcpu)
    }

    /// Does what [`Self::enter`] does, after a maintenance interrupt: also if nothing was marked.
    pub fn maintenance(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        self.bring_up_to_date(vcpu.index(), Cause::Report, lrs);
        self.take_kicks(vcpu)
    }

    /// Reads the list registers of this pCPU, on which `vcpu` is resident, into the model,
    /// and does not change what they show to the guest. Call it before a read of a register
    /// by this vCPU, and before [`Self::has_pending`]. One that the guest's writes are to change is left out: the
    /// model has what was written, and the list register, which may be read again before it is written, has not.
    /// Returns the *other* vCPUs to be kicked.
    pub fn fold(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        let index = vcpu.index();
        if self.ended_quietly(index, lrs) {
            return self.take_kicks(vcpu);
        }
        for slot in bits(self.cpu(index).map_or(0, |cpu| cpu.used)) {
            let Some(read) = self.fold_unasked(index, slot as usize, lrs) else {
                continue;
            };
            if !read.is_valid() {
                // Emptying the list register withdraws the report of this end, and nothing else would
                // say that there is room for interrupts that wait.
                if let Some(cpu) = self.cpu_mut(index) {
                    cpu.attention |= read.eoi() || cpu.waits();
                }
                self.unlist(index, slot as usize);
                self.clear_leftover(index, slot as usize, read, lrs);
            }
        }
        self.take_kicks(vcpu)
    }

    /// [`Self::fold`] where the guest has ended all that is listed, without a report, and nothing waits for a list register: whether it was so.
    fn ended_quietly(&mut self, cpu: usize, lrs: &impl ListRegisters) -> bool {
        let Some(state) = self.cpu(cpu) else {
            return false;
        };
        let used = state.used;
        let reported = |(_, lr): (usize, Lr)| lr.eoi();
        if state.waits() || used & !lrs.empty() != 0 || state.slots().any(reported) {
            return false;
        }
        self.end_listed(cpu, used, lrs);
        true
    }

    /// Takes `vcpu` off this pCPU: the model has the whole state afterwards, the list
    /// registers are empty. The vCPU may then stay away for any time, or enter elsewhere.
    /// Returns the *other* vCPUs to be kicked.
    #[inline]
    pub fn leave(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        if self.kicks.is_empty()
            && let Some(cpu) = self.cpu_mut(vcpu.index())
            && cpu.has_nothing_listed()
        {
            (cpu.refold, cpu.relatched, cpu.heads_changed) = (false, false, false);
            return VcpuSet::EMPTY;
        }
        self.leave_listed(vcpu, lrs)
    }

    /// [`Self::leave`] where interrupts are listed, or are to be.
    #[inline(never)]
    fn leave_listed(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        let index = vcpu.index();
        self.discard(index, lrs);
        let used = self.cpu(index).map_or(0, |cpu| cpu.used);
        for slot in bits(used) {
            let read = self.fold_slot(index, slot as usize, lrs);
            self.unlist(index, slot as usize);
            self.clear_leftover(index, slot as usize, read, lrs);
        }
        if let Some(cpu) = self.cpu_mut(index) {
            (cpu.refold, cpu.relatched, cpu.heads_changed) = (false, false, false);
            if cpu.waiting_words() != 0 {
                cpu.reset_overflow(lrs);
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

    /// Clears list registers whose values are not of this vCPU's present state: before its first entry
    /// and after a reset.
    pub(crate) fn discard(&mut self, cpu: usize, lrs: &mut impl ListRegisters) {
        if let Some(state) = self.cpu_mut(cpu).filter(|state| state.discard) {
            state.discard = false;
            // List registers that are never used are cleared, too: their values after a reset are
            // UNKNOWN (IHI 0069H, 12.4.7).
            (0..lrs.count()).for_each(|slot| lrs.write(slot, 0));
            lrs.set_none_pending_interrupt(false);
            lrs.report_ends(false);
            (state.npie, state.reports) = (false, false);
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

    /// Whether the interrupt is active because the guest wrote ISACTIVER, and so may be evicted.
    pub(crate) fn is_forced(&self, cpu: usize, lr: Lr) -> bool {
        let (bank, bit) = self.listed(cpu, lr);
        bank.forced >> bit & 1 != 0
    }

    /// Recomputes the list register of an interrupt that stays in it. The answer is its value.
    pub(crate) fn refresh(&mut self, cpu: usize, slot: usize, reports: Reports) -> Lr {
        let id = self.shadow(cpu, slot).virtual_id();
        let place = InterruptPlace {
            cpu,
            word: id as usize / 32,
        };
        self.show(cpu, place, id % 32, slot, reports)
    }

    /// Puts an interrupt in list register `slot`, or recomputes it there. The answer is the list
    /// register's value.
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

    /// Reads one list register into the bank of its interrupt. The answer is the value read.
    pub(crate) fn fold_slot(&mut self, cpu: usize, slot: usize, lrs: &impl ListRegisters) -> Lr {
        let read = Lr::from_bits(lrs.read(slot));
        let shadow = &mut self.cpus[cpu].lr[slot % MAX_LRS];
        shadow.set_state(read.state());
        let folded = *shadow;
        let (bank, bit) = self.listed_mut(cpu, folded);
        bank.fold(bit, folded);
        let released = bank.released != 0;
        self.any_released |= released;
        folded
    }

    /// As [`Self::fold_slot`], if the guest's writes are not to change the list register: else `None`, and nothing is done.
    #[inline(always)]
    fn fold_unasked(&mut self, cpu: usize, slot: usize, lrs: &impl ListRegisters) -> Option<Lr> {
        let state = &mut self.cpus[cpu];
        let shadow = &mut state.lr[slot % MAX_LRS];
        let (word, bit) = (shadow.virtual_id() / 32, shadow.virtual_id() % 32);
        let bank = match word {
            0 => &mut state.private,
            word => &mut self.spis[(word as usize - 1) % SPI_BANKS],
        };
        if bank.is_asked(1 << bit) {
            return None;
        }
        let read = Lr::from_bits(lrs.read(slot));
        shadow.set_state(read.state());
        let folded = *shadow;
        bank.fold(bit, folded);
        self.any_released |= bank.released != 0;
        Some(folded)
    }

    /// Moves the interrupts that the guest has ended from their list registers, which are empty now, back to
    /// their banks. `ended` has a bit for each of these list registers.
    #[inline(always)]
    pub(crate) fn end_all(&mut self, cpu: usize, ended: u32, lrs: &impl ListRegisters) {
        let Self {
            cpus,
            spis,
            any_released,
            ..
        } = self;
        let state = &mut cpus[cpu];
        state.used &= !ended;
        let (mut written, mut due, mut released) = (0, 0, 0);
        for slot in bits(ended) {
            let shadow = &mut state.lr[slot as usize % MAX_LRS];
            shadow.set_state(LrState::Invalid);
            let lr = *shadow;
            let bank = match lr.virtual_id() / 32 {
                0 => &mut state.private,
                word => &mut spis[(word as usize - 1) % SPI_BANKS],
            };
            let bit = lr.virtual_id() % 32;
            if bank.end(bit, lr.hardware()).is_none() {
                written |= 1 << slot;
                continue;
            }
            released |= bank.released;
            due |= (bank.due() >> bit & 1) << slot;
        }
        *any_released |= released != 0;
        if written | due != 0 {
            self.end_seldom(cpu, written, due, lrs);
        }
    }

    /// [`Self::end_all`] where one copy is enough.
    #[inline(never)]
    pub(crate) fn end_listed(&mut self, cpu: usize, ended: u32, lrs: &impl ListRegisters) {
        self.end_all(cpu, ended, lrs);
    }

    /// The rest of [`Self::end_all`] for the list registers of interrupts whose registers the guest has `written`
    /// meanwhile, and of those that are `due` again, which may be disabled.
    #[inline(never)]
    fn end_seldom(&mut self, cpu: usize, written: u32, due: u32, lrs: &impl ListRegisters) {
        for slot in bits(written) {
            // The guest's writes count, too.
            self.fold_slot(cpu, slot as usize, lrs);
            self.unlist(cpu, slot as usize);
        }
        for slot in bits(due) {
            let lr = self.shadow(cpu, slot as usize);
            let (bank, bit) = self.listed(cpu, lr);
            if bank.candidates(self.groups) >> bit & 1 != 0 {
                let word = lr.virtual_id() as usize / 32;
                self.due_again(InterruptPlace { cpu, word }, bit);
            }
        }
    }

    /// Marks the vCPU that is to list an interrupt which has left a list register of `place.cpu` and is
    /// pending again: the same vCPU, or another one.
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
    /// Marks all words in which interrupts wait, so that the choice begins anew when the vCPU comes back.
    #[cold]
    #[inline(never)]
    fn reset_overflow(&mut self, lrs: &mut impl ListRegisters) {
        self.words = self.waiting_words();
        self.attention |= self.overflow || self.forced != 0;
        self.heads.clear();
        (self.acknowledged, self.forced) = (0, 0);
        (self.overflow, self.next, self.stuck) = (false, Urgency::NONE, false);
        if core::mem::take(&mut self.npie) {
            lrs.set_none_pending_interrupt(false);
        }
    }
}
