//! How interrupts reach a VM's vCPUs, wherever these are.

use crate::{Kick, Machine, Vcpu, Vm};
use hanok_hal::ListRegisters;
use hanok_hal::sync::atomic::Ordering;
use hanok_types::{Deadline, IntId, VcpuId, VcpuSet, platform};
use hanok_vgic::Vgic;

/// The list registers of a vCPU that is in no pCPU: there are none.
struct NoLists;

impl ListRegisters for NoLists {
    fn count(&self) -> usize {
        0
    }

    fn read(&self, _index: usize) -> u64 {
        0
    }

    fn write(&mut self, _index: usize, _value: u64) {}

    fn empty(&self) -> u32 {
        0
    }

    fn set_none_pending_interrupt(&mut self, _on: bool) {}

    fn report_ends(&mut self, _on: bool) {}
}

impl Vm {
    /// Makes a vCPU's pCPU look at it, unless it is `caller`, which is about to. They may
    /// have one pCPU: then it kicks itself.
    pub fn wake(&self, machine: &impl Machine, vcpu: VcpuId, caller: VcpuId) {
        if vcpu != caller {
            self.kick_vcpu(machine, vcpu);
        }
    }

    /// Makes a vCPU's pCPU look at its interrupts, unless it is about to.
    pub(crate) fn attract(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.kick_if_needed(machine, vcpu, self.requests(vcpu).ask_interrupts());
    }

    /// Makes a vCPU's pCPU look at its interrupts and timers, unless it is about to.
    pub(crate) fn attract_to_timers(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.kick_if_needed(machine, vcpu, self.requests(vcpu).ask_timers());
    }

    fn kick_if_needed(&self, machine: &impl Machine, vcpu: VcpuId, kick: Kick) {
        if kick == Kick::Needed {
            self.kick_vcpu(machine, vcpu);
        }
    }

    /// Kept out of line, as kicks are long, and this is called in many places.
    #[inline(never)]
    pub(crate) fn kick_vcpu(&self, machine: &impl Machine, vcpu: VcpuId) {
        if let Some(home) = self.home_of(vcpu) {
            machine.kick(home);
        }
    }

    /// Tells vCPUs other than `caller` that their interrupts changed.
    #[inline(always)]
    pub(crate) fn notify(&self, machine: &impl Machine, set: VcpuSet, caller: Option<VcpuId>) {
        if !set.is_empty() {
            self.notify_some(machine, set, caller);
        }
    }

    #[inline(never)]
    fn notify_some(&self, machine: &impl Machine, set: VcpuSet, caller: Option<VcpuId>) {
        for vcpu in set.iter().filter(|vcpu| Some(*vcpu) != caller) {
            self.attract(machine, vcpu);
        }
    }

    /// Whether an interrupt waits for a vCPU that sleeps, its interrupts in `lists`.
    pub fn interrupt_waits(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) -> bool {
        let mut gic = self.gic.lock();
        self.deliver_posted_sgis(&mut gic, vcpu);
        let mut freed = gic.fold(vcpu, lists);
        let waits = gic.has_pending(vcpu);
        if !waits {
            freed = freed.union(gic.enter(vcpu, lists));
        } else if gic.needs_entry(vcpu) {
            // As it goes on, which may be after somebody else's turn.
            // No kick: this is the vCPU's own pCPU.
            let _ = self.requests(vcpu).ask_interrupts();
        }
        self.release(machine, &mut gic, vcpu);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
        waits
    }

    /// Whether a vCPU that is in this pCPU may sleep until a physical interrupt: it may run, and certainly no
    /// virtual interrupt is pending for it. A few instructions; where it is `false`,
    /// [`Self::interrupt_waits`] finds out.
    pub fn nothing_is_pending(&self, vcpu: VcpuId, lists: &impl ListRegisters) -> bool {
        self.may_run(vcpu) && self.gic.lock().is_drained(vcpu, lists)
    }

    /// Whether an interrupt waits for a vCPU that is in no pCPU.
    pub fn interrupt_waits_absent(&self, machine: &impl Machine, vcpu: VcpuId) -> bool {
        let mut gic = self.gic.lock();
        self.deliver_posted_sgis(&mut gic, vcpu);
        if gic.has_released() && !self.some_are_quiet() {
            while let Some(interrupt) = gic.take_released_spi() {
                machine.deactivate(interrupt);
            }
        }
        gic.has_pending(vcpu)
    }

    /// A vCPU makes room for another one in its pCPU: its interrupts go back from `lists`
    /// into the model, and wait there. Returns whether the virtual timer's physical
    /// interrupt is active on its behalf, see [`Self::holds_virtual_timer`].
    pub fn switch_out(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) -> bool {
        let mut gic = self.gic.lock();
        let freed = gic.leave(vcpu, lists);
        self.release(machine, &mut gic, vcpu);
        let holds = gic.holds_hardware(vcpu, platform::TIMER_VIRTUAL_IRQ);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
        holds
    }

    /// A vCPU comes to its pCPU, where its interrupts are listed at the next
    /// [`Guest::refresh`](crate::Guest::refresh): see [`Self::holds_virtual_timer`].
    pub fn switch_in(&self, vcpu: VcpuId) -> bool {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let gic = self.gic.lock();
        // What was sent to it before it came.
        if gic.needs_entry(vcpu) {
            // No kick: this is the vCPU's own pCPU.
            let _ = self.requests(vcpu).ask_interrupts();
        }
        gic.holds_hardware(vcpu, irq)
    }

