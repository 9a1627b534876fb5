//! The part of a VM that all pCPUs access, and a vCPU's private part.

use crate::alarms::Alarms;
use crate::trng::Random;
use crate::vcpus::{Granted, SharedVcpu, VcpuParts, Vcpus};
use crate::{
    Checks, Counters, DebugControl, EmulatedTimers, Ending, Entry, GuestTimer, Home, Lifecycle,
    Machine, Power, Requests, StolenPage, StopReason, TELLS_STOLEN, Transition, Wish,
};
use hanok_config::VmConfig;
use hanok_devices::{ScheduleRegisters, Slots};
use hanok_hal::Mutex;
use hanok_hal::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hanok_trace::Account;
use hanok_types::{CpuId, GicVersion, VcpuId, VmId};
use hanok_vgic::Vgic;

/// What [`Vm::set_paused`] changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PauseChange {
    /// The VM is paused or resumed now.
    Changed,
    /// The VM was already in that state.
    AsBefore,
}

/// A VM: the state that its vCPUs share.
#[derive(Debug)]
pub struct Vm {
    id: VmId,
    config: &'static VmConfig,
    gic_version: GicVersion,
    vcpus: Vcpus,
    pub(crate) slots: Slots,
    /// Accesses that nothing answered.
    pub(crate) holes: AtomicU64,
    pub(crate) gic: Mutex<Vgic>,
    /// Whether its CPUs have no virtual CPU interface, and its accesses to a CPU interface exit.
    software_interface: bool,
    lifecycle: Lifecycle,
    paused: AtomicBool,
    pub(crate) alarms: Alarms,
    stop_reason: Mutex<Option<StopReason>>,
    pub(crate) random: Mutex<Random>,
    /// A bit for each vCPU that is still to be told that its interrupts changed ([`Vm::relay`]).
    pub(crate) untold: AtomicU64,
    /// A bit for each vCPU whose pCPU is still to be kicked, so that it looks whether the vCPU may run on.
    pub(crate) unkicked: AtomicU64,
    stolen: Option<&'static StolenPage>,
    variables: &'static [AtomicU32],
}

/// The private part of a vCPU, which only the pCPU that runs it accesses.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu {
    /// The vCPU's id in its VM.
    pub id: VcpuId,
    /// Its emulated timers.
    pub timers: EmulatedTimers,
    /// Its debug registers, without breakpoints and watchpoints.
    pub debug: DebugControl,
    /// Its registers of the device by which it takes part in its scheduling.
    pub schedule: ScheduleRegisters,
    /// The progress of an instruction that accesses a device with several registers.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    pub partial: crate::Partial,
    /// The number of times that it was checked in vain while it waited.
    pub checks: Checks,
    /// The slot of a shared device that it has accessed, and of which there is work to do.
    pub(crate) serves: Option<u8>,
    /// Whether its list registers must be brought up to date in an exit of their own, since that is
    /// long.
    pub entry_due: bool,
    /// Whether this exit already does something that leaves no time for other long work, such as a
    /// switch.
    pub busy: bool,
    /// Whether its next deadline may have changed: then the backend sets the hypervisor's timer
    /// again.
    pub rearm: bool,
    /// Whether nothing is to be done before it enters its VM when its turn comes: it is on, and its guest has not
    /// asked where the time is told that is stolen from it.
    pub enters_at_once: bool,
    /// The stolen time that the guest is not told, in nanoseconds: that of the time before it asked.
    pub stolen_before: u64,
}

impl Vcpu {
    /// A vCPU after a reset.
    pub fn new(id: VcpuId) -> Self {
        Self {
            id,
            timers: EmulatedTimers::new(),
            debug: DebugControl::RESET,
            schedule: ScheduleRegisters::RESET,
            #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
            partial: crate::Partial::NONE,
            checks: Checks::default(),
            serves: None,
            entry_due: false,
            busy: false,
            rearm: false,
            enters_at_once: false,
            stolen_before: 0,
        }
    }

