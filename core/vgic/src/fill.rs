//! The slow path of an entry: it brings the list registers of one vCPU up to date with the model.
//!
//! 1. An interrupt that the guest has ended leaves its list register. The list register of any other
//!    one is read only if the guest's writes changed the interrupt meanwhile, if it has become pending
//!    again, or if its end was to be reported.
//! 2. Free list registers get the active interrupts that are in none, then the most urgent pending
//!    ones. If none is free, a more urgent pending interrupt evicts the least urgent one that the guest
//!    has not acknowledged.
//! 3. If some pending interrupts found no list register, the interrupt for "no list register is
//!    pending" (ICH_HCR_EL2.NPIE) is enabled.
//!
//! So an entry takes time for interrupts that have changed, and none for those that only wait.

use crate::bank::{Bank, SPI_BANKS, bits};
use crate::choice::Stranded;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use crate::slots::write_changed;
use crate::state::{Cpu, MAX_LRS, Vgic};
use crate::urgency::Urgency;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, VcpuId};

/// The list registers of a vCPU while they are filled, a bit each.
#[derive(Clone, Copy)]
struct Slots {
    /// No interrupt is listed in them.
    free: u32,
    /// They are free, but still show the guest the interrupt that was listed.
    stale: u32,
    /// They hold an acknowledged interrupt, and their values have to be computed anew.
    renew: u32,
    /// Whether a pending interrupt was put in one.
    filled: bool,
}

/// Why list registers are brought up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An interrupt may be listed now that could not be before, or the reverse.
    Changed,
    /// A maintenance interrupt came: it may report the end of an interrupt.
    Report,
}

impl Vgic {
    pub(crate) fn bring_up_to_date(
        &mut self,
        cpu: usize,
        cause: Cause,
        lrs: &mut impl ListRegisters,
    ) {
        let Some(state) = self.cpu(cpu) else {
            return;
        };
        if state.discard {
            self.discard(cpu, lrs);
        }
        let mut slots = self.fold_changed(cpu, cause, lrs);
        self.find_marked_heads(cpu);
        let state = &mut self.cpus[cpu];
        let heads_changed = core::mem::take(&mut state.heads_changed);
        let acknowledged = state.acknowledged != 0;
        let mut left = acknowledged;
        if acknowledged {
            self.fill_stranded(cpu, Stranded::Acknowledged, &mut slots, lrs);
            left = self.cpus[cpu].acknowledged != 0;
        }
        let pending = self.fill_pending(cpu, &mut slots, heads_changed, lrs);
        let next = if left { Urgency::FIRST } else { pending };
        if next == Urgency::NONE && self.cpus[cpu].forced != 0 {
            self.fill_stranded(cpu, Stranded::Forced, &mut slots, lrs);
        }
        for slot in bits(slots.stale) {
            self.empty(cpu, slot as usize, lrs);
        }
        self.finish(cpu, slots, next, lrs);
    }

