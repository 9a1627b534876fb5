//! How a VM's devices are used: accesses, interrupt lines, soft timers, and the serial line.
//!
//! Nothing here depends on the kind of a device, except the serial port, which the console feeds.

use crate::{Attempt, Guest, Kick, Machine, Vcpu, Vm};
use hanok_config::{DeviceKind, MAX_DEVICES, MAX_LINES};
use hanok_devices::{Access, Device, Notice, Pl011, ScheduleRegisters, Slot, World};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{LineFull, SerialPort};
use hanok_types::{CpuId, Deadline, VcpuId, VcpuSet, VmId, platform};
use hanok_vgic::GuestInterface;

/// How many released interrupts of devices are deactivated in a part of a reset, and in how many parts all that there can be; the last part finds none.
const RELEASED_AT_ONCE: usize = 8;
const RELEASES: usize = MAX_DEVICES * MAX_LINES / RELEASED_AT_ONCE + 1;

/// The surroundings of a VM's devices.
struct Outside<'a, M: Machine + 'a> {
    machine: &'a M,
    port: M::Port<'a>,
    schedule: &'a mut ScheduleRegisters,
}

impl<'a, M: Machine> Outside<'a, M> {
    fn new(machine: &'a M, vm: VmId, schedule: &'a mut ScheduleRegisters) -> Self {
        let port = machine.port(vm);
        Self {
            machine,
            port,
            schedule,
        }
    }
}

impl<M: Machine> SerialPort for Outside<'_, M> {
    #[inline(always)]
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        self.port.try_send(byte)
    }
}

impl<M: Machine> World for Outside<'_, M> {
    fn seconds(&self) -> u64 {
        seconds(self.machine)
    }

    fn schedule(&mut self) -> &mut ScheduleRegisters {
        self.schedule
    }
}

/// The system counter in whole seconds. This is the only division, as a 64-bit one takes a thousand
/// instructions in 32 bit.
fn seconds(machine: &impl Machine) -> u64 {
    machine.counter() / machine.counter_frequency().max(1)
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// Does an access to a device. The answer is the value of a load, or zero for a store.
    #[inline(never)]
    pub(crate) fn device(&mut self, slot: &Slot, offset: u64, access: Access) -> u64 {
        let vm = self.vm;
        let mut device = slot.device.lock();
        let mut world = Outside::new(self.machine, vm.id(), &mut self.vcpu.schedule);
        let value = device.access(offset, access, &mut world);
        drop(world);
        let notice = device.notice();
        let set = vm.device_line(slot, &device);
        if notice == Notice::Time {
            vm.set_alarm(self.machine, slot, &device);
        }
        drop(device);
        if let Notice::Serial { room, waiting } = notice {
            self.machine.line_state(vm.id(), room, waiting);
        }
        self.attend(set);
        if let Notice::Bells(bells) = &notice {
            self.machine.ring(bells);
        }
        if notice == Notice::Time {
            self.alarms_changed(access);
        }
        value
    }

    /// It must be called if `access` may have changed the VM's alarms.
    fn alarms_changed(&mut self, access: Access) {
        self.vcpu.rearm = true;
        if access.write && self.vcpu.id.index() != 0 {
            // The first vCPU's pCPU is responsible for them.
            self.vm.attract_to_timers(self.machine, VcpuId::new(0));
        }
    }

    /// Brings the interrupt line of the slot with this index up to date.
    pub fn show_line(&mut self, slot: usize) {
        let set = self.vm.slot_line(slot);
        self.attend(set);
    }

    /// Does what is due for the devices.
    pub(crate) fn devices_due(&mut self) {
        let set = self.vm.devices_due(self.machine);
        self.attend(set);
    }
}

/// The reason why [`Vm::receive`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// There are no more bytes.
    Complete,
    /// The serial port has no room for more bytes.
    Full,
}

impl Vm {
    /// The value of a load of up to 32 bits at `offset` of the serial port's registers, if the load has no
    /// effect but its value, or that it takes a byte out: as a load by [`Guest::by_register`]. In all other
    /// cases nothing has been done, and the answer is `None`.
    #[inline(always)]
    pub fn load_serial_port(&self, machine: &impl Machine, offset: u64) -> Option<u32> {
        let slot = self.slots.first_at(platform::UART)?;
        let mut device = slot.device.lock();
        let Device::Pl011(port) = &mut *device else {
            return None;
        };
        port.load_alone(offset, machine.input_waits(self.id()))
    }

