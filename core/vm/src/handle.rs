//! How an exit is turned into an action.

use crate::{Action, Attempt, Exit, GuestFault, Machine, Vcpu, Vm, Wait};
use hanok_types::{IntId, Regs, VcpuSet, platform};
use hanok_vgic::{GuestInterface, Vgic};

/// A vCPU at an exit, with all that is needed to handle it.
#[derive(Debug)]
pub struct Guest<'a, M, L> {
    /// Its VM.
    pub vm: &'a Vm,
    /// Its private part.
    pub vcpu: &'a mut Vcpu,
    /// Its registers.
    pub regs: &'a mut Regs,
    /// The machine, as this pCPU sees it.
    pub machine: &'a M,
    /// The list registers of this pCPU, which hold the vCPU's interrupts.
    pub lists: &'a mut L,
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// Handles the exit. The answer is how the vCPU goes on.
    pub fn handle(&mut self, exit: Exit) -> Action {
        match exit {
            Exit::Hypercall => self.hypercall(),
            Exit::Data(abort) => self.data_abort(abort),
            Exit::SystemRegister(access) => self.system_register(access),
            #[cfg(any(test, feature = "aarch32"))]
            Exit::Coprocessor(access) => self.coprocessor(access),
            // A backend whose guests have AArch64 at EL1 makes no such exit.
            #[cfg(not(any(test, feature = "aarch32")))]
            Exit::Coprocessor(_) => Action::Inject(GuestFault::Undefined),
            Exit::Wait => Action::NextThenBlock(Wait::Interrupt),
            Exit::Refused { write } => {
                Action::Inject(GuestFault::ExternalData { write, walk: false })
            }
            Exit::Fetch { ipa, walk } => self.instruction_abort(ipa, walk),
            // A VM has no EL3 (ID_AA64PFR0_EL1.EL3 = 0), so SMC is undefined.
            Exit::MonitorCall | Exit::Denied | Exit::Unexpected => {
                Action::Inject(GuestFault::Undefined)
            }
            Exit::SystemError => Action::Inject(GuestFault::SystemError),
        }
    }

    /// The virtual timer's physical interrupt fired while this vCPU was in the CPU.
    pub fn virtual_timer(&mut self, physical: IntId) {
        self.device_interrupt(platform::TIMER_VIRTUAL_IRQ, physical);
    }

    /// The virtual timer, or a device that the VM has for itself, has raised `physical`, which was
    /// acknowledged and had its priority dropped, while this vCPU was in the CPU: `irq` becomes pending. If
    /// it is this vCPU's, or the guest has routed it to this vCPU, it is listed at once.
    #[inline(never)]
    pub fn device_interrupt(&mut self, irq: IntId, physical: IntId) {
        let mut gic = self.vm.gic.lock();
        let others = gic.inject_hardware_now(self.vcpu.id, irq, physical, self.lists);
        self.vm.release(self.machine, &mut gic, self.vcpu.id);
        drop(gic);
        if !others.is_empty() {
            self.vm.notify(self.machine, others, Some(self.vcpu.id));
        }
    }

    /// The fast path of [`Self::maintenance`], for the most frequent cases: the end of a private
    /// interrupt with a physical one behind it was reported, or there is room for an interrupt that
    /// waits, and nothing else has changed.
    #[inline(always)]
    pub fn maintenance_fast(&mut self) -> Attempt {
        let mut gic = self.vm.gic.lock();
        if let Some(physical) = gic.end_of_hardware(self.vcpu.id, self.lists) {
            drop(gic);
            self.machine.deactivate(physical);
            return Attempt::Done;
        }
        if !gic.has_unchanged_overflow(self.vcpu.id) {
            return Attempt::Untouched;
        }
        let freed = gic.maintenance(self.vcpu.id, self.lists);
        self.vm.release(self.machine, &mut gic, self.vcpu.id);
        drop(gic);
        self.vm.notify(self.machine, freed, Some(self.vcpu.id));
        Attempt::Done
    }

    /// Handles the maintenance interrupt: list registers became free while more interrupts were
    /// pending.
    pub fn maintenance(&mut self) {
        self.vcpu.entry_due = false;
        let mut gic = self.vm.gic.lock();
        let freed = gic.maintenance(self.vcpu.id, self.lists);
        self.vm.release(self.machine, &mut gic, self.vcpu.id);
        drop(gic);
        self.vm.notify(self.machine, freed, Some(self.vcpu.id));
    }

    /// Brings the timers' lines up to date, and the list registers if anything changed: not where
    /// [`Vm::is_up_to_date`](crate::Vm::is_up_to_date).
    pub fn refresh(&mut self) {
        let requests = self.vm.requests(self.vcpu.id);
        requests.take_timers();
        let asked = requests.take_interrupts();
        let was_due = asked && self.vcpu.entry_due;
        if !self.vcpu.timers.rest() {
            self.timer_lines();
        }
        if self.vm.alarm_has_come(self.machine, self.vcpu.id) {
            self.devices_due();
        }
        self.vcpu.rearm = true;
        // An update that was just left to an exit of its own is not done in this one.
        if asked && (was_due || !self.vcpu.entry_due) {
            self.sync_lists();
        }
    }

    /// The instant at which [`Self::refresh`] is next needed, in counter ticks.
    pub fn deadline(&self) -> Option<u64> {
        self.vm.deadline(self.vcpu).ticks()
    }

    fn timer_lines(&mut self) {
        let set = self.vm.timer_lines(self.machine, self.vcpu);
        self.attend(set);
    }

    /// Lets the vCPUs of `set` see their interrupts: this vCPU at once, the others by a kick.
    pub(crate) fn attend(&mut self, set: VcpuSet) {
        if set.is_empty() {
            return;
        }
        self.vm.notify(self.machine, set, Some(self.vcpu.id));
        if set.contains(self.vcpu.id) {
            self.vcpu.busy = true;
            self.sync_lists();
        }
    }

    /// Chooses again which interrupts are in the list registers, and releases physical interrupts
    /// that the guest does not hold any more.
    pub(crate) fn sync_lists(&mut self) {
        let mut gic = self.vm.gic.lock();
        let freed = self.sync_locked(&mut gic);
        drop(gic);
        self.vm.notify(self.machine, freed, Some(self.vcpu.id));
    }

    /// [`Self::sync_locked`] after an access to a register, in an exit that does nothing else.
    pub(crate) fn sync_accessed(&mut self, gic: &mut Vgic) -> VcpuSet {
        if gic.needs_entry(self.vcpu.id) {
            gic.defer_less_urgent(self.vcpu.id);
        }
        if gic.needs_entry(self.vcpu.id) {
            return self.defer_entry(gic);
        }
        self.sync_locked(gic)
    }

    /// Leaves the update of the list registers to an exit of its own.
    fn defer_entry(&mut self, gic: &mut Vgic) -> VcpuSet {
        gic.prepare_entry(self.vcpu.id);
        self.vm.attract(self.machine, self.vcpu.id);
        self.vcpu.entry_due = true;
        VcpuSet::EMPTY
    }

    /// [`Self::sync_lists`] under the interrupt controller's lock. The answer is the set of other
    /// vCPUs that must be notified once the lock is free. A long update is left to an exit of its
    /// own, which follows at once because the pCPU kicks itself.
    pub(crate) fn sync_locked(&mut self, gic: &mut Vgic) -> VcpuSet {
        self.vm.deliver_posted_sgis(gic, self.vcpu.id);
        let busy = core::mem::take(&mut self.vcpu.busy);
        let id = self.vcpu.id;
        let long = gic.entry_is_long(id) || busy && !gic.entry_is_brief(id);
        if long && !self.vcpu.entry_due {
            return self.defer_entry(gic);
        }
        self.vcpu.entry_due = false;
        let freed = self.lists.refresh(gic, id);
        self.vm.release(self.machine, gic, id);
        freed
    }
}
