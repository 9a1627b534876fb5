//! How interrupts reach a VM's vCPUs, wherever these are.

use crate::{Attempt, EmulatedTimer, GuestTimer, Kick, Machine, Vcpu, Vm};
use hanok_hal::ListRegisters;
use hanok_hal::sync::atomic::Ordering;
use hanok_types::{Deadline, IntId, VcpuId, VcpuSet, platform};
use hanok_vgic::Vgic;

/// The state of the virtual timer's physical interrupt that a vCPU needs while it is in its pCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TimerInterrupt {
    /// Active, because a virtual interrupt of the vCPU holds it.
    Held,
    /// Inactive, so that the vCPU's timer can fire.
    Free,
}

/// Whether vCPUs were told of changes that another pCPU made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Relay {
    /// Nobody had asked for it.
    NotAsked,
    /// Some were told.
    Done,
}

/// The number of vCPUs that are told of a change by the exit that makes it: as many as a GICv2 has. An exit
/// that changes the interrupts of 64 takes long enough without telling each of them.
const AT_ONCE: usize = if cfg!(feature = "interleavings") {
    1
} else {
    8
};
/// The number of vCPUs that are told where nothing else is done.
const RELAYED: usize = if cfg!(feature = "interleavings") {
    1
} else {
    32
};

impl TimerInterrupt {
    #[inline(always)]
    fn of(held: bool) -> Self {
        if held { Self::Held } else { Self::Free }
    }
}