    /// Sends `byte`, the lowest one of a store of up to 32 bits at `offset` of the serial port's registers,
    /// if the store has no other effect: as a store by [`Guest::by_register`].
    #[inline(always)]
    pub fn store_serial_port(&self, machine: &impl Machine, offset: u64, byte: u8) -> Attempt {
        let Some(slot) = self.slots.first_at(platform::UART).filter(|_| offset == 0) else {
            return Attempt::Untouched;
        };
        let mut device = slot.device.lock();
        let Device::Pl011(port) = &mut *device else {
            return Attempt::Untouched;
        };
        let waits = machine.input_waits(self.id());
        match port.send_alone(byte, waits, &mut machine.port(self.id())) {
            Some(()) => Attempt::Done,
            None => Attempt::Untouched,
        }
    }

    /// Brings the interrupt line of `slot` up to date. The answer is the vCPUs whose interrupts changed.
    /// The caller holds the device's lock.
    #[inline(never)]
    pub(crate) fn device_line(&self, slot: &Slot, device: &Device) -> VcpuSet {
        match slot.interrupt() {
            Some(line) => self.gic.lock().set_level(None, line, device.level()),
            None => VcpuSet::EMPTY,
        }
    }

    /// [`Self::device_line`] after the guest has ended the interrupt: if the line is high, it has risen. Another pCPU may have raised it meanwhile, and a
    /// guest that takes edges alone must not lose this one.
    pub(crate) fn device_line_anew(&self, slot: &Slot, device: &Device) -> VcpuSet {
        let Some(line) = slot.interrupt() else {
            return VcpuSet::EMPTY;
        };
        let mut gic = self.gic.lock();
        let lowered = gic.set_level(None, line, false);
        if device.level() {
            lowered.union(gic.set_level(None, line, true))
        } else {
            lowered
        }
    }

    fn slot_line(&self, slot: usize) -> VcpuSet {
        match self.slots.get(slot) {
            Some(slot) => self.device_line(slot, &slot.device.lock()),
            None => VcpuSet::EMPTY,
        }
    }

    /// Brings the interrupt line of the slot with this index up to date, on any pCPU.
    pub fn show_line(&self, machine: &impl Machine, slot: usize) {
        let set = self.slot_line(slot);
        self.notify(machine, set, None);
    }

    /// [`Self::show_line`] on pCPU `here`, which is not kicked: the answer is the bit of the vCPU that it has to bring up to date, if there is one.
    #[must_use]
    pub fn show_line_at(&self, machine: &impl Machine, slot: usize, here: CpuId) -> u64 {
        let set = self.slot_line(slot);
        let first = set.iter().next();
        let own = first.filter(|first| set == VcpuSet::only(*first));
        let home = own.and_then(|own| Some((own, self.home_of(own)?)));
        if let Some((own, home)) = home
            && home.cpu == here
            && home.bit != 0
        {
            return match self.requests(own).ask_interrupts() {
                Kick::Needed => home.bit,
                _ => 0,
            };
        }
        self.notify(machine, set, None);
        0
    }

    /// The slot with this index.
    pub fn slot(&self, index: usize) -> Option<&Slot> {
        self.slots.get(index)
    }

    /// If the slot with this index is a device that two VMs share, takes it away from the VM's former boot: whoever serves it, or is served by it, does
    /// not touch the VM's memory for it afterwards. The answer is whether that is so already; otherwise a device of the board may still do so. No
    /// vCPU is in the VM. The caller brings the line at the other end ([`Slot::peer`]) up to date. `None` if there is no such slot.
    pub fn let_go(&self, index: usize) -> Option<bool> {
        let slot = self.slots.get(index)?;
        let Some(shared) = slot.shared() else {
            return Some(true);
        };
        slot.device.lock().reset();
        Some(slot.kind() == DeviceKind::BackEnd || !shared.holds_memory())
    }

    /// Sets the alarm of the device of `slot`. The caller holds the device's lock.
    #[cold]
    #[inline(never)]
    fn set_alarm(&self, machine: &impl Machine, slot: &Slot, device: &Device) {
        let frequency = machine.counter_frequency();
        // `None`: the time is beyond the counter's range.
        let due = device.due().and_then(|due| due.checked_mul(frequency));
        self.alarms.set(slot.index(), due);
    }

    /// Lets the devices do what is due. The answer is the set of vCPUs whose interrupts changed.
    #[cold]
    #[inline(never)]
    pub(crate) fn devices_due(&self, machine: &impl Machine) -> VcpuSet {
        let now = seconds(machine);
        let mut set = VcpuSet::EMPTY;
        // All devices are asked: there are few, and those that are not due do nothing.
        for slot in self.slots.iter() {
            let mut device = slot.device.lock();
            device.pass_time(now);
            self.set_alarm(machine, slot, &device);
            set = set.union(self.device_line(slot, &device));
        }
        set
    }

