//! Between the model and the list registers of one vCPU.
//!
//! Two ways lead into the list registers. Where nothing listed has changed and what is new
//! fits beside it, `top_up` adds the new ones and touches nothing else. Otherwise `refill`
//! folds every list register into the model, takes out what the guest has not acknowledged,
//! chooses anew, and writes the registers whose value differs.

use crate::bank::{Bank, bits};
use crate::choice::{Choice, Need, Offers};
use crate::lr::Lr;
use crate::reports::Reports;
use crate::slots::write_changed;
use crate::state::{MAX_LRS, Place, SPI_BANKS, Vgic};
use hanok_hal::ListRegisters;
use hanok_types::{MAX_VCPUS, VcpuId, VcpuSet};

impl Vgic {
    /// Whether [`Self::enter`] has something to do before the vCPU goes (back) to its guest.
    #[inline]
    pub fn needs_entry(&self, vcpu: VcpuId) -> bool {
        self.cpu(vcpu.index()).is_some_and(|cpu| cpu.attention)
    }

    /// Whether [`Self::enter`] would do much: at most 5,000 instructions, but nothing should be done
    /// beside it with interrupts masked.
    #[inline]
    pub fn entry_is_long(&self, vcpu: VcpuId) -> bool {
        let cpu = self.cpu(vcpu.index());
        cpu.is_some_and(|cpu| cpu.attention && cpu.has_much())
    }

