//! A VM as every pCPU sees it, and a vCPU's private part.

use crate::call::{affinity_of, index_of};
use crate::{Ending, Entry, Life, Machine, PhysicalTimer, Power, StopReason};
use core::sync::atomic::{AtomicU32, Ordering};
use hanok_config::VmConfig;
use hanok_devices::{EmptySlots, Flash, Pl011, Pl031};
use hanok_hal::{ListRegisters, Mutex};
use hanok_types::{CpuId, MAX_VCPUS, VcpuId, VcpuSet, VmId, Width, platform};
use hanok_vgic::{Frame, Vgic};

/// GICR_ICPENDR0 in a redistributor's two frames (IHI 0069H, 12.11).
const GICR_ICPENDR0: u64 = 0x1_0280;

/// What other pCPUs ask a vCPU's own pCPU to look at.
#[derive(Debug, Default)]
pub struct Requests(AtomicU32);

impl Requests {
    const INTERRUPTS: u32 = 1;

    /// Its interrupts changed: the list registers must be looked at again.
    pub fn ask_interrupts(&self) {
        self.0.fetch_or(Self::INTERRUPTS, Ordering::Release);
    }

    /// Whether its interrupts changed since the last call.
    pub fn take_interrupts(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
            && self.0.fetch_and(!Self::INTERRUPTS, Ordering::Acquire) & Self::INTERRUPTS != 0
    }
}

/// The devices of a VM that have state of their own beyond the interrupt controller.
#[derive(Debug)]
pub(crate) struct Devices {
    pub uart: Pl011,
    pub rtc: Pl031,
    pub flash: Flash,
    pub virtio: EmptySlots,
    /// Accesses that nothing answered.
    pub holes: u64,
}

/// A VM: what its vCPUs share.
#[derive(Debug)]
pub struct Vm {
    id: VmId,
    config: VmConfig,
    pub(crate) devices: Mutex<Devices>,
    pub(crate) gic: Mutex<Vgic>,
    power: [Power; MAX_VCPUS],
    requests: [Requests; MAX_VCPUS],
    life: Life,
    stop_reason: Mutex<Option<StopReason>>,
}

/// How much of self-hosted debug a vCPU was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DebugAccess {
    /// Nothing yet: every access exits.
    #[default]
    Trapped,
    /// The registers are in the CPU while the vCPU is.
    Given,
}

/// A vCPU's part of the core: touched by the pCPU that runs it alone.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu {
    /// Which vCPU of its VM.
    pub id: VcpuId,
    /// The emulated physical timer.
    pub timer: PhysicalTimer,
    /// What it was given of debug.
    pub debug: DebugAccess,
    /// MDSCR_EL1 while debug is trapped; in the CPU from when it is given.
    pub mdscr: u64,
    /// The OS lock (OSLSR_EL1.OSLK), set at reset.
    pub os_lock: bool,
    /// Its next deadline may have changed: the backend sets the hypervisor's timer anew.
    pub rearm: bool,
}

impl Vcpu {
    /// A vCPU as it comes out of reset.
    pub fn new(id: VcpuId) -> Self {
        let timer = PhysicalTimer::default();
        Self {
            id,
            timer,
            debug: DebugAccess::Trapped,
            mdscr: 0,
            os_lock: true,
            rearm: false,
        }
    }

    /// VMPIDR_EL2: multiprocessor format, the index as Aff0.
    pub fn mpidr(&self) -> u64 {
        1 << 31 | affinity_of(self.id)
    }
}

impl Vm {
    /// A VM that never ran; `epoch_seconds` is the wall clock's time at counter zero.
    pub fn new(id: VmId, config: VmConfig, priority_bits: u32, epoch_seconds: u32) -> Self {
        let gic = Vgic::new(config.cpus.len(), priority_bits);
        let devices = Devices {
            uart: Pl011::new(),
            rtc: Pl031::new(epoch_seconds),
            flash: Flash::new(),
            virtio: EmptySlots::new(),
            holes: 0,
        };
        Self {
            id,
            config,
            devices: Mutex::new(devices),
            gic: Mutex::new(gic),
            power: [const { Power::new() }; MAX_VCPUS],
            requests: Default::default(),
            life: Life::new(),
            stop_reason: Mutex::new(None),
        }
    }

    /// Its place in the description.
    pub fn id(&self) -> VmId {
        self.id
    }

    /// Its description.
    pub fn config(&self) -> &VmConfig {
        &self.config
    }

    /// Its life.
    pub fn life(&self) -> &Life {
        &self.life
    }

    /// How many vCPUs it has.
    pub fn vcpus(&self) -> usize {
        self.config.cpus.len()
    }

    /// The vCPU that an MPIDR names.
    pub fn vcpu_with_affinity(&self, mpidr: u64) -> Option<VcpuId> {
        index_of(mpidr)
            .filter(|index| usize::from(*index) < self.vcpus())
            .map(VcpuId::new)
    }

    /// A vCPU's power state. `vcpu` is one of this VM's.
    pub fn power(&self, vcpu: VcpuId) -> &Power {
        &self.power[vcpu.index() % MAX_VCPUS]
    }

    /// What others asked of a vCPU.
    pub fn requests(&self, vcpu: VcpuId) -> &Requests {
        &self.requests[vcpu.index() % MAX_VCPUS]
    }

    /// The pCPU of a vCPU.
    pub fn cpu_of(&self, vcpu: VcpuId) -> Option<CpuId> {
        self.config.cpus.get(vcpu.index()).copied()
    }