/// The list registers of a vCPU that is in no pCPU: none.
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
    /// Makes a vCPU's pCPU check the vCPU's requests, unless the vCPU is `caller`, whose pCPU is
    /// about to. Both may have the same pCPU: then that pCPU kicks itself.
    pub fn wake(&self, machine: &impl Machine, vcpu: VcpuId, caller: VcpuId) {
        if vcpu != caller {
            self.kick_vcpu(machine, vcpu);
        }
    }

    /// Makes a vCPU's pCPU check the vCPU's interrupts, unless that is about to happen.
    pub(crate) fn attract(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.kick_if_needed(machine, vcpu, self.requests(vcpu).ask_interrupts());
    }

    /// Makes a vCPU's pCPU check the vCPU's interrupts and timers, unless that is about to happen.
    pub(crate) fn attract_to_timers(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.kick_if_needed(machine, vcpu, self.requests(vcpu).ask_timers());
    }

    fn kick_if_needed(&self, machine: &impl Machine, vcpu: VcpuId, kick: Kick) {
        if kick == Kick::Needed {
            self.kick_vcpu(machine, vcpu);
        }
    }

    /// Interrupts a vCPU's pCPU, so that the vCPU leaves its guest.
    pub fn kick(&self, machine: &impl Machine, vcpu: VcpuId) {
        self.kick_vcpu(machine, vcpu);
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
    fn notify_some(&self, machine: &impl Machine, mut set: VcpuSet, caller: Option<VcpuId>) {
        if let Some(caller) = caller {
            set.remove(caller);
        }
        self.notify_first(machine, set, caller, AT_ONCE);
    }

    /// Tells the first `most` vCPUs of `set` that their interrupts changed. The others are told by the pCPU of
    /// `relay` in exits of their own, at the expense of the vCPU that made the change ([`Self::relay`]); where
    /// none did, by the pCPU of one of them.
    fn notify_first(
        &self,
        machine: &impl Machine,
        set: VcpuSet,
        relay: Option<VcpuId>,
        most: usize,
    ) {
        let mut left = set;
        for vcpu in set.iter().take(most) {
            left.remove(vcpu);
            self.attract(machine, vcpu);
        }
        if let Some(next) = left.iter().next() {
            let relay = relay.unwrap_or(next);
            // Before the request, so that whoever takes the request finds them.
            self.untold.fetch_or(left.bits(), Ordering::AcqRel);
            self.requests(relay).ask_relay();
            self.kick_vcpu(machine, relay);
        }
    }

    /// Kicks the pCPUs of the first `most` vCPUs of `set`. That of the next one is asked to kick the others'.
    fn kick_some(&self, machine: &impl Machine, set: VcpuSet, most: usize) {
        let mut left = set;
        for vcpu in set.iter().take(most) {
            left.remove(vcpu);
            self.kick_vcpu(machine, vcpu);
        }
        if let Some(relay) = left.iter().next() {
            self.unkicked.fetch_or(left.bits(), Ordering::AcqRel);
            self.requests(relay).ask_relay();
            self.kick_vcpu(machine, relay);
        }
    }

    /// Tells vCPUs that their interrupts changed, or kicks their pCPUs, if the pCPU of `vcpu` was asked to: an
    /// exit that was about many did so for the first ones alone. For that pCPU.
    pub fn relay(&self, machine: &impl Machine, vcpu: VcpuId) -> Relay {
        if !self.requests(vcpu).take_relay() {
            return Relay::NotAsked;
        }
        let untold = VcpuSet::from_bits(self.untold.swap(0, Ordering::AcqRel));
        self.notify_first(machine, untold, Some(vcpu), RELAYED);
        let unkicked = VcpuSet::from_bits(self.unkicked.swap(0, Ordering::AcqRel));
        self.kick_some(machine, unkicked, RELAYED);
        Relay::Done
    }

    /// Makes every vCPU's pCPU look whether it may run on: the first ones' at once, the others' by a relay.
    #[inline(never)]
    pub fn kick_all(&self, machine: &impl Machine) {
        let all = VcpuSet::first(self.vcpus());
        all.iter()
            .for_each(|vcpu| self.requests(vcpu).ask_attention());
        self.kick_some(machine, all, AT_ONCE);
    }

    /// Whether an interrupt is pending for a vCPU that sleeps; its interrupts are in `lists`.
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
            // It is served when the vCPU goes on, which may be after another vCPU's turn. No kick:
            // this is the vCPU's own pCPU.
            let _ = self.requests(vcpu).ask_interrupts();
        }
        self.release(machine, &mut gic, vcpu);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
        waits
    }

    /// Whether a vCPU that is in this pCPU may sleep until a physical interrupt: it may run, and
    /// certainly no virtual interrupt is pending for it. It takes a few instructions; if it is
    /// `false`, [`Self::interrupt_waits`] finds out.
    pub fn nothing_is_pending(&self, vcpu: VcpuId, lists: &impl ListRegisters) -> bool {
        self.may_run(vcpu) && self.gic.lock().is_drained(vcpu, lists)
    }

    /// Whether an interrupt is pending for a vCPU that is in no pCPU.
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

    /// A vCPU leaves its pCPU, where another one comes: its interrupts go back from `lists` into the model,
    /// and wait there. The answer is the state that the virtual timer's physical interrupt needs, see
    /// [`Self::holds_virtual_timer`].
    #[inline(always)]
    pub fn switch_out(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) -> TimerInterrupt {
        let mut gic = self.gic.lock();
        let freed = gic.leave(vcpu, lists);
        self.release(machine, &mut gic, vcpu);
        let held = gic.holds_hardware(vcpu, platform::TIMER_VIRTUAL_IRQ);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
        TimerInterrupt::of(held)
    }

    /// A vCPU comes to its pCPU, where its interrupts are listed at the next
    /// [`Guest::refresh`](crate::Guest::refresh). The answer is the state that the virtual timer's physical
    /// interrupt needs, see [`Self::holds_virtual_timer`].
    pub fn switch_in(&self, vcpu: VcpuId) -> TimerInterrupt {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let gic = self.gic.lock();
        // Interrupts that became pending before it came.
        if gic.needs_entry(vcpu) {
            // No kick: this is the vCPU's own pCPU.
            let _ = self.requests(vcpu).ask_interrupts();
        }
        TimerInterrupt::of(gic.holds_hardware(vcpu, irq))
    }

    /// The fast path of [`Guest::virtual_timer`](crate::Guest::virtual_timer), for the most frequent
    /// case.
    #[inline(always)]
    pub fn virtual_timer_fast(
        &self,
        vcpu: VcpuId,
        physical: IntId,
        lists: &mut impl ListRegisters,
    ) -> Attempt {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let mut gic = self.gic.lock();
        match gic.relist_hardware(vcpu, irq, physical, lists) {
            Some(_) => Attempt::Done,
            None => Attempt::Untouched,
        }
    }

    /// Whether the virtual timer's interrupt is pending or active for a vCPU with the physical
    /// interrupt behind it. Then the physical one must be active while the vCPU is in a pCPU: the
    /// guest ends it, and until then its timer does not interrupt again.
    pub fn holds_virtual_timer(&self, vcpu: VcpuId) -> bool {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        self.gic.lock().holds_hardware(vcpu, irq)
    }

    /// The virtual timer of a vCPU that is in no pCPU is due: the same happens as if `physical` had
    /// fired. For the vCPU's own pCPU.
    pub fn virtual_timer_absent(&self, machine: &impl Machine, vcpu: VcpuId, physical: IntId) {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let set = self.gic.lock().inject_hardware(vcpu, irq, physical);
        self.notify(machine, set, Some(vcpu));
    }

    /// Whether the interrupt of a vCPU's virtual timer, which is due while the vCPU waits in no pCPU, wakes it, and
    /// may be left to [`Self::virtual_timer_arrives`]: it is enabled, and nothing else is to be done for the
    /// vCPU's interrupts.
    pub fn virtual_timer_can_wait(&self, vcpu: VcpuId) -> bool {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        self.gic.lock().will_list_hardware(vcpu, irq)
    }

    /// A vCPU has come to its pCPU, whose virtual timer was due while it was away: the same happens as if `physical`
    /// had fired just now, which has to be active from then on, as after [`TimerInterrupt::Held`]. Where more is to be
    /// done than to list the interrupt, nothing is: `physical` fires.
    pub fn virtual_timer_arrives(
        &self,
        vcpu: VcpuId,
        physical: IntId,
        lists: &mut impl ListRegisters,
    ) -> Attempt {
        let irq = platform::TIMER_VIRTUAL_IRQ;
        let mut gic = self.gic.lock();
        match gic.list_first_hardware(vcpu, irq, physical, lists) {
            Some(()) => Attempt::Done,
            None => Attempt::Untouched,
        }
    }

    /// Brings the lines of a vCPU's emulated timers up to date. The vCPU is in no pCPU.
    pub fn timers_absent(&self, machine: &impl Machine, vcpu: &mut Vcpu) {
        let mut set = self.timer_lines(machine, vcpu);
        if self.alarm_has_come(machine, vcpu.id) {
            set = set.union(self.devices_due(machine));
        }
        self.notify(machine, set, Some(vcpu.id));
    }

    /// The instant at which an emulated timer of `vcpu` is next due.
    #[inline]
    pub fn deadline(&self, vcpu: &Vcpu) -> Deadline {
        let alarm = self.alarm_deadline().when(vcpu.id.index() == 0);
        vcpu.timers.deadline().or(alarm)
    }

    /// Brings the lines of the emulated timers that do not rest up to date. The answer is the set of
    /// vCPUs whose interrupts changed.
    pub(crate) fn timer_lines(&self, machine: &impl Machine, vcpu: &mut Vcpu) -> VcpuSet {
        let mut set = VcpuSet::EMPTY;
        for timer in [GuestTimer::Physical, GuestTimer::Virtual] {
            if !vcpu.timers.of(timer).rests() {
                set = set.union(self.timer_line(machine, vcpu, timer));
            }
        }
        set
    }

    /// Changes an emulated timer, and brings its line up to date. The answer is the set of vCPUs whose
    /// interrupts changed.
    pub(crate) fn change_timer(
        &self,
        machine: &impl Machine,
        vcpu: &mut Vcpu,
        timer: GuestTimer,
        change: impl FnOnce(&mut EmulatedTimer),
    ) -> VcpuSet {
        change(vcpu.timers.of_mut(timer));
        self.timer_line(machine, vcpu, timer)
    }

    /// Brings the line of an emulated timer up to date. Kept out of line: many call it, once for each
    /// register.
    #[inline(never)]
    fn timer_line(&self, machine: &impl Machine, vcpu: &mut Vcpu, timer: GuestTimer) -> VcpuSet {
        let level = vcpu.timers.sample(timer, machine.counter());
        let irq = timer.interrupt();
        self.gic.lock().set_level(Some(vcpu.id), irq, level)
    }

    /// Handles `physical`, the interrupt of a real device that this VM has, which was acknowledged
    /// and whose priority was dropped: `irq` becomes pending. To be called on any pCPU.
    pub fn device_interrupt(&self, machine: &impl Machine, irq: IntId, physical: IntId) {
        let first = VcpuId::new(0);
        let set = self.gic.lock().inject_hardware(first, irq, physical);
        self.notify(machine, set, None);
    }

    /// The number of accesses that nothing answered, and of those to registers that a device does
    /// not have.
    pub fn unhandled_accesses(&self) -> (u64, u64) {
        let holes = self.holes.load(Ordering::Relaxed);
        (holes, self.gic.lock().unknown_accesses())
    }

    /// Takes the interrupts of a vCPU that leaves its pCPU from `lists` back into the model, and
    /// releases physical interrupts that no virtual one holds any more.
    pub fn take_back_interrupts(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) {
        self.take_back(machine, vcpu, lists, |_| true);
    }

    /// [`Self::take_back_interrupts`] for a vCPU that is in no pCPU. It holds no private physical
    /// interrupt of its pCPU: those belong to the vCPU that is there now, and stay as they are.
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
        // The virtual timer is turned off with its vCPU, so its interrupt is no longer pending.
        let irq = platform::TIMER_VIRTUAL_IRQ;
        freed = freed.union(gic.clear_pending(Some(vcpu), irq));
        // So are the emulated timers, whose lines nobody samples before the vCPU starts again.
        for timer in [GuestTimer::Physical, GuestTimer::Virtual] {
            freed = freed.union(gic.set_level(Some(vcpu), timer.interrupt(), false));
        }
        while let Some(physical) = gic.take_released(vcpu) {
            if is_its(physical) {
                machine.deactivate(physical);
            }
        }
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
    }

    /// Deactivates the physical interrupts that no virtual one holds any more, so that they can
    /// fire again. On the pCPU of `vcpu`.
    ///
    /// Those of devices wait while another vCPU of the VM is quiet because it was checked in vain
    /// too often: the device would at once interrupt that vCPU's pCPU again, in another vCPU's
    /// turn.
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
