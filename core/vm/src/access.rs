//! Loads and stores that stage 2 did not translate: devices of the virtual platform, trapped ones of the board, or nothing.

use crate::{
    Action, Attempt, DataAbort, Destination, Guest, GuestFault, Instruction, Machine, MmioAccess,
    NoAnswer, Vm, Wait,
};
use hanok_config::DeviceKind;
use hanok_devices::virtio::SharedDevice;
use hanok_devices::{Access, Slot};
use hanok_types::{GuestPage, Ipa, VcpuId, Width};
use hanok_vgic::{Frame, GuestInterface, Sgir};

/// The time in seconds for which a vCPU waits for the first offer of a device.
const LONGEST_WAIT: u64 = 10;

impl Vm {
    /// The value that a load of a word of the distributor at `offset` gives to `from`, if the
    /// register does not depend on list registers: as a load by [`Guest::by_register`]. `None` for
    /// other registers, and then nothing has been done.
    #[inline(always)]
    pub fn distributor_word(&self, from: VcpuId, offset: u64) -> Option<u32> {
        if !offset.is_multiple_of(Width::Word.bytes()) {
            return None;
        }
        let frame = Frame::distributor(self.gic_version(), from);
        let value = self.gic.lock().read_unfolded(frame, offset, Width::Word)?;
        Some(value as u32)
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    pub(crate) fn data_abort(&mut self, abort: DataAbort) -> Action {
        if let Some(wait) = self.missing_page(abort.ipa) {
            return Action::Block(wait);
        }
        match self.finish(&abort) {
            Ok(action) => self.with_work(action),
            Err(fault) => {
                self.vm.count_hole();
                Action::Inject(fault)
            }
        }
    }

    /// What follows after an access that was done, with `action` for the vCPU: there may be work of it to do before.
    fn with_work(&mut self, action: Action) -> Action {
        let next = action == Action::Next;
        if self.vcpu.schedule.is_called() {
            return Action::Schedule { next };
        }
        match self.vcpu.serves.take() {
            Some(slot) => Action::Serve { slot, next },
            None => action,
        }
    }

    /// A load or store of one register by AArch64 code, as the syndrome describes it, to a device whose exits may be long: what
    /// follows, as of [`Self::handle`], which would take a longer way. `None`, and nothing has changed, if it goes elsewhere.
    #[cfg(any(test, feature = "aarch64"))]
    #[inline(never)]
    pub fn access_slow_slot_by_register(
        &mut self,
        ipa: Ipa,
        write: bool,
        access: MmioAccess,
    ) -> Option<Action> {
        let (general, register) = (access.general(), access.register);
        let width = general.width;
        let vm = self.vm;
        let Destination::SlowSlot(slot, offset) = vm.destination(ipa, width.bytes()) else {
            return None;
        };
        if let Some(wait) = self.missing_back_end(slot, offset) {
            return Some(Action::Block(wait));
        }
        if write {
            let value = general.stored(self.regs.get(register));
            self.access_slow_slot(slot, offset, Access::store(ipa, width, value));
        } else {
            let value = self.access_slow_slot(slot, offset, Access::load(ipa, width));
            self.regs.set(register, general.loaded(value));
        }
        Some(self.with_work(Action::Next))
    }

    /// An instruction fetch at `ipa` that stage 2 did not translate. `walk` says whether stage 1's
    /// walk made it.
    pub(crate) fn instruction_abort(&self, ipa: Ipa, walk: bool) -> Action {
        match self.missing_page(ipa) {
            Some(wait) => Action::Block(wait),
            None => Action::Inject(GuestFault::ExternalFetch { walk }),
        }
    }

    /// What a vCPU must wait for whose access to `ipa` exited: a page, if the VM has memory there, or the VM that serves a
    /// device. If the page is present again meanwhile, the wait ends at once.
    #[cold]
    #[inline(never)]
    fn missing_page(&self, ipa: Ipa) -> Option<Wait> {
        match self.vm.destination(ipa, 1) {
            Destination::Memory => GuestPage::of(ipa).map(Wait::Page),
            Destination::SlowSlot(slot, offset) => self.missing_back_end(slot, offset),
            _ => None,
        }
    }

    /// The wait for the VM that serves a device, if an access has to.
    #[cold]
    #[inline(never)]
    fn missing_back_end(&self, slot: &Slot, offset: u64) -> Option<Wait> {
        let shared = slot.shared()?;
        if slot.kind() == DeviceKind::BackEnd {
            return None;
        }
        let longest = self
            .machine
            .counter_frequency()
            .saturating_mul(LONGEST_WAIT);
        let waits = shared.has_to_wait(offset, self.machine.counter(), longest);
        waits.then_some(Wait::Reply)
    }

    /// Executes the instruction's access, or answers the fault that the guest gets instead.
    fn finish(&mut self, abort: &DataAbort) -> Result<Action, GuestFault> {
        let nothing = abort.unanswered();
        match (abort.access, abort.instruction) {
            _ if abort.walk => Err(nothing),
            (Some(access), _) => match self.single(abort, access) {
                Ok(()) => Ok(Action::Next),
                Err(NoAnswer) => Err(nothing),
            },
            (None, Instruction::Word(word)) => self.by_instruction(*abort, word),
            (None, Instruction::Absent(page)) => Ok(Action::Block(Wait::Page(page))),
            (None, Instruction::Unknown) => Err(nothing),
        }
    }

    /// Finishes the access that `word` describes, or answers the fault that the guest gets instead.
    fn by_instruction(&mut self, abort: DataAbort, word: u32) -> Result<Action, GuestFault> {
        match self.regs.is_aarch32() {
            #[cfg(any(test, feature = "aarch32"))]
            true => self.by_aarch32_instruction(abort, word),
            #[cfg(any(test, feature = "aarch64"))]
            false => self.by_aarch64_instruction(abort, word),
            // The backend's guests cannot have such code.
            #[cfg(not(any(test, all(feature = "aarch32", feature = "aarch64"))))]
            _ => {
                let _ = word;
                Err(abort.unanswered())
            }
        }
    }

    /// [`Self::by_register`], out of line, and for data in either byte order.
    #[inline(never)]
    fn single(&mut self, abort: &DataAbort, access: MmioAccess) -> Result<(), NoAnswer> {
        #[cfg(any(test, feature = "aarch32"))]
        return self.by_register_in_order(self.is_big_endian(), abort.ipa, abort.write, access);
        #[cfg(not(any(test, feature = "aarch32")))]
        self.by_register(abort.ipa, abort.write, access)
    }

    /// Does a load or store of one register, as the syndrome describes it, with little-endian data.
    /// If nothing answers, nothing has changed.
    #[inline(always)]
    pub fn by_register(
        &mut self,
        ipa: Ipa,
        write: bool,
        access: MmioAccess,
    ) -> Result<(), NoAnswer> {
        let (general, register) = (access.general(), access.register);
        let width = general.width;
        if write {
            let value = general.stored(self.regs.get(register));
            let store = Access::store(ipa, width, value);
            return self.access(store).map(|_| ()).ok_or(NoAnswer);
        }
        let value = self.access(Access::load(ipa, width)).ok_or(NoAnswer)?;
        self.regs.set(register, general.loaded(value));
        Ok(())
    }

    /// Whether all of the `bytes` bytes at `ipa` belong to a device or to the interrupt controller.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    #[inline(never)]
    pub(crate) fn is_device(&self, ipa: Ipa, bytes: u64) -> bool {
        self.vm.destination(ipa, bytes).is_device()
    }

    /// Stores a word to a device, or loads one from it if there is nothing to store: the value of a load. `None`, and nothing has
    /// changed, if nothing answers.
    #[cfg(any(test, feature = "aarch32"))]
    pub fn access_device(&mut self, ipa: Ipa, stored: Option<u64>) -> Option<u64> {
        let access = match stored {
            Some(value) => Access::store(ipa, Width::Word, value),
            None => Access::load(ipa, Width::Word),
        };
        let destination = self.vm.destination(ipa, Width::Word.bytes());
        self.access_out_of_line(&destination, access)
    }

    /// The value of a load from a device; `None` if nothing answers.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    pub(crate) fn load(&mut self, ipa: Ipa, width: Width) -> Option<u64> {
        self.access_slowly(Access::load(ipa, width))
    }