    /// Work is left for the shared device of this slot: the guest executes its instruction again. If that is one that
    /// the hypervisor reads, its access is not made again.
    pub fn serve_again(&mut self, _slot: u8) {
        #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
        self.partial.leave(_slot);
    }

    /// VMPIDR_EL2: multiprocessor format, and its affinity.
    pub fn mpidr(&self) -> u64 {
        1 << 31 | self.id.affinity()
    }
}

impl Vm {
    /// A VM that never ran, with a part for each vCPU of its description, on CPUs whose virtual interface is
    /// of this version and has `priority_bits` bits of priority; `epoch_seconds` is the wall clock's time
    /// at counter zero.
    pub fn new(
        id: VmId,
        config: &'static VmConfig,
        parts: VcpuParts,
        gic_version: GicVersion,
        priority_bits: u32,
        epoch_seconds: u32,
    ) -> Self {
        let gic = Vgic::of_parts(gic_version, parts.gic, priority_bits);
        let slots = Slots::new(&config.slots, epoch_seconds, parts.shared, parts.variables);
        Self {
            id,
            config,
            vcpus: Vcpus::new(parts.first, parts.others),
            gic_version,
            slots,
            holes: AtomicU64::new(0),
            gic: Mutex::new(gic),
            software_interface: false,
            lifecycle: Lifecycle::new(),
            paused: AtomicBool::new(false),
            alarms: Alarms::new(),
            stop_reason: Mutex::new(None),
            random: Mutex::default(),
            untold: AtomicU64::new(0),
            unkicked: AtomicU64::new(0),
            stolen: parts.stolen,
            variables: parts.variables,
        }
    }

    /// The same VM on CPUs without a virtual CPU interface. The list registers of [`Guest`](crate::Guest)
    /// then belong to an interface in software.
    pub fn with_software_interface(self) -> Self {
        Self {
            software_interface: true,
            ..self
        }
    }

    /// Its index in the description.
    pub fn id(&self) -> VmId {
        self.id
    }

