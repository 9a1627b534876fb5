//! How the state of an interrupt moves between its bank and its list register.

use crate::bank::Bank;
use crate::bank::Groups;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use hanok_types::IntId;

impl Bank {
    /// The interrupts that a list register shows as pending and that stay pending when their lines
    /// fall.
    fn lasting(&self) -> u32 {
        self.soft | self.hardware_listed
    }

    /// Whether the guest's writes are to change the list registers of interrupts of `mask`.
    #[inline(always)]
    pub(crate) fn is_asked(&self, mask: u32) -> bool {
        (self.unpend | self.deactivate | self.activate) & mask != 0
    }

    /// The value of the list register, except its id, for an interrupt that is put or stays there,
    /// with the changes to the bank. If the interrupt is not `wanted` (disabled) or not `here`
    /// (routed to another vCPU), the list register shows only its active state.
    pub(crate) fn show(&mut self, bit: u32, wanted: bool, here: bool, reports: Reports) -> Lr {
        let mask = 1 << bit;
        let active = self.active & mask != 0;
        self.listed |= mask;
        self.latch |= self.shown & self.lasting() & mask;
        // A high level while its interrupt is active is due again when the interrupt ends.
        let due = if active { self.latch } else { self.due() };
        // While others wait, it must compete with them when it ends, instead of staying listed.
        let may = wanted && here && !(active && (reports.all || reports.active));
        let pending = may && due & mask != 0;
        set(&mut self.soft, mask, pending && self.latch & mask != 0);
        set(&mut self.shown, mask, pending);
        if pending {
            self.latch &= !mask;
        }
        self.hardware_listed |= self.hardware & mask;
        self.hardware &= !mask;

        // It is due again when it ends, here because of its line, or at another vCPU. For a
        // disabled interrupt the end need not be reported, since enabling it folds it.
        let more = wanted && self.due() & mask != 0;
        let lr = Lr::new()
            .with_priority(self.priority(bit))
            .with_group1(self.group1 & mask != 0)
            .with_state(LrState::new(pending, active));
        let hardware = self.hardware_listed & mask != 0;
        // With HW=1 an interrupt must not be pending and active (IHI 0069, ICH_LR<n>_EL2.State).
        let by_software = reports.all || more || pending && active;
        if hardware && !by_software {
            lr.with_hardware(true).with_physical_id(self.physical(bit))
        } else {
            lr.with_eoi(reports.all || hardware || more)
        }
    }

    /// [`Self::show`] in the most frequent case: the interrupt may be listed, and is due at the
    /// vCPU in whose list register it is put.
    #[inline(always)]
    pub(crate) fn list(&mut self, bit: u32, priority: u8) -> Lr {
        let mask = 1 << bit;
        self.listed |= mask;
        self.shown |= mask;
        self.soft = self.soft & !mask | self.latch & mask;
        self.latch &= !mask;
        let hardware = self.hardware & mask;
        self.hardware_listed |= hardware;
        self.hardware &= !mask;
        // A high line makes it due again when it ends.
        let more = self.line & !self.edge & mask;
        let lr = Lr::new()
            .with_priority(priority)
            .with_group1(self.group1 & mask != 0)
            .with_state(LrState::Pending);
        if hardware & !more != 0 {
            lr.with_hardware(true).with_physical_id(self.physical(bit))
        } else {
            lr.with_eoi(hardware | more != 0)
        }
    }

    /// [`Self::fold`] and [`Self::unlist`] of an interrupt that the guest has ended. `with_hardware` says
    /// whether the end deactivated the physical interrupt behind it; otherwise that one is released. If
    /// the guest wrote to the interrupt's registers meanwhile, nothing is changed, and the answer is `None`.
    #[inline(always)]
    pub(crate) fn end(&mut self, bit: u32, with_hardware: bool) -> Option<()> {
        let mask = 1 << bit;
        if self.is_asked(mask) {
            return None;
        }
        self.listed &= !mask;
        self.active &= !mask;
        self.forced &= !mask;
        self.shown &= !mask;
        self.soft &= !mask;
        if self.hardware_listed & mask == 0 {
            return Some(());
        }
        self.hardware_listed &= !mask;
        if !with_hardware {
            self.released |= mask;
        }
        Some(())
    }

    /// Whether the interrupt of `mask` is idle and to be delivered: not listed, not active, not pending, enabled, and
    /// of a forwarded group.
    #[inline(always)]
    pub(crate) fn may_show_hardware(&self, mask: u32, groups: Groups) -> bool {
        let taken = self.listed | self.active | self.due() | self.hardware;
        self.delivered(groups) & !taken & mask != 0
    }

    /// Lists a private interrupt whose physical one has just fired, if it may be shown
    /// ([`Self::may_show_hardware`]). The answer is the list register's value without the priority.
    #[inline(always)]
    pub(crate) fn show_hardware(
        &mut self,
        id: IntId,
        physical: IntId,
        groups: Groups,
    ) -> Option<Lr> {
        let bit = id.get() % 32;
        let mask = 1 << bit;
        if !self.may_show_hardware(mask, groups) {
            return None;
        }
        let physical = (physical.get() & 0x3ff) as u16;
        *self.physical.get_mut(bit as usize)? = physical;
        self.listed |= mask;
        self.shown |= mask;
        self.hardware_listed |= mask;
        let lr = Lr::new()
            .with_virtual_id(id.get())
            .with_physical_id(physical)
            .with_hardware(true)
            .with_group1(self.group1 & mask != 0)
            .with_state(LrState::Pending);
        Some(lr)
    }

    /// Takes the present value of a list register, which was last written as this module said, into
    /// the bank. If the interrupt has ended, and the CPU has not deactivated the physical one behind it, that
    /// one is released.
    pub(crate) fn fold(&mut self, bit: u32, read: Lr) {
        let mask = 1 << bit;
        let kept_active = read.is_active() && self.deactivate & mask == 0;
        let forced = self.activate & mask != 0 && !kept_active;
        let active = kept_active || forced;
        let still_forced = active && self.forced & mask != 0;
        let pending = read.is_pending() && self.unpend & mask == 0;
        self.unpend &= !mask;
        self.deactivate &= !mask;
        self.activate &= !mask;
        set(&mut self.active, mask, active);
        set(&mut self.shown, mask, pending);
        self.soft &= self.shown | !mask;
        set(&mut self.forced, mask, forced || still_forced);
        let ended = !read.is_valid() || !(pending || active);
        if !ended || self.hardware_listed & mask == 0 {
            return;
        }
        self.hardware_listed &= !mask;
        let by_cpu = !read.is_valid() && read.hardware();
        if !by_cpu {
            self.released |= mask;
        }
    }

    /// Removes a folded interrupt from the listed ones. If its list register shows it as pending,
    /// it stays latched, unless only its line made it pending.
    pub(crate) fn unlist(&mut self, bit: u32) {
        let mask = 1 << bit;
        self.latch |= self.shown & self.lasting() & mask;
        self.hardware |= self.hardware_listed & mask;
        self.hardware_listed &= !mask;
        self.shown &= !mask;
        self.soft &= !mask;
        self.listed &= !mask;
    }
}

fn set(word: &mut u32, mask: u32, on: bool) {
    *word = *word & !mask | if on { mask } else { 0 };
}