    /// Whether a device is due and `vcpu` is the one that is responsible for the alarms.
    #[inline]
    pub(crate) fn alarm_has_come(&self, machine: &impl Machine, vcpu: VcpuId) -> bool {
        let alarm = self.alarm_deadline();
        vcpu.index() == 0 && alarm != Deadline::NEVER && alarm.has_come(machine.counter())
    }

    /// Whether [`Guest::refresh`](crate::Guest::refresh) would do nothing.
    #[inline(always)]
    pub fn is_up_to_date(&self, machine: &impl Machine, vcpu: &Vcpu) -> bool {
        !self.requests(vcpu.id).asks_refresh()
            && vcpu.timers.rest()
            && !self.alarm_has_come(machine, vcpu.id)
    }

    /// The moment at which the first device is due.
    #[inline]
    pub(crate) fn alarm_deadline(&self) -> Deadline {
        self.alarms.earliest()
    }

    /// Does part number `part`, from zero on, of the reset of its shared interrupts and devices; `false` if there is none with this number. No
    /// vCPU is in the VM, which has let its shared devices go ([`Self::let_go`]). The interrupt controller comes first: bytes may arrive on the serial line
    /// meanwhile, and each device's line is brought up to date afterwards.
    pub fn reset_devices(&self, machine: &impl Machine, part: usize) -> bool {
        match part.checked_sub(1 + RELEASES) {
            None if part == 0 => self.reset_interrupts(),
            None => self.release_interrupts(machine),
            Some(index) => {
                let Some(slot) = self.slots.get(index) else {
                    return false;
                };
                let mut device = slot.device.lock();
                if slot.shared().is_none() {
                    device.reset();
                }
                // The line still has the level of the former boot. No vCPU is in the VM that could be kicked.
                self.device_line(slot, &device);
            }
        }
        true
    }

    fn reset_interrupts(&self) {
        self.alarms.clear();
        let mut gic = self.gic.lock();
        gic.reset_shared();
        // A guest that leaves their triggers as they are must not lose an edge that comes before it enables them.
        let devices = self.config().devices.iter();
        let lines = devices.flat_map(|device| &device.interrupts);
        lines
            .filter(|line| line.edge)
            .for_each(|line| gic.set_edge(line.guest));
    }

    /// Devices' physical interrupts that the former boot had not ended, or that came after it, may come again: some of them.
    fn release_interrupts(&self, machine: &impl Machine) {
        let mut gic = self.gic.lock();
        for _ in 0..RELEASED_AT_ONCE {
            let Some(physical) = gic.take_released_spi() else {
                // Private ones were deactivated when its vCPUs left.
                return gic.forget_released();
            };
            machine.deactivate(physical);
        }
    }

    /// Counts an access that nothing answered.
    pub(crate) fn count_hole(&self) {
        self.holes.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes bytes that arrived on the line behind the serial port from `next`, until it has no more or the
    /// port no room. Called on any pCPU. `next` is called, and dropped, with the port's device locked.
    pub fn receive(
        &self,
        machine: &impl Machine,
        mut next: impl FnMut() -> Option<u8>,
    ) -> Received {
        let taken = self.with_serial_port(machine, move |port| {
            while port.room() > 0 {
                let Some(byte) = next() else {
                    return Received::Complete;
                };
                // There is room, as was checked above.
                let _ = port.receive(byte);
            }
            Received::Full
        });
        taken.unwrap_or(Received::Full)
    }

    /// The number of bytes that [`Self::receive`] would take now.
    pub fn receive_room(&self) -> usize {
        let slot = self.slots.serial();
        slot.map_or(0, |slot| match &*slot.device.lock() {
            Device::Pl011(port) => port.room(),
            _ => 0,
        })
    }

    /// Sends what waits in the serial port, as its line takes bytes again. Some bytes are left if the
    /// line becomes full.
    pub fn transmit(&self, machine: &impl Machine) -> Result<(), LineFull> {
        let port = &mut machine.port(self.id());
        let sent = self.with_serial_port(machine, |uart| uart.transmit_ready(port));
        sent.unwrap_or(Ok(()))
    }

    /// Calls `act` with the serial port, and brings its interrupt line up to date; `None` if the VM
    /// has no serial port.
    fn with_serial_port<R>(
        &self,
        machine: &impl Machine,
        act: impl FnOnce(&mut Pl011) -> R,
    ) -> Option<R> {
        let slot = self.slots.serial()?;
        let mut device = slot.device.lock();
        let Device::Pl011(port) = &mut *device else {
            return None;
        };
        let done = act(port);
        let set = self.device_line(slot, &device);
        drop(device);
        self.notify(machine, set, None);
        Some(done)
    }
}
