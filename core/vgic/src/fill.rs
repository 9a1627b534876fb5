//! From the model into the list registers of one vCPU.
//!
//! 1. What the guest has ended leaves its list register. What else is listed is read only where
//!    something of it was changed meanwhile, it has become pending again, or its end was to be
//!    reported.
//! 2. Free list registers get what must be listed again, then the most urgent of what is pending.
//!    Where none is free, the least urgent that the guest has not acknowledged gives way to what is
//!    more urgent.
//! 3. If more waits, the interrupt for "no list register is pending" is turned on.
//!
//! So an entry costs what has changed, and nothing for what merely waits.

use crate::bank::SPI_BANKS;
use crate::bank::bits;
use crate::choice::Stranded;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use crate::slots::write_changed;
use crate::state::{MAX_LRS, Vgic};
use crate::urgency::Urgency;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, VcpuId};

/// The list registers of a vCPU while they are filled, a bit each.
#[derive(Clone, Copy)]
struct Slots {
    /// In which nothing is listed.
    free: u32,
    /// Those of the free ones that still show the guest what was listed.
    stale: u32,
    /// In which what the guest has acknowledged is to be shown anew.
    renew: u32,
    /// Something pending was put in one.
    filled: bool,
}

/// Why list registers are brought up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something may be listed that could not be before, or the reverse.
    Changed,
    /// A maintenance interrupt: the end of something may have been reported.
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
        let mut slots = self.take_back(cpu, cause, lrs);
        self.find_marked_heads(cpu);
        let found = core::mem::take(&mut self.cpus[cpu].found);
        let acknowledged_left = self.cpus[cpu].acknowledged != 0
            && self.fill_stranded(cpu, Stranded::Acknowledged, &mut slots, lrs);
        let next = self.fill_pending(cpu, &mut slots, found, lrs);
        let next = if acknowledged_left {
            Urgency::FIRST
        } else {
            next
        };
        if next == Urgency::NONE && self.cpus[cpu].forced != 0 {
            self.fill_stranded(cpu, Stranded::Forced, &mut slots, lrs);
        }
        for slot in bits(slots.stale) {
            self.empty(cpu, slot as usize, lrs);
        }
        self.finish(cpu, slots, next, lrs);
    }

    /// Where others wait already, and what is new is less urgent than these, it waits with them, and
    /// the list registers stay as they are.
    pub fn join_those_that_wait(&mut self, vcpu: VcpuId) {
        let index = vcpu.index();
        let Some(cpu) = self.cpu(index) else {
            return;
        };
        let asked = cpu.refold || cpu.again || cpu.discard;
        if asked || !cpu.waits() || cpu.has_much() {
            return;
        }
        self.find_marked_heads(index);
        let best = self.best(index);
        let cpu = &mut self.cpus[index];
        if best >= cpu.next && best != Urgency::NONE && cpu.acknowledged == 0 {
            (cpu.attention, cpu.found) = (false, false);
        }
    }

    /// Unlists what has ended, and where it matters takes over what the list registers say.
    fn take_back(&mut self, cpu: usize, cause: Cause, lrs: &impl ListRegisters) -> Slots {
        let all = (1 << lrs.count().min(MAX_LRS)) - 1;
        let state = &mut self.cpus[cpu];
        let (refold, again) = (state.refold, state.again);
        (state.refold, state.again) = (false, false);
        let used = state.used;
        let ended = used & lrs.empty();
        let mut slots = Slots {
            free: all & !used | ended,
            stale: 0,
            renew: 0,
            filled: false,
        };
        bits(ended).for_each(|slot| self.end(cpu, slot as usize));
        if !refold && !again && cause == Cause::Changed {
            return slots;
        }
        for slot in bits(used & !ended) {
            let lr = self.shadow(cpu, slot as usize);
            let changed = refold || again && self.is_latched(cpu, lr);
            if changed || cause == Cause::Report && lr.eoi() {
                self.take_back_one(cpu, slot, changed, &mut slots, lrs);
            }
        }
        slots
    }

    /// Takes over what one list register says; unlists its interrupt where that has ended, or where
    /// it has `changed` and is not acknowledged.
    fn take_back_one(
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

    /// Lists what is active in no list register, as far as there is room; whether some are left.
    fn fill_stranded(
        &mut self,
        cpu: usize,
        kind: Stranded,
        slots: &mut Slots,
        lrs: &mut impl ListRegisters,
    ) -> bool {
        while let Some(one) = self.stranded(cpu, kind) {
            if slots.free == 0 {
                return true;
            }
            let slot = self.take_slot(cpu, one, slots);
            self.list_at_length(cpu, one, slot, lrs);
        }
        false
    }

    /// Lists the most urgent of what is pending; the most urgent one that then waits. Without
    /// `found`, what is listed is more urgent than what waits.
    fn fill_pending(
        &mut self,
        cpu: usize,
        slots: &mut Slots,
        found: bool,
        lrs: &mut impl ListRegisters,
    ) -> Urgency {
        let mut best = if found {
            self.best(cpu)
        } else {
            self.best_still(cpu)
        };
        let mut peers = 0;
        let mut gave_way = false;
        while best != Urgency::NONE {
            if slots.free == 0 {
                let room = found.then(|| self.make_room(cpu, best, lrs)).flatten();
                let Some(slot) = room else {
                    break;
                };
                gave_way = true;
                slots.free |= 1 << slot;
                slots.stale |= 1 << slot;
            }
            let slot = self.take_slot(cpu, best, slots);
            slots.filled = true;
            self.list(cpu, best, slot, lrs);
            best = self.best_after(cpu, best, &mut peers);
        }
        if gave_way {
            // What gave way waits, too. It is less urgent than all that is listed, so that it was
            // not missed until now.
            self.find_marked_heads(cpu);
            best = self.best(cpu);
        }
        best
    }

    /// Takes the least urgent interrupt out of its list register that the guest has not
    /// acknowledged, if it is less urgent than `than`; the list register.
    fn make_room(&mut self, cpu: usize, than: Urgency, lrs: &impl ListRegisters) -> Option<usize> {
        let mut stays = 0u32;
        loop {
            let mut worst = than;
            let mut found = None;
            for (slot, lr) in self.cpus[cpu].slots() {
                if stays >> slot & 1 != 0 {
                    continue;
                }
                let urgency = match lr.state() {
                    // What was pending beside active may be pending alone by now.
                    LrState::Pending | LrState::PendingActive => {
                        Urgency::new(lr.priority(), lr.virtual_id())
                    }
                    // What was declared active gives way to all that is pending.
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
            // The guest has acknowledged it since it was last looked at.
            stays |= 1 << slot;
        }
    }

    /// The free list register that an interrupt gets: where it stood before, or the first one.
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

    /// Lists a pending interrupt.
    #[inline(always)]
    fn list(&mut self, cpu: usize, need: Urgency, slot: usize, lrs: &mut impl ListRegisters) {
        let bit = need.bit();
        let Self { cpus, spis, .. } = self;
        let state = &mut cpus[cpu];
        let (bank, homed) = match need.word().checked_sub(1) {
            None => (&mut state.private, u32::MAX),
            Some(spi) => (&mut spis[spi % SPI_BANKS], state.homed[spi % SPI_BANKS]),
        };
        if bank.sourced >> bit & 1 != 0 || homed >> bit & 1 == 0 {
            return self.list_at_length(cpu, need, slot, lrs);
        }
        let lr = bank.list(bit, need.priority()).with_virtual_id(need.id());
        let shadow = &mut state.lr[slot % MAX_LRS];
        let before = core::mem::replace(shadow, lr);
        state.used |= 1 << slot;
        if lr.hardware() {
            state.hardware_slot = slot as u8;
        }
        if before != lr {
            lrs.write(slot, lr.into_bits());
        }
    }

    /// Lists an interrupt that is not in its vCPU's list registers for the first time, or needs more
    /// than its bank.
    #[inline(never)]
    fn list_at_length(
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

    /// What is acknowledged is shown anew where that is due; reports and the interrupt for what
    /// waits are turned on or off.
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
        // While some wait nothing is listed as active and pending, and so it need not be looked for
        // once they have waited.
        if waits && !state.waits() || stuck || company {
            for (slot, lr) in state.slots() {
                let again = waits && lr.state() == LrState::PendingActive;
                if again || stuck && !lr.eoi() || company && lr.hardware() {
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
        self.call_back(cpu, next, stuck, lrs);
    }

    /// Whether a list register shows what the guest may take.
    fn shows_pending(&self, cpu: usize, lrs: &impl ListRegisters) -> bool {
        bits(self.cpus[cpu].used)
            .any(|slot| Lr::from_bits(lrs.read(slot as usize)).state() == LrState::Pending)
    }

    /// Turns on what brings this vCPU back when there is room for what waits, or off.
    fn call_back(&mut self, cpu: usize, next: Urgency, stuck: bool, lrs: &mut impl ListRegisters) {
        let waits = next != Urgency::NONE;
        let is_v2 = self.version == GicVersion::V2;
        let state = &mut self.cpus[cpu];
        (state.attention, state.found) = (false, false);
        (state.overflow, state.next) = (waits, next);
        state.stuck = stuck;
        let reported = is_v2 && (waits || state.slots().any(|(_, lr)| lr.eoi()));
        if reported {
            self.report_ends(cpu, true, lrs);
        }
        self.set_called(cpu, waits && !stuck, lrs);
        self.report_ends(cpu, reported, lrs);
    }

    /// Turns the interrupt on or off that comes once no list register is pending.
    pub(crate) fn set_called(&mut self, cpu: usize, on: bool, lrs: &mut impl ListRegisters) {
        let state = &mut self.cpus[cpu];
        if core::mem::replace(&mut state.called, on) != on {
            lrs.set_none_pending_interrupt(on);
        }
    }
}
