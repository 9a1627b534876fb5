//! A VM's devices at work: accesses, interrupt lines, soft timers, and the serial port's line.
//!
//! Nothing here knows a kind of device, but for the serial port, which the console feeds.

use crate::{Attempt, Guest, Machine, Vm};
use hanok_devices::{Access, Device, Notice, Pl011, Slot, World};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{ListRegisters, SerialPort};
use hanok_types::{Deadline, VcpuId, VcpuSet, VmId, platform};

/// The world around a VM's devices.
struct Outside<'a, M: Machine + 'a> {
    machine: &'a M,
    port: M::Port<'a>,
}

impl<'a, M: Machine> Outside<'a, M> {
    fn new(machine: &'a M, vm: VmId) -> Self {
        let port = machine.port(vm);
        Self { machine, port }
    }
}

impl<M: Machine> SerialPort for Outside<'_, M> {
    #[inline(always)]
    fn try_send(&mut self, byte: u8) -> bool {
        self.port.try_send(byte)
    }
}

impl<M: Machine> World for Outside<'_, M> {
    fn seconds(&self) -> u64 {
        seconds(self.machine)
    }
}

/// The system counter in whole seconds: the one division there is, as one of 64 bits is a thousand
/// instructions in 32 bit.
fn seconds(machine: &impl Machine) -> u64 {
    machine.counter() / machine.counter_frequency().max(1)
}

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    /// A device's answer to a load; zero for a store.
    #[inline(never)]
    pub(crate) fn device(&mut self, slot: &Slot, offset: u64, access: Access) -> u64 {
        let vm = self.vm;
        let mut device = slot.device.lock();
        let mut world = Outside::new(self.machine, vm.id());
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
        if notice == Notice::Time {
            self.alarms_changed(access);
        }
        value
    }

    /// The alarms of this VM may be others than before `access`.
    fn alarms_changed(&mut self, access: Access) {
        self.vcpu.rearm = true;
        if access.write && self.vcpu.id.index() != 0 {
            // The first vCPU's pCPU keeps them.
            self.vm.attract_to_timers(self.machine, VcpuId::new(0));
        }
    }

    /// Does what is due of the devices.
    pub(crate) fn devices_due(&mut self) {
        let set = self.vm.devices_due(self.machine);
        self.attend(set);
    }
}

/// How the taking of received bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// There are no more of them.
    Complete,
    /// The serial port has no room for further ones.
    Full,
}

impl Vm {
    /// What a load of up to 32 bits at `offset` of the serial port's registers gives, where nothing follows from
    /// it but its value, or that a byte is taken: as a load by [`Guest::by_register`]. `None`, and nothing has
    /// been done, in other cases.
    #[inline(always)]
    pub fn load_serial_port(&self, machine: &impl Machine, offset: u64) -> Option<u32> {
        let slot = self.slots.first_at(platform::UART)?;
        let mut device = slot.device.lock();
        let Device::Pl011(port) = &mut *device else {
            return None;
        };
        port.load_alone(offset, machine.input_waits(self.id()))
    }

    /// Sends `byte`, the lowest one of a store of up to 32 bits at `offset` of the serial port's registers, where
    /// nothing else follows from it: as a store by [`Guest::by_register`].
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
        if port.send_alone(byte, waits, &mut machine.port(self.id())) {
            Attempt::Done
        } else {
            Attempt::Untouched
        }
    }

    /// Brings the interrupt line of `slot` up to date; the vCPUs that are to look at their
    /// interrupts. Called with its device locked.
    #[inline(never)]
    fn device_line(&self, slot: &Slot, device: &Device) -> VcpuSet {
        match slot.interrupt() {
            Some(line) => self.gic.lock().set_level(None, line, device.level()),
            None => VcpuSet::EMPTY,
        }
    }

    /// Notes when the device of `slot` is next due. Called with it locked.
    #[cold]
    #[inline(never)]
    fn set_alarm(&self, machine: &impl Machine, slot: &Slot, device: &Device) {
        let frequency = machine.counter_frequency();
        // `None`: beyond what the counter can show.
        let due = device.due().and_then(|due| due.checked_mul(frequency));
        self.alarms.set(slot.index(), due);
    }

    /// Does what is due of the devices; the vCPUs that are to look at their interrupts.
    #[cold]
    #[inline(never)]
    pub(crate) fn devices_due(&self, machine: &impl Machine) -> VcpuSet {
        let now = seconds(machine);
        let mut set = VcpuSet::EMPTY;
        // All of them: there are few, and to those that are not due nothing happens.
        for slot in self.slots.iter() {
            let mut device = slot.device.lock();
            device.pass_time(now);
            self.set_alarm(machine, slot, &device);
            set = set.union(self.device_line(slot, &device));
        }
        set
    }

    /// Whether a device is due, and `vcpu` the one that keeps the alarms.
    #[inline]
    pub(crate) fn alarm_has_come(&self, machine: &impl Machine, vcpu: VcpuId) -> bool {
        let alarm = self.alarm_deadline();
        vcpu.index() == 0 && alarm != Deadline::NEVER && alarm.has_come(machine.counter())
    }

    /// When the first device is due.
    #[inline]
    pub(crate) fn alarm_deadline(&self) -> Deadline {
        self.alarms.earliest()
    }

    /// All devices as after a reset, and the shared interrupts with them; nobody is in the VM.
    /// Bytes may arrive on the serial port's line meanwhile: each line is brought up to date
    /// after the controller was reset.
    #[cold]
    #[inline(never)]
    pub(crate) fn reset_devices(&self) {
        for slot in self.slots.iter() {
            slot.device.lock().reset();
        }
        self.alarms.clear();
        let mut gic = self.gic.lock();
        gic.reset_shared();
        // What the former life held was deactivated as its vCPUs left.
        gic.forget_released();
        drop(gic);
        for slot in self.slots.iter() {
            // The line kept its level of the former life. Nobody is there to be kicked.
            self.device_line(slot, &slot.device.lock());
        }
    }

    /// How many accesses were answered by nothing.
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
                // There is room, as was just seen.
                let _ = port.receive(byte);
            }
            Received::Full
        });
        taken.unwrap_or(Received::Full)
    }

    /// How many bytes [`Self::receive`] takes now.
    pub fn receive_room(&self) -> usize {
        let slot = self.slots.serial();
        slot.map_or(0, |slot| match &*slot.device.lock() {
            Device::Pl011(port) => port.room(),
            _ => 0,
        })
    }

    /// The line behind the serial port takes bytes again. Returns whether all is sent.
    pub fn transmit(&self, machine: &impl Machine) -> bool {
        let port = &mut machine.port(self.id());
        let sent = self.with_serial_port(machine, |uart| uart.transmit_ready(port));
        sent.unwrap_or(true)
    }

    /// Does something with the serial port, and brings its interrupt line up to date; `None`
    /// where the VM has no serial port.
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