    /// Its description.
    pub fn config(&self) -> &'static VmConfig {
        self.config
    }

    /// The state machine of its boots: loading, running, ending, ended.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// The memory of its variables' flash; empty if it has none.
    pub fn variables(&self) -> &'static [AtomicU32] {
        self.variables
    }

    /// The number of its vCPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus.len()
    }

    /// The architecture of its interrupt controller.
    pub fn gic_version(&self) -> GicVersion {
        self.gic_version.served()
    }

    /// Whether its accesses to a GICv2's CPU interface exit, and are answered in software.
    pub(crate) fn has_software_interface(&self) -> bool {
        // Images for CPUs that all have a virtual CPU interface are built without.
        cfg!(any(test, feature = "fake", feature = "software-interface"))
            && self.software_interface
            && self.gic_version() == GicVersion::V2
    }

    /// The vCPU that a PSCI call's target names; none where a bit is set that is no affinity and must be
    /// zero (DEN0022F 5.1.4, "target_cpu").
    pub fn vcpu_with_affinity(&self, target: u64) -> Option<VcpuId> {
        VcpuId::of_affinity(target).filter(|vcpu| vcpu.index() < self.vcpus())
    }

    /// A vCPU's power state. `vcpu` is one of this VM's.
    pub fn power(&self, vcpu: VcpuId) -> &Power {
        &self.vcpus.of(vcpu).power
    }

    /// The requests to a vCPU.
    pub fn requests(&self, vcpu: VcpuId) -> &Requests {
        &self.vcpus.of(vcpu).requests
    }

    /// Whether any vCPU is quiet, so that requests to it are made without kicks.
    #[inline(never)]
    pub(crate) fn some_are_quiet(&self) -> bool {
        self.vcpus.iter().any(|vcpu| vcpu.requests.is_quiet())
    }

    /// The pCPU of a vCPU, and the vCPU's place there.
    pub fn home_of(&self, vcpu: VcpuId) -> Option<Home> {
        self.vcpus.get(vcpu).map(SharedVcpu::home)
    }

    /// Notes that a vCPU has another pCPU from now on. For its former pCPU, or that of its pool which takes it.
    pub fn move_vcpu(&self, vcpu: VcpuId, to: CpuId) {
        self.vcpus.of(vcpu).move_to(to);
    }

    /// The pCPU of a vCPU with the vCPU's place there, and the requests to it.
    #[inline(always)]
    pub(crate) fn reach(&self, vcpu: VcpuId) -> Option<(Home, &Requests)> {
        self.vcpus
            .get(vcpu)
            .map(|vcpu| (vcpu.home(), &vcpu.requests))
    }

    /// A vCPU's counters. `vcpu` is one of this VM's.
    pub fn counters(&self, vcpu: VcpuId) -> &Counters {
        &self.vcpus.of(vcpu).counters
    }

    /// Who had the CPU when: a vCPU's account. `vcpu` is one of this VM's.
    pub fn account(&self, vcpu: VcpuId) -> &Account {
        &self.vcpus.of(vcpu).account
    }

    /// The page that tells its guest the time that was stolen from its vCPUs.
    #[inline(always)]
    pub fn stolen_page(&self) -> Option<&'static StolenPage> {
        self.stolen.filter(|_| TELLS_STOLEN)
    }

    /// What a vCPU has of its pCPU.
    pub fn granted(&self, vcpu: VcpuId) -> Granted {
        *self.vcpus.of(vcpu).granted.lock()
    }

    /// Notes what a vCPU has of its pCPU from now on.
    pub fn set_granted(&self, vcpu: VcpuId, granted: Granted) {
        *self.vcpus.of(vcpu).granted.lock() = granted;
    }

    /// Whether a command has paused its vCPUs.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Pauses or resumes the VM. Its time goes on while it is paused, and its interrupts wait.
    pub fn set_paused(&self, machine: &impl Machine, paused: bool) -> PauseChange {
        if self.paused.swap(paused, Ordering::AcqRel) == paused {
            return PauseChange::AsBefore;
        }
        self.kick_all(machine);
        PauseChange::Changed
    }

    /// Whether a vCPU that runs may go on: no end is asked for, it is on and not paused, and there
    /// is no request to it.
    #[inline]
    pub fn may_run(&self, vcpu: VcpuId) -> bool {
        self.lifecycle.is_running()
            && self.power(vcpu).is_on()
            && !self.is_paused()
            && !self.requests(vcpu).any()
    }

    /// Whether a vCPU that has work keeps it: as [`Self::may_run`], but requests about interrupts
    /// are served when its turn comes.
    #[inline]
    pub fn keeps_on(&self, vcpu: VcpuId) -> bool {
        self.lifecycle.is_running()
            && self.power(vcpu).is_on()
            && !self.is_paused()
            && !self.requests(vcpu).any_but_interrupts()
    }

    /// Whether there is nothing to do for a vCPU that is not in the VM: no start is requested, no
    /// dump or other attention, and it has not to load the VM's memory, which is the first vCPU's
    /// work.
    #[inline]
    pub fn is_left_alone(&self, vcpu: VcpuId) -> bool {
        let loads = vcpu.index() == 0 && self.lifecycle.is_loading();
        !loads && self.power(vcpu).is_off() && !self.requests(vcpu).any_but_interrupts()
    }

    /// Boots the VM again, whatever its state: begins a boot if it has ended, and resets it if it
    /// runs or is about to turn itself off. A paused VM is resumed. After [`Wish::Deserted`] no
    /// vCPU was in the VM, and it is already loading.
    pub fn restart(&self, machine: &impl Machine) -> Wish {
        // All pCPUs are kicked, including the first vCPU's, which loads.
        self.order(machine, Lifecycle::start_anew)
    }

    /// Turns the VM off, whatever its state. After [`Wish::Deserted`] no vCPU is in the VM, since
    /// it was still loading or its first vCPU had not entered yet; then the caller carries the
    /// ending out.
    pub fn stop(&self, machine: &impl Machine) -> Wish {
        self.order(machine, Lifecycle::turn_off)
    }

    fn order(&self, machine: &impl Machine, wish: fn(&Lifecycle) -> Wish) -> Wish {
        let _ = self.set_paused(machine, false);
        let wish = wish(&self.lifecycle);
        self.announce_end(machine, wish, None);
        wish
    }

    /// Wakes the pCPU of its first vCPU, which loads its memory.
    pub fn kick_first(&self, machine: &impl Machine) {
        self.kick_vcpu(machine, VcpuId::new(0));
    }

    /// Begins to run a boot: the first vCPU is to start at the description's entry. The memory must be loaded already, devices, interrupts and
    /// vCPUs be reset ([`Self::reset_devices`], [`Self::reset_vcpu`]), and no vCPU is in the VM. The caller wakes the first vCPU's pCPU. Refused
    /// if the boot was given up meanwhile.
    pub fn begin(&self) -> Transition {
        if let Some(page) = self.stolen_page() {
            page.forget();
        }
        let entry = Entry {
            pc: self.config.entry.get(),
            argument: self.config.argument,
        };
        // It was turned off just before, and no vCPU is in the VM that could start it.
        let _ = self.power(VcpuId::new(0)).start(entry);
        *self.stop_reason.lock() = None;
        // A relay of the former boot did not come to these.
        self.untold.store(0, Ordering::Relaxed);
        self.unkicked.store(0, Ordering::Relaxed);
        self.lifecycle.run()
    }

    /// Resets the state of `vcpu` for the VM's next boot. One vCPU in a call, because all of them
    /// would take too long for one piece of work.
    pub fn reset_vcpu(&self, vcpu: VcpuId) {
        self.power(vcpu).turn_off();
        self.requests(vcpu).forget();
        let mut gic = self.gic.lock();
        gic.reset_private(vcpu);
        // The line still has the level of the former boot. No vCPU is in the VM that could be
        // kicked.
        for timer in [GuestTimer::Physical, GuestTimer::Virtual] {
            gic.set_level(Some(vcpu), timer.interrupt(), false);
        }
    }

    /// The ending is over; for the pCPU that carried it out.
    pub fn end(&self) {
        self.vcpus.iter().for_each(|vcpu| vcpu.power.turn_off());
        self.lifecycle.end();
    }

    /// Stops the VM if every vCPU turned itself off, since nothing can ever wake it then. For the pCPU
    /// whose vCPU left last; it carries the ending out if the VM was stopped.
    pub fn stop_if_all_off(&self) -> Transition {
        let all_off = || self.vcpus.iter().all(|vcpu| vcpu.power.is_off());
        let stopped = self.lifecycle.stop_deserted(all_off);
        if stopped.is_made() {
            self.set_stop_reason(StopReason::AllOff);
        }
        stopped
    }

    /// Asks for the VM's end: every vCPU leaves, and the last one carries the ending out. While an
    /// ending is under way, another one is refused. After [`Wish::Deserted`] no vCPU is in the VM, and
    /// the caller carries the ending out; a vCPU that asks is in its VM.
    pub fn request_end(
        &self,
        machine: &impl Machine,
        ending: Ending,
        reason: Option<StopReason>,
    ) -> Wish {
        let wish = self.lifecycle.begin_end(ending);
        self.announce_end(machine, wish, reason);
        wish
    }

    /// Kicks the vCPUs that are in the VM, if a wish for its end was accepted.
    fn announce_end(&self, machine: &impl Machine, wish: Wish, reason: Option<StopReason>) {
        if wish != Wish::Refused {
            *self.stop_reason.lock() = reason;
            self.kick_all(machine);
        }
    }

    /// Sets the reason why the VM is stopped. For the pCPU that carries the ending out.
    pub fn set_stop_reason(&self, reason: StopReason) {
        *self.stop_reason.lock() = Some(reason);
    }

    /// The reason why the VM was stopped.
    pub fn stop_reason(&self) -> Option<StopReason> {
        *self.stop_reason.lock()
    }
}
