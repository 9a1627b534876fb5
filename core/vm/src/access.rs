//! Loads and stores that stage 2 did not translate: devices, or nothing.

use crate::vm::Devices;
use crate::{Action, DataAbort, Guest, GuestFault, Machine, MmioAccess, Vm};
use hanok_decode::General;
use hanok_devices::{Access, Device};
use hanok_hal::ListRegisters;
use hanok_hal::sync::atomic::Ordering;
use hanok_types::{Deadline, Ipa, VcpuId, VcpuSet, Width, platform};
use hanok_vgic::{Frame, Sgir};

impl Vm {
    /// What a load of a word of the distributor's at `offset` by one of its vCPUs gives, where it
    /// is a register of which no list register knows anything: as a load by
    /// [`Guest::by_register`]. `None`, and nothing has been done, for others.
    #[inline(always)]
    pub fn distributor_word(&self, from: VcpuId, offset: u64) -> Option<u32> {
        if !offset.is_multiple_of(Width::Word.bytes()) {
            return None;
        }
        let frame = Frame::distributor(self.gic_version(), from);
        let value = self.gic.lock().read_steady(frame, offset, Width::Word)?;
        Some(value as u32)
    }
}

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    pub(crate) fn data_abort(&mut self, abort: DataAbort) -> Action {
        match self.finish(abort) {
            Ok(action) => action,
            Err(fault) => {
                self.vm.devices.lock().holes += 1;
                Action::Inject(fault)
            }
        }
    }

    /// Does what the instruction asks for, or says what the guest gets instead.
    fn finish(&mut self, abort: DataAbort) -> Result<Action, GuestFault> {
        let DataAbort { write, walk, .. } = abort;
        let nothing = GuestFault::ExternalData { write, walk };
        match (abort.access, abort.instruction) {
            _ if walk => Err(nothing),
            (Some(access), _) => self
                .single(abort, access)
                .ok_or(nothing)
                .map(|()| Action::Next),
            (None, Some(word)) => self.by_instruction(abort, word),
            (None, None) => Err(nothing),
        }
    }

    /// Finishes the access that `word` describes, or says what the guest gets instead.
    fn by_instruction(&mut self, abort: DataAbort, word: u32) -> Result<Action, GuestFault> {
        match self.regs.is_aarch32() {
            #[cfg(any(test, feature = "aarch32"))]
            true => self.by_aarch32_instruction(abort, word),
            #[cfg(any(test, feature = "aarch64"))]
            false => self.by_aarch64_instruction(abort, word),
            // Code that no guest of the backend has.
            #[cfg(not(any(test, all(feature = "aarch32", feature = "aarch64"))))]
            _ => {
                let _ = word;
                Err(GuestFault::ExternalData {
                    write: abort.write,
                    walk: false,
                })
            }
        }
    }

    /// [`Self::by_register`], for those who are in no hurry.
    #[inline(never)]
    fn single(&mut self, abort: DataAbort, access: MmioAccess) -> Option<()> {
        #[cfg(any(test, feature = "aarch32"))]
        if self.is_big_endian() {
            return self.by_register_big_endian(abort.ipa, abort.write, access);
        }
        self.by_register(abort.ipa, abort.write, access)
    }

    /// A load or store of one register, as the syndrome describes it, data being little-endian;
    /// `None`, and nothing is changed, where nothing answers.
    #[inline(always)]
    pub fn by_register(&mut self, ipa: Ipa, write: bool, access: MmioAccess) -> Option<()> {
        let MmioAccess {
            width,
            register,
            sign_extend,
            wide,
        } = access;
        let general = General {
            width,
            sign_extend,
            wide,
        };
        if write {
            let value = general.stored(self.regs.get(register));
            return self.store(ipa, width, value).then_some(());
        }
        let value = self.load(ipa, width)?;
        self.regs.set(register, general.loaded(value));
        Some(())
    }

    /// A device's answer to a load; `None` where nothing is.
    #[inline(always)]
    pub(crate) fn load(&mut self, ipa: Ipa, width: Width) -> Option<u64> {
        self.access(Access::load(ipa, width))
    }

    /// Gives a device a store; `false` where nothing is.
    #[inline(always)]
    pub(crate) fn store(&mut self, ipa: Ipa, width: Width, value: u64) -> bool {
        self.access(Access::store(ipa, width, value)).is_some()
    }

    #[inline(always)]
    fn access(&mut self, access: Access) -> Option<u64> {
        let (device, offset) = self.vm.device_at(access.ipa, access.width.bytes())?;
        Some(match device {
            Device::GicDist => {
                let frame = Frame::distributor(self.vm.gic_version(), self.vcpu.id);
                self.interrupt_controller(frame, offset, access)
            }
            Device::GicRedist(vcpu) => {
                self.interrupt_controller(Frame::Redist(vcpu), offset, access)
            }
            Device::Uart => self.uart(offset, access),
            Device::Rtc => self.clock(offset, access),
            Device::VirtioMmio(_) => self.empty_slot(offset, access),
            Device::Flash => self.flash(access),
        })
    }

    #[inline(always)]
    fn interrupt_controller(&mut self, frame: Frame, offset: u64, access: Access) -> u64 {
        if access.write && offset == Sgir::OFFSET && self.writes_sgir(frame, access) {
            return 0;
        }
        if !access.write {
            let mut gic = self.vm.gic.lock();
            if let Some(value) = gic.read_steady(frame, offset, access.width) {
                return value;
            }
        }
        self.change_interrupts(frame, offset, access)
    }

    /// Whether a store to a GICv2's GICD_SGIR was done on the short way.
    #[inline(always)]
    fn writes_sgir(&mut self, frame: Frame, access: Access) -> bool {
        let v2 = matches!(frame, Frame::V2(_)) && access.width == Width::Word;
        v2 && self.send_sgir(access.value as u32)
    }

    #[inline(never)]
    fn change_interrupts(&mut self, frame: Frame, offset: u64, access: Access) -> u64 {
        let mut gic = self.vm.gic.lock();
        if let Some(vcpu) = frame.vcpu() {
            self.vm.deliver_mail(&mut gic, vcpu);
        }
        // What the guest did to its list registers since they were filled counts first.
        let freed = gic.fold(self.vcpu.id, self.lists);
        let (value, touched) = if access.write {
            (0, gic.write(frame, offset, access.width, access.value))
        } else {
            let read = gic.read(frame, offset, access.width);
            (read.value, read.kick)
        };
        // Folding may have found work for this vCPU that is in no set.
        let freed = freed.union(self.sync_accessed(&mut gic));
        drop(gic);
        self.vm
            .notify(self.machine, touched.union(freed), Some(self.vcpu.id));
        value
    }

    #[inline(never)]
    fn uart(&mut self, offset: u64, access: Access) -> u64 {
        let vm = self.vm;
        let mut devices = vm.devices.lock();
        let mut port = self.machine.port(vm.id());
        let value = if access.write {
            devices
                .uart
                .write(offset, access.width, access.value, &mut port);
            0
        } else {
            devices.uart.read(offset, access.width, &mut port)
        };
        drop(port);
        let level = devices.uart.interrupt();
        let room = devices.uart.room() > 0;
        let waiting = devices.uart.transmit_pending();
        let set = vm.gic.lock().set_level(None, platform::UART_IRQ, level);
        drop(devices);
        self.machine.line_state(vm.id(), room, waiting);
        self.attend(set);
        value
    }

    #[inline(never)]
    fn clock(&mut self, offset: u64, access: Access) -> u64 {
        let now = seconds(self.machine);
        let mut devices = self.vm.devices.lock();
        let value = if access.write {
            devices.rtc.write(offset, access.width, access.value, now);
            0
        } else {
            devices.rtc.read(offset, access.width, now)
        };
        let set = self.vm.clock_alarm_at(self.machine, &mut devices, now);
        drop(devices);
        self.attend(set);
        self.vcpu.rearm = true;
        if access.write && self.vcpu.id.index() != 0 {
            // The first vCPU's pCPU keeps the alarm.
            self.vm.attract_to_timers(self.machine, VcpuId::new(0));
        }
        value
    }

    /// Brings the real-time clock's line up to date.
    pub(crate) fn clock_alarm(&mut self) {
        let set = self.vm.clock_alarm(self.machine);
        self.attend(set);
    }

    #[inline(never)]
    fn empty_slot(&mut self, offset: u64, access: Access) -> u64 {
        let Devices { virtio, .. } = &mut *self.vm.devices.lock();
        if access.write {
            virtio.write();
            return 0;
        }
        virtio.read(offset, access.width)
    }

    #[inline(never)]
    fn flash(&mut self, access: Access) -> u64 {
        let Devices { flash, .. } = &mut *self.vm.devices.lock();
        if access.write {
            flash.write();
            return 0;
        }
        flash.read(access.width)
    }
}