    /// Begins a life: devices and interrupts as after a reset, the first vCPU to be started
    /// at the description's entry. Memory is the backend's part, and done before. Nobody is
    /// in the VM. The caller wakes the first vCPU's pCPU.
    pub fn begin(&self) {
        self.reset_devices();
        for vcpu in VcpuSet::first(self.vcpus()).iter() {
            self.power(vcpu).turn_off();
            self.requests(vcpu).take_interrupts();
        }
        let entry = Entry {
            pc: self.config.entry.get(),
            argument: self.config.argument,
        };
        // It was turned off a moment ago, and nobody is in the VM who could start it.
        let _ = self.power(VcpuId::new(0)).start(entry);
        self.life.restart();
    }

    fn reset_devices(&self) {
        let mut devices = self.devices.lock();
        devices.uart.reset();
        devices.rtc.reset();
        let mut gic = self.gic.lock();
        gic.reset();
        // The lines kept the levels of the former life. Nobody is there to be kicked.
        gic.set_level(None, platform::UART_IRQ, devices.uart.interrupt());
        gic.set_level(None, platform::RTC_IRQ, devices.rtc.interrupt());
        for vcpu in VcpuSet::first(self.vcpus()).iter() {
            gic.set_level(Some(vcpu), platform::TIMER_PHYSICAL_IRQ, false);
        }
    }

    /// Stops the VM if every vCPU turned itself off: nothing can ever wake it. For who left
    /// it last, and carries the ending out if the answer is yes.
    pub fn stop_if_all_off(&self) -> bool {
        let all_off = || {
            VcpuSet::first(self.vcpus())
                .iter()
                .all(|v| self.power(v).is_off())
        };
        let stopped = self.life.stop_deserted(all_off);
        if stopped {
            self.set_stop_reason(StopReason::AllOff);
        }
        stopped
    }

    /// Asks for the VM's end: every vCPU leaves, the last one carries it out. A second wish
    /// while one is under way is ignored.
    pub fn request_end(&self, machine: &impl Machine, ending: Ending, reason: Option<StopReason>) {
        if !self.life.begin_end(ending) {
            return;
        }
        *self.stop_reason.lock() = reason;
        for cpu in self.config.cpus.iter() {
            machine.kick(*cpu);
        }
    }

    /// Notes why it is stopped; for who carries the ending out.
    pub fn set_stop_reason(&self, reason: StopReason) {
        *self.stop_reason.lock() = Some(reason);
    }

    /// Why it was stopped.
    pub fn stop_reason(&self) -> Option<StopReason> {
        *self.stop_reason.lock()
    }

    /// Wakes a vCPU's pCPU, unless that is `caller`'s own.
    pub fn wake(&self, machine: &impl Machine, vcpu: VcpuId, caller: VcpuId) {
        if let Some(cpu) = self
            .cpu_of(vcpu)
            .filter(|cpu| Some(*cpu) != self.cpu_of(caller))
        {
            machine.kick(cpu);
        }
    }

    /// Tells vCPUs other than `caller` that their interrupts changed.
    pub(crate) fn notify(&self, machine: &impl Machine, set: VcpuSet, caller: Option<VcpuId>) {
        if set.is_empty() {
            return;
        }
        for vcpu in set.iter().filter(|vcpu| Some(*vcpu) != caller) {
            self.requests(vcpu).ask_interrupts();
            if let Some(cpu) = self.cpu_of(vcpu) {
                machine.kick(cpu);
            }
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
        let freed = gic.fold(vcpu, lists).union(gic.enter(vcpu, lists));
        self.release(machine, &mut gic, vcpu);
        let waits = gic.has_pending(vcpu);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
        waits
    }

    /// A vCPU leaves its pCPU: its interrupts go back from `lists` into the model, and
    /// physical ones that nobody holds any more are let go.
    pub fn take_back_interrupts(
        &self,
        machine: &impl Machine,
        vcpu: VcpuId,
        lists: &mut impl ListRegisters,
    ) {
        let mut gic = self.gic.lock();
        let mut freed = gic.leave(vcpu, lists);
        // The virtual timer goes off with its vCPU: what it raised is no longer true.
        let timer = 1 << platform::TIMER_VIRTUAL_IRQ.get();
        let frame = Frame::Redist(vcpu);
        freed = freed.union(gic.write(frame, GICR_ICPENDR0, Width::Word, timer));
        self.release(machine, &mut gic, vcpu);
        drop(gic);
        self.notify(machine, freed, Some(vcpu));
    }

    /// Deactivates the physical interrupts that no virtual one stands for any more: they may
    /// fire again. On the pCPU of `vcpu`.
    pub(crate) fn release(&self, machine: &impl Machine, gic: &mut Vgic, vcpu: VcpuId) {
        while let Some(interrupt) = gic.take_released(vcpu) {
            machine.deactivate(interrupt);
        }
    }

    /// A byte arrived on the line behind the serial port; `false` where there is no room
    /// for it now. Called on any pCPU.
    #[must_use]
    pub fn receive(&self, machine: &impl Machine, byte: u8) -> bool {
        let mut devices = self.devices.lock();
        let taken = devices.uart.room() > 0 && devices.uart.receive(byte);
        self.uart_line(machine, &devices);
        taken
    }

    /// Room for received bytes.
    pub fn receive_room(&self) -> usize {
        self.devices.lock().uart.room()
    }

    /// The line behind the serial port takes bytes again. Returns whether all is sent.
    pub fn transmit(&self, machine: &impl Machine) -> bool {
        let mut devices = self.devices.lock();
        let done = devices.uart.transmit_ready(&mut machine.port(self.id));
        self.uart_line(machine, &devices);
        done
    }

    fn uart_line(&self, machine: &impl Machine, devices: &Devices) {
        let level = devices.uart.interrupt();
        let set = self.gic.lock().set_level(None, platform::UART_IRQ, level);
        self.notify(machine, set, None);
    }
}