    /// Does the next [`Self::enter`] where interrupts wait already and all newly pending ones are less
    /// urgent than these: the new ones wait, too, and the list registers stay as they are. In other
    /// cases the entry still has to be made.
    pub fn defer_less_urgent(&mut self, vcpu: VcpuId) {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index) else {
            return;
        };
        let asked = cpu.refold || cpu.relatched || cpu.discard;
        if asked || !cpu.waits() || cpu.has_much() {
            return;
        }
        self.find_marked_heads(index);
        let best = self.best(index);
        let cpu = &mut self.cpus[index];
        if best >= cpu.next && best != Urgency::NONE && cpu.acknowledged == 0 {
            (cpu.attention, cpu.heads_changed) = (false, false);
        }
    }

    /// Unlists the interrupts that have ended, and reads the list registers of those that have changed
    /// or whose end may have been reported into the model.
    fn fold_changed(&mut self, cpu: usize, cause: Cause, lrs: &impl ListRegisters) -> Slots {
        let all = (1 << lrs.count().min(MAX_LRS)) - 1;
        let state = &mut self.cpus[cpu];
        let (refold, again) = (state.refold, state.relatched);
        (state.refold, state.relatched) = (false, false);
        let used = state.used;
        let ended = used & lrs.empty();
        let mut slots = Slots {
            free: all & !used | ended,
            stale: 0,
            renew: 0,
            filled: false,
        };
        self.end_all(cpu, ended, lrs);
        if !refold && !again && cause == Cause::Changed {
            return slots;
        }
        for slot in bits(used & !ended) {
            let lr = self.shadow(cpu, slot as usize);
            let changed = refold || again && self.is_latched(cpu, lr);
            if changed || cause == Cause::Report && lr.eoi() {
                self.fold_one(cpu, slot, changed, &mut slots, lrs);
            }
        }
        slots
    }

    /// Reads one list register into the model, and unlists its interrupt if that has ended, or if
    /// it has `changed` and the guest has not acknowledged it.
    fn fold_one(
        &mut self,
        cpu: usize,
        slot: u32,
        changed: bool,
        slots: &mut Slots,
        lrs: &impl ListRegisters,
    ) {
        let mask = 1 << slot;
        let slot = slot as usize;
        let read = self.fold_slot(cpu, slot, lrs);
        if !changed && read.is_valid() {
            return;
        }
        if self.is_acknowledged(cpu, slot) {
            slots.renew |= mask;
            return;
        }
        self.unlist(cpu, slot);
        slots.free |= mask;
        slots.stale |= mask;
    }

    /// Lists interrupts of `kind` that are active in no list register, as far as there is room.
    fn fill_stranded(
        &mut self,
        cpu: usize,
        kind: Stranded,
        slots: &mut Slots,
        lrs: &mut impl ListRegisters,
    ) {
        while let Some(one) = self.stranded(cpu, kind)
            && slots.free != 0
        {
            let slot = self.take_slot(cpu, one, slots);
            self.list_slow_path(cpu, one, slot, lrs);
        }
    }

    /// Lists the most urgent pending interrupts. The answer is the most urgent one that found no list
    /// register. Unless `heads_changed`, all listed ones are more urgent than those that wait.
    fn fill_pending(
        &mut self,
        cpu: usize,
        slots: &mut Slots,
        heads_changed: bool,
        lrs: &mut impl ListRegisters,
    ) -> Urgency {
        let mut best = if heads_changed {
            self.best(cpu)
        } else {
            self.best_unchanged(cpu)
        };
        let mut peers = 0;
        let mut evicted = false;
        while best != Urgency::NONE {
            if slots.free == 0 {
                let room = heads_changed.then(|| self.evict(cpu, best, lrs)).flatten();
                let Some(slot) = room else {
                    break;
                };
                evicted = true;
                slots.free |= 1 << slot;
                slots.stale |= 1 << slot;
            }
            let slot = self.take_slot(cpu, best, slots);
            slots.filled = true;
            let (groups, state) = (self.groups, &mut self.cpus[cpu]);
            if state.list(best, slot, &mut self.spis, lrs).is_none() {
                self.list_slow_path(cpu, best, slot, lrs);
                best = self.cpus[cpu].best_after(best, &mut peers, &self.spis, groups);
            } else {
                best = state.best_after(best, &mut peers, &self.spis, groups);
            }
        }
        if evicted {
            // The evicted ones wait, too. They are less urgent than all listed ones, so the choices
            // above did not need them.
            self.find_marked_heads(cpu);
            best = self.best(cpu);
        }
        best
    }

    /// Unlists the least urgent interrupt that the guest has not acknowledged, if it is less urgent
    /// than `than`. The answer is its list register.
    fn evict(&mut self, cpu: usize, than: Urgency, lrs: &impl ListRegisters) -> Option<usize> {
        let mut stays = 0u32;
        loop {
            let mut worst = than;
            let mut found = None;
            for (slot, lr) in self.cpus[cpu].slots() {
                if stays >> slot & 1 != 0 {
                    continue;
                }
                let urgency = match lr.state() {
                    // The guest may have deactivated an active and pending one, which is only pending then.
                    LrState::Pending | LrState::PendingActive => {
                        Urgency::new(lr.priority(), lr.virtual_id())
                    }
                    // Any pending interrupt may evict one that the guest declared active.
                    _ if self.is_forced(cpu, lr) => Urgency::NONE,
                    _ => continue,
                };
                if urgency > worst {
                    (worst, found) = (urgency, Some(slot));
                }
            }
            let slot = found?;
            self.fold_slot(cpu, slot, lrs);
            if !self.is_acknowledged(cpu, slot) {
                self.unlist(cpu, slot);
                return Some(slot);
            }
            // The guest has acknowledged it since the list register was last read.
            stays |= 1 << slot;
        }
    }

    /// Takes a free list register for an interrupt: the one in which it was listed before, or the
    /// first one.
    #[inline(always)]
    fn take_slot(&self, cpu: usize, urgency: Urgency, slots: &mut Slots) -> usize {
        let slot = match slots.stale {
            0 => slots.free.trailing_zeros(),
            _ => self.slot_for(cpu, urgency.id(), slots.free),
        };
        slots.free &= !(1 << slot);
        slots.stale &= !(1 << slot);
        slot as usize
    }

    /// [`Cpu::list`] for an SPI whose home is another vCPU yet, or for an SGI that knows its sender,
    /// for which the bank does not suffice.
    #[inline(never)]
    fn list_slow_path(
        &mut self,
        cpu: usize,
        need: Urgency,
        slot: usize,
        lrs: &mut impl ListRegisters,
    ) {
        let (place, bit) = (need.place(cpu), need.bit());
        self.set_home(place, bit, cpu);
        let before = self.shadow(cpu, slot);
        let lr = self.show(cpu, place, bit, slot, Reports::NONE);
        write_changed(lrs, slot, before, lr);
    }

    /// Computes the list registers of acknowledged interrupts anew where that is due, and enables or
    /// disables maintenance interrupts.
    fn finish(&mut self, cpu: usize, slots: Slots, next: Urgency, lrs: &mut impl ListRegisters) {
        let waits = next != Urgency::NONE;
        let stuck = waits && !slots.filled && !self.shows_pending(cpu, lrs);
        let company = self.company(cpu, waits);
        let reports = Reports {
            all: stuck,
            active: waits,
            hardware: company,
        };
        let state = &self.cpus[cpu];
        let mut renew = slots.renew;
        // While interrupts wait, none is listed as active and pending. So these have to be looked for
        // only at the first entry at which some wait.
        if waits && !state.waits() || stuck || company {
            for (slot, lr) in state.slots() {
                let pending_active = waits && lr.state() == LrState::PendingActive;
                if pending_active || stuck && !lr.eoi() || company && lr.hardware() {
                    renew |= 1 << slot;
                }
            }
        }
        for slot in bits(renew) {
            let slot = slot as usize;
            if slots.renew >> slot & 1 == 0 {
                self.fold_slot(cpu, slot, lrs);
            }
            let before = self.shadow(cpu, slot);
            let lr = self.refresh(cpu, slot, reports);
            write_changed(lrs, slot, before, lr);
        }
        self.set_hcr(cpu, next, stuck, lrs);
    }

    /// Whether a list register shows a pending interrupt, which the guest may acknowledge.
    fn shows_pending(&self, cpu: usize, lrs: &impl ListRegisters) -> bool {
        bits(self.cpus[cpu].used)
            .any(|slot| Lr::from_bits(lrs.read(slot as usize)).state() == LrState::Pending)
    }

    /// Enables the maintenance interrupts that bring this vCPU back when there is room for
    /// interrupts that wait, and disables those that are no longer needed.
    fn set_hcr(&mut self, cpu: usize, next: Urgency, stuck: bool, lrs: &mut impl ListRegisters) {
        let waits = next != Urgency::NONE;
        let is_v2 = self.version == GicVersion::V2;
        let state = &mut self.cpus[cpu];
        (state.attention, state.heads_changed) = (false, false);
        (state.overflow, state.next) = (waits, next);
        state.stuck = stuck;
        let reported = is_v2 && (waits || state.slots().any(|(_, lr)| lr.eoi()));
        if reported && !core::mem::replace(&mut state.reports, true) {
            lrs.report_ends(true);
        }
        state.set_npie(waits && !stuck, lrs);
        if !reported && core::mem::replace(&mut state.reports, false) {
            lrs.report_ends(false);
        }
    }
}