    /// Whether [`Self::enter`] would list two interrupts at most beside what is listed, and so can
    /// follow at once what is long itself.
    pub fn entry_is_brief(&self, vcpu: VcpuId) -> bool {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index).filter(|cpu| cpu.attention) else {
            return true;
        };
        let word = cpu.words.trailing_zeros() as usize;
        let several = cpu.words & cpu.words.wrapping_sub(1) != 0;
        if several || cpu.refold || cpu.overflow {
            return false;
        }
        let spi = word.wrapping_sub(1);
        let own = |words: &[u32; SPI_BANKS]| words.get(spi).copied().unwrap_or(u32::MAX);
        let bank = self.bank(Place { cpu: index, word });
        let offer = bank.map(|bank| bank.offer(self.groups, own(&cpu.routed), own(&cpu.homed)));
        offer.is_none_or(|offer| offer.number() <= 2)
    }

    /// Makes [`Self::enter`] shorter, where it is long and is to follow at once: takes what the guest
    /// has not acknowledged out of the list registers. Returns the *other* vCPUs to be kicked.
    pub fn set_aside(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        let cpu = vcpu.index();
        if self.cpu(cpu).is_some_and(|cpu| !cpu.discard) {
            let used = self.cpu(cpu).map_or(0, |cpu| cpu.used);
            let kept = self.take_out(cpu, lrs);
            for slot in bits(used & !kept) {
                self.empty(cpu, slot as usize, lrs);
            }
            self.mark_refold(cpu);
        }
        self.take_kicks(vcpu)
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
            self.bring_up_to_date(vcpu.index(), lrs);
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
            self.bring_up_to_date(vcpu.index(), lrs);
        }
        self.take_kicks(vcpu)
    }

    /// After a maintenance interrupt: as [`Self::enter`], but looks at every list register.
    pub fn maintenance(&mut self, vcpu: VcpuId, lrs: &mut impl ListRegisters) -> VcpuSet {
        self.mark_refold(vcpu.index());
        self.enter(vcpu, lrs)
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
                // The report of this end is taken back by emptying the list register.
                if read.eoi() || self.cpu(index).is_some_and(|cpu| cpu.overflow) {
                    self.mark_refold(index);
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
            cpu.refold = false;
            // What was listed and is due has marked its vCPU; what found no room is not marked.
            cpu.attention |= cpu.overflow;
            if core::mem::take(&mut cpu.overflow) {
                lrs.set_underflow_interrupt(false);
            }
            if core::mem::take(&mut cpu.reports) {
                lrs.report_ends(false);
            }
        }
        self.take_kicks(vcpu)
    }

    fn take_kicks(&mut self, vcpu: VcpuId) -> VcpuSet {
        let mut kicks = core::mem::take(&mut self.kicks);
        if vcpu.index() < MAX_VCPUS {
            kicks.remove(vcpu);
        }
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
            let place = Place {
                cpu: index,
                word: word as usize,
            };
            let routed = cpu.routed.get(place.word.wrapping_sub(1));
            let candidates = self.bank(place).map(|bank| bank.candidates(self.groups));
            candidates.unwrap_or(0) & routed.unwrap_or(&u32::MAX) != 0
        };
        let shows = |(_, lr)| {
            self.located(index, lr).is_some_and(|(bank, _, bit)| {
                bank.shown & bank.delivered(self.groups) & !bank.active & 1 << bit != 0
            })
        };
        bits(cpu.words).any(waits) || cpu.slots().any(shows)
    }

    /// Priority of the most urgent interrupt that [`Self::has_pending`] found, and whether
    /// it is of group 1. ICC_PMR_EL1 masks it unless the priority is less than PMR.
    pub fn most_urgent(&self, vcpu: VcpuId) -> Option<(u8, bool)> {
        let index = vcpu.index();
        let cpu = self.cpu(index)?;
        let mut offers = Offers::default();
        for word in bits(cpu.words) {
            let word = word as usize;
            let routed = word.checked_sub(1).and_then(|spi| cpu.routed.get(spi));
            let bank = self.bank(Place { cpu: index, word })?;
            let pending = bank.candidates(self.groups) & routed.unwrap_or(&u32::MAX);
            offers.add_pending(word, pending);
        }
        for (_, lr) in cpu.slots() {
            let (place, bit) = self.place(Some(vcpu), lr.id())?;
            let bank = self.bank(place)?;
            let pending = bank.shown & bank.delivered(self.groups) & !bank.active;
            offers.add_pending(place.word, pending & 1 << bit);
        }
        let choice = self.choose(index, &offers, 1);
        let need = choice.best().first()?;
        let bank = self.bank(need.place(index))?;
        let group1 = bank.group1 >> need.bit() & 1 != 0;
        Some((bank.priority(need.bit()), group1))
    }

    fn bring_up_to_date(&mut self, cpu: usize, lrs: &mut impl ListRegisters) {
        self.discard(cpu, lrs);
        let Some(state) = self.cpu_mut(cpu) else {
            return;
        };
        // Adding to what is listed pays where there is little to be looked at.
        let refold = state.refold || state.overflow || state.has_much();
        state.refold = false;
        let mut offers = Offers::default();
        if refold || !self.top_up(cpu, lrs, &mut offers) {
            self.refill(cpu, lrs, &mut offers);
        }
        // What became free on the way was chosen from already.
        if let Some(state) = self.cpu_mut(cpu) {
            state.attention = false;
        }
    }

    /// Clears list registers that hold what is not this vCPU's life: before the first entry
    /// and after a reset.
    fn discard(&mut self, cpu: usize, lrs: &mut impl ListRegisters) {
        if let Some(state) = self.cpu_mut(cpu).filter(|state| state.discard) {
            state.discard = false;
            // Those that are never used, too: what is in them after a reset is not known (IHI 0069H,
            // 12.4.7).
            (0..lrs.count()).for_each(|slot| lrs.write(slot, 0));
            lrs.set_underflow_interrupt(false);
            lrs.report_ends(false);
            state.reports = false;
        }
    }

    /// Adds what is new beside what is listed. False where that is not enough, because an
    /// interrupt is due again that still stands in a list register, or more wait than fit.
    fn top_up(&mut self, cpu: usize, lrs: &mut impl ListRegisters, offers: &mut Offers) -> bool {
        let free = self.reap(cpu, lrs);
        let Some(state) = self.cpu(cpu) else {
            return true;
        };
        let again = state.slots().any(|(_, lr)| self.is_latched(cpu, lr));
        let room = free.count_ones() as usize;
        self.offers(cpu, offers);
        if again || offers.more_than(room) {
            return false;
        }
        let choice = self.choose(cpu, offers, room);
        let company = self.company(cpu, choice.best().len());
        if company && !choice.best().is_empty() && self.left_to_cpu(cpu) {
            return false;
        }
        let reports = Reports {
            all: false,
            hardware: company,
        };
        for (need, slot) in choice.best().iter().zip(bits(free)) {
            let lr = self.list(cpu, *need, slot as usize, reports);
            lrs.write(slot as usize, lr.into_bits());
            if lr.eoi() || lr.hardware() {
                self.report_ends(cpu, lr.eoi(), lrs);
            }
        }
        true
    }

    /// Unlists what the guest has ended; the free list registers.
    fn reap(&mut self, cpu: usize, lrs: &impl ListRegisters) -> u32 {
        let all = (1 << lrs.count().min(MAX_LRS)) - 1;
        let used = self.cpu(cpu).map_or(0, |cpu| cpu.used);
        let empty = lrs.empty() & all;
        for slot in bits(used & empty) {
            self.fold_slot(cpu, slot as usize, lrs);
            self.unlist(cpu, slot as usize);
        }
        empty | all & !used
    }

    fn is_latched(&self, cpu: usize, lr: Lr) -> bool {
        self.located(cpu, lr)
            .is_some_and(|(bank, _, bit)| bank.latch >> bit & 1 != 0)
    }

    /// Folds, chooses anew, and writes what differs.
    fn refill(&mut self, cpu: usize, lrs: &mut impl ListRegisters, offers: &mut Offers) {
        let count = lrs.count().min(MAX_LRS);
        let stale = offers.is_empty() || self.cpu(cpu).is_some_and(|cpu| cpu.used != 0);
        let kept = self.take_out(cpu, lrs);
        let room = count - (kept.count_ones() as usize).min(count);
        // What was listed may be among them now.
        if stale {
            self.offers(cpu, offers);
        }
        let choice = self.choose(cpu, offers, room);
        let acknowledged = kept != 0 || choice.has_acknowledged();
        let reports = Reports {
            all: choice.waiting && (acknowledged || count == 1),
            hardware: self.company(cpu, choice.best().len()),
        };
        let mut free = ((1 << count) - 1) & !kept;

        for slot in bits(kept) {
            let before = self.shadow(cpu, slot as usize);
            let lr = self.refresh(cpu, slot as usize, reports);
            write_changed(lrs, slot as usize, before, lr);
        }
        for need in choice.best() {
            let slot = self.slot_for(cpu, *need, free);
            free &= !(1 << slot);
            let before = self.shadow(cpu, slot as usize);
            let lr = self.list(cpu, *need, slot as usize, reports);
            write_changed(lrs, slot as usize, before, lr);
        }
        for slot in bits(free) {
            self.empty(cpu, slot as usize, lrs);
        }
        let state = self.cpu(cpu);
        let eoi = state.is_some_and(|cpu| cpu.slots().any(|(_, lr)| lr.eoi()));
        if eoi || choice.waiting {
            self.report_ends(cpu, true, lrs);
        }
        self.set_overflow(cpu, choice.waiting, count > 1, lrs);
        self.report_ends(cpu, eoi || choice.waiting, lrs);
    }

    /// Folds every list register and unlists what need not stay; the slots that do.
    fn take_out(&mut self, cpu: usize, lrs: &impl ListRegisters) -> u32 {
        let mut kept = 0;
        for slot in bits(self.cpu(cpu).map_or(0, |cpu| cpu.used)) {
            self.fold_slot(cpu, slot as usize, lrs);
            if self.is_acknowledged(cpu, slot as usize) {
                kept |= 1 << slot;
            } else {
                self.unlist(cpu, slot as usize);
            }
        }
        kept
    }

    fn is_acknowledged(&self, cpu: usize, slot: usize) -> bool {
        let lr = self.cpu(cpu).and_then(|cpu| cpu.lr.get(slot));
        lr.and_then(|lr| self.located(cpu, *lr))
            .is_some_and(|(bank, _, bit)| bank.active & !bank.forced & 1 << bit != 0)
    }

    /// What may be listed for this vCPU: what is pending for it, and what is active in no list
    /// register and had it as its home. Words without any are not looked at again. Where this was
    /// asked before, as much is offered now or more, so that each word's new offer takes the place of
    /// its former one.
    fn offers(&mut self, index: usize, offers: &mut Offers) {
        let (groups, vcpus) = (self.groups, self.vcpus);
        let Some(cpu) = self
            .cpus
            .get_mut(..vcpus)
            .and_then(|all| all.get_mut(index))
        else {
            return;
        };
        let mut left = 0;
        if cpu.words & 1 != 0 && offers.put(0, cpu.private.offer(groups, u32::MAX, u32::MAX)) {
            left = 1;
        }
        for (spi, bank) in self.spis.iter().enumerate() {
            let mask = 2 << spi;
            if cpu.words & mask != 0 {
                let offer = bank.offer(groups, cpu.routed[spi], cpu.homed[spi]);
                if offers.put(spi + 1, offer) {
                    left |= mask;
                }
            }
        }
        cpu.words = left;
    }

    /// The most urgent ones of `offers` for `room` list registers.
    fn choose(&self, cpu: usize, offers: &Offers, room: usize) -> Choice {
        let private = &self.cpus[cpu % MAX_VCPUS].private;
        let [a, b, c, d, e, f, g, h] = &self.spis;
        Choice::of(offers, room, &[private, a, b, c, d, e, f, g, h])
    }

    /// Moves an interrupt from its bank to list register `slot`; its value.
    fn list(&mut self, cpu: usize, need: Need, slot: usize, reports: Reports) -> Lr {
        let place = need.place(cpu);
        self.set_home(place, 1 << need.bit(), cpu);
        self.show(cpu, place, need.bit(), slot, reports)
    }

    /// Recomputes the list register of an interrupt that stays in it; its value.
    fn refresh(&mut self, cpu: usize, slot: usize, reports: Reports) -> Lr {
        let lr = self.shadow(cpu, slot);
        match self.located(cpu, lr) {
            Some((_, place, bit)) => self.show(cpu, place, bit, slot, reports),
            None => lr,
        }
    }

    fn show(&mut self, cpu: usize, place: Place, bit: u32, slot: usize, reports: Reports) -> Lr {
        let groups = self.groups;
        let routed = place
            .word
            .checked_sub(1)
            .map(|spi| self.cpus[cpu % MAX_VCPUS].routed[spi % SPI_BANKS]);
        let here = routed.unwrap_or(u32::MAX) >> bit & 1 != 0;
        let Some(bank) = self.bank_mut(place) else {
            return Lr::new();
        };
        let wanted = bank.delivered(groups) & 1 << bit != 0;
        let lr = if bank.sourced >> bit & 1 != 0 {
            self.show_sgi(cpu, bit, wanted, reports.all)
        } else {
            let lr = bank.show(bit, wanted, here, reports.all);
            match lr.hardware() && reports.hardware {
                true => lr.with_eoi(true),
                false => lr,
            }
        };
        let lr = lr.with_virtual_id(place.word as u32 * 32 + bit);
        self.keep(cpu, slot, lr);
        lr
    }

    fn set_overflow(
        &mut self,
        cpu: usize,
        overflow: bool,
        underflow_helps: bool,
        lrs: &mut impl ListRegisters,
    ) {
        let Some(state) = self.cpu_mut(cpu) else {
            return;
        };
        if state.overflow != overflow {
            state.overflow = overflow;
            lrs.set_underflow_interrupt(overflow && underflow_helps);
        }
    }

    /// Reads one list register into the bank of its interrupt; what was read.
    fn fold_slot(&mut self, cpu: usize, slot: usize, lrs: &impl ListRegisters) -> Lr {
        let read = Lr::from_bits(lrs.read(slot));
        let Some(shadow) = self.cpu_mut(cpu).and_then(|cpu| cpu.lr.get_mut(slot)) else {
            return Lr::new();
        };
        *shadow = shadow.with_state(read.state());
        let folded = *shadow;
        if let Some((place, bit)) = self.place(Some(VcpuId::new(cpu as u8)), folded.id())
            && let Some(bank) = self.bank_mut(place)
        {
            self.any_released |= bank.fold(bit, folded);
        }
        folded
    }

    /// Moves the interrupt of a folded list register back to its bank.
    fn unlist(&mut self, cpu: usize, slot: usize) {
        let groups = self.groups;
        let Some(state) = self.cpu_mut(cpu) else {
            return;
        };
        state.used &= !(1 << slot);
        let Some(lr) = state.lr.get(slot).copied() else {
            return;
        };
        if let Some((place, bit)) = self.place(Some(VcpuId::new(cpu as u8)), lr.id())
            && let Some(bank) = self.bank_mut(place)
        {
            let sgi = bank.sourced & bank.shown & 1 << bit != 0;
            bank.unlist(bit);
            let due = bank.candidates(groups) >> bit & 1 != 0;
            let active = bank.active >> bit & 1 != 0;
            if sgi {
                self.take_back_sgi(cpu, bit);
            }
            // It may be due again, here or at another vCPU.
            let next = if active {
                Some(cpu)
            } else {
                due.then(|| self.target_of(place, bit)).flatten()
            };
            let kick = next.map_or(VcpuSet::EMPTY, |next| self.mark(next, place));
            self.kicks = self.kicks.union(kick);
        }
    }

    fn located(&self, cpu: usize, lr: Lr) -> Option<(&Bank, Place, u32)> {
        let (place, bit) = self.place(Some(VcpuId::new(cpu as u8)), lr.id())?;
        Some((self.bank(place)?, place, bit))
    }
}

impl Need {
    fn place(self, cpu: usize) -> Place {
        Place {
            cpu,
            word: self.word(),
        }
    }
}