/// The system counter in whole seconds: the one division there is, as one of 64 bits is a thousand
/// instructions in 32 bit.
fn seconds(machine: &impl Machine) -> u64 {
    machine.counter() / machine.counter_frequency().max(1)
}

impl Vm {
    /// Brings the real-time clock's line up to date, and notes when it is next to be done;
    /// the vCPUs that are to look at their interrupts.
    pub(crate) fn clock_alarm(&self, machine: &impl Machine) -> VcpuSet {
        let mut devices = self.devices.lock();
        self.clock_alarm_at(machine, &mut devices, seconds(machine))
    }

    fn clock_alarm_at(&self, machine: &impl Machine, devices: &mut Devices, now: u64) -> VcpuSet {
        devices.rtc.update(now);
        let due = devices.rtc.next_alarm();
        // `None`: beyond what the counter can show.
        let due = due.and_then(|second| second.checked_mul(machine.counter_frequency()));
        self.alarm.store(due.unwrap_or(u64::MAX), Ordering::Relaxed);
        let level = devices.rtc.interrupt();
        self.gic.lock().set_level(None, platform::RTC_IRQ, level)
    }

    /// Whether the clock's alarm is due, and `vcpu` the one that keeps it.
    #[inline]
    pub(crate) fn alarm_has_come(&self, machine: &impl Machine, vcpu: VcpuId) -> bool {
        let alarm = self.alarm_deadline();
        vcpu.index() == 0 && alarm != Deadline::NEVER && alarm.has_come(machine.counter())
    }

    /// When the clock's alarm is due.
    #[inline]
    pub(crate) fn alarm_deadline(&self) -> Deadline {
        Deadline::at(self.alarm.load(Ordering::Relaxed))
    }
}