impl Cpu {
    /// Enables or disables the interrupt that comes once no list register is pending
    /// (ICH_HCR_EL2.NPIE).
    #[inline(always)]
    pub(crate) fn set_npie(&mut self, on: bool, lrs: &mut impl ListRegisters) {
        if core::mem::replace(&mut self.npie, on) != on {
            lrs.set_none_pending_interrupt(on);
        }
    }

    /// Lists a pending interrupt in a list register. Where the bank does not suffice for that, nothing changes, and
    /// the answer is `None`.
    #[inline(always)]
    fn list(
        &mut self,
        need: Urgency,
        slot: usize,
        spis: &mut [Bank; SPI_BANKS],
        lrs: &mut impl ListRegisters,
    ) -> Option<()> {
        let bit = need.bit();
        let (bank, homed) = match need.word().checked_sub(1) {
            None => (&mut self.private, u32::MAX),
            Some(spi) => (&mut spis[spi % SPI_BANKS], self.homed[spi % SPI_BANKS]),
        };
        if bank.sourced >> bit & 1 != 0 || homed >> bit & 1 == 0 {
            return None;
        }
        let lr = bank.list(bit, need.priority()).with_virtual_id(need.id());
        self.lr[slot % MAX_LRS] = lr;
        self.used |= 1 << slot;
        if lr.hardware() {
            self.hardware_slot = slot as u8;
        }
        // To compare it with the former value takes longer than to write it again.
        lrs.write(slot, lr.into_bits());
        Some(())
    }
}