    /// Does a store to a device.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    pub(crate) fn store(&mut self, ipa: Ipa, width: Width, value: u64) -> Result<(), NoAnswer> {
        let store = Access::store(ipa, width, value);
        self.access_slowly(store).map(|_| ()).ok_or(NoAnswer)
    }

    /// Does an access in an exit that may be the end of the vCPU's turn.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    #[inline(never)]
    fn access_slowly(&mut self, access: Access) -> Option<u64> {
        let found = self.vm.destination(access.ipa, access.width.bytes());
        if let Destination::SlowSlot(slot, offset) = &found {
            return Some(self.access_slow_slot(slot, *offset, access));
        }
        self.access_out_of_line(&found, access)
    }

    /// Does an access to a device whose exits may be long.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    fn access_slow_slot(&mut self, slot: &Slot, offset: u64, access: Access) -> u64 {
        if let Some(value) = self.access_at_once(slot, offset, access) {
            return value;
        }
        let Some(shared) = slot.shared() else {
            return self.device(slot, offset, access);
        };
        let device = slot.device.lock();
        let done = shared.access_by(slot.kind() == DeviceKind::BackEnd, offset, access);
        if done.changed {
            let set = self.vm.device_line(slot, &device);
            drop(device);
            self.attend(set);
        }
        // Not after a load, which cannot be made again: it may have changed its own base register.
        if done.needs_attention {
            self.vcpu.serves = Some(slot.index() as u8);
        }
        done.value
    }

    /// Does an access of those to a shared device that are made at each of its interrupts. `None`, and nothing has changed, for others.
    #[inline(never)]
    fn access_at_once(&mut self, slot: &Slot, offset: u64, access: Access) -> Option<u64> {
        let shared = slot.shared()?;
        let is_back_end = slot.kind() == DeviceKind::BackEnd;
        if !SharedDevice::is_at_once(is_back_end, offset) {
            return None;
        }
        // As for other devices, lines get their levels in the order of the accesses.
        let device = slot.device.lock();
        let done = shared.at_once(is_back_end, offset, access)?;
        if done.ended {
            let set = self.vm.device_line_anew(slot, &device);
            drop(device);
            self.attend(set);
        }
        Some(done.value)
    }

    /// Whether there is work to do for a shared device before the instruction can end whose pieces are all done.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    pub(crate) fn has_to_serve(&mut self) -> bool {
        let left = self.vcpu.partial.take_left();
        self.vcpu.serves = self.vcpu.serves.or(left);
        self.vcpu.serves.is_some()
    }

    /// [`Self::access_to`] outside the fast path, for which one copy is enough.
    #[cfg(any(test, feature = "aarch32", feature = "aarch64"))]
    #[inline(never)]
    fn access_out_of_line(&mut self, destination: &Destination<'_>, access: Access) -> Option<u64> {
        self.access_to(destination, access)
    }

    #[inline(always)]
    fn access(&mut self, access: Access) -> Option<u64> {
        let destination = self.vm.destination(access.ipa, access.width.bytes());
        self.access_to(&destination, access)
    }

    #[inline(always)]
    fn access_to(&mut self, destination: &Destination<'_>, access: Access) -> Option<u64> {
        match *destination {
            Destination::Distributor(offset) => {
                let frame = Frame::distributor(self.vm.gic_version(), self.vcpu.id);
                Some(self.interrupt_controller(frame, offset, access))
            }
            Destination::Redistributor(vcpu, offset) => {
                Some(self.interrupt_controller(Frame::Redist(vcpu), offset, access))
            }
            Destination::Slot(slot, offset) => Some(self.device(slot, offset, access)),
            Destination::SlowSlot(slot, offset) => self.access_at_once(slot, offset, access),
            Destination::CpuInterface(offset) => self.cpu_interface(offset, access),
            Destination::Register(at) => {
                let value = access.write.then_some(access.value);
                self.machine.access_register(at, access.width, value)
            }
            Destination::Memory | Destination::Hole => None,
        }
    }

    #[inline(always)]
    fn interrupt_controller(&mut self, frame: Frame, offset: u64, access: Access) -> u64 {
        if access.write && offset == Sgir::OFFSET && self.try_sgir(frame, access) == Attempt::Done {
            return 0;
        }
        if !access.write {
            let mut gic = self.vm.gic.lock();
            if let Some(value) = gic.read_unfolded(frame, offset, access.width) {
                return value;
            }
        }
        self.change_interrupts(frame, offset, access)
    }

    /// Tries the fast path of a store to a GICv2's GICD_SGIR.
    #[inline(always)]
    fn try_sgir(&mut self, frame: Frame, access: Access) -> Attempt {
        if matches!(frame, Frame::V2(_)) && access.width == Width::Word {
            self.send_sgir(access.value as u32)
        } else {
            Attempt::Untouched
        }
    }

    #[inline(never)]
    fn change_interrupts(&mut self, frame: Frame, offset: u64, access: Access) -> u64 {
        let mut gic = self.vm.gic.lock();
        if let Some(vcpu) = frame.vcpu() {
            self.vm.deliver_posted_sgis(&mut gic, vcpu);
        }
        // First, what the guest did to its list registers since they were filled is taken into
        // account.
        let freed = gic.fold(self.vcpu.id, self.lists);
        let (value, touched) = if access.write {
            (0, gic.write(frame, offset, access.width, access.value))
        } else {
            let read = gic.read(frame, offset, access.width);
            (read.value, read.kick)
        };
        // Folding may have made work for this vCPU that is in no set.
        let freed = freed.union(self.sync_accessed(&mut gic));
        drop(gic);
        self.vm
            .notify(self.machine, touched.union(freed), Some(self.vcpu.id));
        value
    }
}