    /// [`Guest::virtual_timer`](crate::Guest::virtual_timer) in the most frequent case; `false`,
    /// and nothing has been done, in others.
    #[inline(always)]
    pub fn virtual_timer_again(
        &self,
        vcpu: VcpuId,
        physical: IntId,
        lists: &mut impl ListRegisters,
    ) -> bool {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let mut gic = self.gic.lock();
        gic.show_again(vcpu, irq, physical, lists).is_some()
    }

    /// Whether the virtual timer's interrupt is pending or active for a vCPU with the
    /// physical one behind it, which is then to be active while the vCPU is in a pCPU: the
    /// guest ends it, and until then its timer does not interrupt again.
    pub fn holds_virtual_timer(&self, vcpu: VcpuId) -> bool {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        self.gic.lock().holds_hardware(vcpu, irq)
    }

    /// The virtual timer of a vCPU that is in no pCPU has come to its time: it is as if
    /// `physical` had fired. For the vCPU's own pCPU.
    pub fn virtual_timer_absent(&self, machine: &impl Machine, vcpu: VcpuId, physical: IntId) {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let set = self.gic.lock().inject_hardware(vcpu, irq, physical);
        self.notify(machine, set, Some(vcpu));
    }

    /// Brings the emulated timers' lines of a vCPU up to date that is in no pCPU.
    pub fn timers_absent(&self, machine: &impl Machine, vcpu: &mut Vcpu) {
        let mut set = self.physical_timer_line(machine, vcpu);
        if self.alarm_has_come(machine, vcpu.id) {
            set = set.union(self.devices_due(machine));
        }
        self.notify(machine, set, Some(vcpu.id));
    }

    /// When an emulated timer of `vcpu` is next due.
    #[inline]
    pub fn deadline(&self, vcpu: &Vcpu) -> Deadline {
        let alarm = self.alarm_deadline().when(vcpu.id.index() == 0);
        vcpu.timer.deadline().or(alarm)
    }

    /// The emulated physical timer's line; the vCPUs that are to look at their interrupts.
    pub(crate) fn physical_timer_line(&self, machine: &impl Machine, vcpu: &mut Vcpu) -> VcpuSet {
        let level = vcpu.timer.sample(machine.counter());
        let irq = platform::TIMER_PHYSICAL_IRQ;
        self.gic.lock().set_level(Some(vcpu.id), irq, level)
    }

    /// A device of the board that this VM has raised `physical`, which was acknowledged and
    /// had its priority dropped: `irq` becomes pending. Called on any pCPU.
    pub fn device_interrupt(&self, machine: &impl Machine, irq: IntId, physical: IntId) {
        let first = VcpuId::new(0);
        let set = self.gic.lock().inject_hardware(first, irq, physical);
        self.notify(machine, set, None);
    }

    /// Accesses that nothing answered, and those to registers that no device has.
    pub fn unhandled_accesses(&self) -> (u64, u64) {
        let holes = self.holes.load(Ordering::Relaxed);
        (holes, self.gic.lock().unknown_accesses())
    }

    /// A vCPU leaves its pCPU: its interrupts go back from `lists` into the model, and
    /// physical ones that nobody holds any more are let go.
    pub fn take_back_interrupts(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) {
        self.take_back(machine, vcpu, lists, |_| true);
    }

    /// [`Self::take_back_interrupts`] of a vCPU that is in no pCPU. Its private interrupts are
    /// active in none on its behalf: those of its pCPU are of whoever is there now, and stay as
    /// they are.
    pub fn forget_interrupts(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.take_back(machine, vcpu, &mut NoLists, |physical| {
            !physical.is_private()
        });
    }

    fn take_back(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
        is_its: impl Fn(IntId) -> bool,
    ) {
        let mut gic = self.gic.lock();
        let mut freed = gic.leave(vcpu, lists);
        // The virtual timer goes off with its vCPU: what it raised is no longer true.
        let irq = platform::TIMER_VIRTUAL_IRQ;
        freed = freed.union(gic.clear_pending(Some(vcpu), irq));
        while let Some(physical) = gic.take_released(vcpu) {
            if is_its(physical) {
                machine.deactivate(physical);
            }
        }
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
    }

    /// Deactivates the physical interrupts that no virtual one stands for any more: they may
    /// fire again. On the pCPU of `vcpu`.
    ///
    /// Those of devices wait while a sibling is looked at too often in vain: its core would be
    /// interrupted again at once, in somebody else's turn.
    #[inline(always)]
    pub(crate) fn release(&self, machine: &impl Machine, gic: &mut Vgic, vcpu: VcpuId) {
        if !gic.has_released() {
            return;
        }
        let quiet = self.some_are_quiet();
        let next = |gic: &mut Vgic| {
            if quiet {
                gic.take_released_private(vcpu)
            } else {
                gic.take_released(vcpu)
            }
        };
        while let Some(interrupt) = next(gic) {
            machine.deactivate(interrupt);
        }
    }
}
