//! The CPUs of a board, as the executive knows them, for both Arm architectures.

use crate::frames::SharedFrames;
use crate::host_gic::{BoardGic, CpuGic, Targets};
use crate::lists::HostLists;
use crate::planted::Planted;
use crate::ram::GuestRam;
use crate::{Firmware, HostUart, bulk, mmu, pmu, read, sysreg, write, write_own};
use core::fmt::Debug;
use hanok_decode::SysReg;
use hanok_hal::{Backend, Context, LateError, Taken, Tlb};
use hanok_trace::{Event, Sink, Source};
use hanok_types::{CpuId, Deadline, Hpa, IntId, Ipa, Span, Width};
use hanok_vm::{CpuRegisters, DeviceRegisters, StackPointer};
#[cfg(target_arch = "aarch64")]
use {
    crate::smmu::{self, Smmu},
    hanok_hal::{Mutex, MutexGuard, Quiet, RefusedAccess},
    hanok_types::VmId,
};

/// The part of a [`Machine`] that differs between the architectures. Its [`CpuRegisters`] are those of the
/// calling CPU.
pub trait Kind: CpuRegisters + DeviceRegisters + Debug + Default + Sync + Sized + 'static {
    /// A vCPU's registers.
    type Context: Context<Machine<Self>> + Send;
    /// Which of the CPUs' optional features there are.
    type Features: Copy + Debug + Sync;

    /// Whether the virtual timer's interrupt is first tried in line with the other interrupts. Where a call
    /// can save registers, a call of its own keeps the timer's registers out of the path of a kick;
    /// elsewhere the call costs the timer more than it saves.
    const TIMER_INLINE: bool;

    /// [`Backend::RECORDS_ENTRIES`].
    const RECORDS_ENTRIES: bool;

    /// [`Backend::trace_exits`].
    fn trace_exits(on: bool);

    // What follows is EL2's, or Hyp mode's, where a kind does not say otherwise.

    /// [`Backend::counter`].
    #[inline(always)]
    fn counter(&self) -> u64 {
        read!("cntpct_el0")
    }

    /// [`Backend::set_timer`].
    fn set_timer(&self, due: Deadline) {
        match due.ticks() {
            Some(at) => {
                write!("cnthp_cval_el2", at);
                write!("cnthp_ctl_el2", 1);
            }
            None => write!("cnthp_ctl_el2", 0),
        }
    }

    /// [`Backend::stop_virtual_timer`].
    fn stop_virtual_timer() {
        write!("cntv_ctl_el0", 0);
    }

    /// [`Backend::enter_empty_space`]; `empty` is [`Machine::empty_space`].
    fn enter_empty_space(empty: u64) {
        // SAFETY: the stage 2 that maps nothing, under the VMID that no VM has.
        unsafe { write_own!("vttbr_el2", empty) };
        sysreg::isb();
    }

    /// [`Backend::invalidate_all_tlbs`].
    fn invalidate_all_tlbs() {
        mmu::forget_all_vmids();
    }

    /// [`Backend::invalidate_range`].
    fn invalidate_range(space: u64, range: Span<Ipa>) {
        mmu::Stage2Tlb(space).invalidate(range);
    }
}

/// The CPUs of the board.
#[derive(Debug)]
pub struct Machine<K: Kind> {
    /// The registers that a guest reaches by exits alone.
    pub registers: K,
    /// How CPUs take their interrupts.
    pub gic: BoardGic,
    /// How each pCPU is named, by its index.
    pub targets: Targets,
    /// The CPUs' optional features (all CPUs of a board are alike).
    pub features: K::Features,
    /// VTCR_EL2, the same for every VM.
    pub vtcr: u64,
    /// VTTBR_EL2 of the stage 2 that maps nothing.
    pub empty_space: u64,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// The firmware, if the board has PSCI.
    pub firmware: Option<Firmware>,
    /// The SMMU in front of devices that a VM has for itself.
    #[cfg(target_arch = "aarch64")]
    pub smmu: Option<Mutex<Smmu>>,
    /// Planted faults that a test must find.
    pub planted: Planted,
}

impl<K: Kind> Machine<K> {
    /// Counts a planted error that came late as reported, and answers `late`.
    pub fn reported(&self, late: LateError) -> LateError {
        if late == LateError::Pending {
            self.planted.late_error_came();
        }
        late
    }
}

#[cfg(target_arch = "aarch64")]
impl<K: Kind> Machine<K> {
    /// The SMMU in front of the VM's devices.
    fn smmu_of(&self, vm: VmId) -> Option<MutexGuard<'_, Smmu>> {
        if !Self::HAS_SMMU {
            return None;
        }
        let smmu = self.smmu.as_ref()?.lock();
        (smmu.owner.vm == vm).then_some(smmu)
    }

    /// Writes zero, which it has after a reset, to the Command register of each function of some devices: it neither
    /// accesses memory nor answers accesses to its own (PCI Local Bus Specification 3.0, 6.2.2).
    fn quiet_some(&self, smmu: &mut Smmu) -> Quiet {
        const AT_ONCE: u32 = 32;
        const COMMAND: u64 = 4;
        for _ in 0..AT_ONCE {
            if smmu.quiet >= smmu::FUNCTIONS {
                return Quiet::All;
            }
            let function = smmu.owner.configuration.get() + u64::from(smmu.quiet << 12);
            smmu.quiet += 1;
            let there = self.access_register(Hpa::new(function), Width::Half, None);
            if there.is_some_and(|vendor| vendor as u16 != u16::MAX) {
                self.access_register(Hpa::new(function + COMMAND), Width::Half, Some(0));
            }
        }
        Quiet::Some
    }
}

impl<K: Kind> Backend for Machine<K> {
    type Context = K::Context;
    type Lists = HostLists;
    type Gic = CpuGic;
    type Memory = GuestRam;
    type Tables = SharedFrames;
    type Line = HostUart;

    const RECORDS_ENTRIES: bool = K::RECORDS_ENTRIES;

    /// The images of 32 bits and for pools have no room for a driver.
    const HAS_SMMU: bool = cfg!(target_arch = "aarch64") && !hanok_config::POOLS;

    #[cfg(target_arch = "aarch64")]
    fn allow_dma(&self, vm: VmId, on: bool) {
        if let Some(mut smmu) = self.smmu_of(vm) {
            smmu.allow(on);
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn quiet_devices(&self, vm: VmId) -> Quiet {
        match self.smmu_of(vm) {
            Some(mut smmu) => self.quiet_some(&mut smmu),
            None => Quiet::All,
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn refused_access(&self) -> Option<RefusedAccess> {
        self.smmu.as_ref()?.lock().refused()
    }

    #[inline(always)]
    fn counter(&self) -> u64 {
        self.registers.counter()
    }

    #[inline(always)]
    fn counter_frequency(&self) -> u64 {
        self.frequency
    }

    fn set_timer(&self, due: Deadline) {
        self.registers.set_timer(due);
    }

    fn stop_virtual_timer(&self) {
        K::stop_virtual_timer();
    }

    #[inline(always)]
    fn kick(&self, cpu: CpuId) {
        if let Some(target) = self.targets.get(cpu.index()) {
            self.gic.kick(target);
        }
    }

    #[inline(always)]
    fn pause(&self) {
        sysreg::pause();
    }

    #[inline(always)]
    fn acknowledge(&self) -> Option<Taken> {
        self.gic.acknowledge()
    }

    #[inline(always)]
    fn drop_priority(&self, taken: Taken) {
        self.gic.drop_priority(taken);
    }

    #[inline(always)]
    fn end(&self, taken: Taken) {
        self.gic.end(taken);
    }

    #[inline(always)]
    fn deactivate(&self, interrupt: IntId) {
        self.gic.deactivate(interrupt);
    }

    #[inline(always)]
    fn lists(&self) -> HostLists {
        self.gic.lists()
    }

    /// It reads ISR_EL1.I, which at EL2 is about physical interrupts, however they are routed (DDI 0487,
    /// D24.2.90; ISR in Hyp mode, DDI 0406C, B4.1.90).
    #[inline(never)]
    fn interrupt_is_pending(&self) -> bool {
        read!("isr_el1") & 1 << 7 != 0
    }

    fn idle(&self) {
        if !self.gic.is_kicked() {
            sysreg::wait_for_interrupt();
        }
    }

    fn enter_empty_space(&self) {
        K::enter_empty_space(self.empty_space);
    }

    fn invalidate_all_tlbs(&self) {
        K::invalidate_all_tlbs();
    }

    fn invalidate_range(&self, space: u64, range: Span<Ipa>) {
        K::invalidate_range(space, range);
    }

    fn invalidate_instruction_caches(&self) {
        bulk::invalidate_instruction_caches();
    }

    #[inline(always)]
    fn instructions(&self) -> u32 {
        pmu::read_instructions()
    }

    fn trace_exits(&self, on: bool) {
        K::trace_exits(on);
    }

    fn power_off(&self) {
        if let Some(firmware) = self.firmware {
            firmware.system_off();
        }
    }
}

/// The images have no sink but the trace in memory.
impl<K: Kind> Sink for Machine<K> {
    #[inline(always)]
    fn record(&self, _: Option<Source>, _: Event) {}
}

impl<K: Kind> DeviceRegisters for Machine<K> {
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
        self.registers.access_register(at, width, value)
    }
}

impl<K: Kind> CpuRegisters for Machine<K> {
    fn id_register(&self, id: SysReg) -> u64 {
        self.planted
            .id(self.registers.id_register(id), || self.counter())
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        self.registers.stack_pointer(which)
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        self.registers.set_stack_pointer(which, value);
    }

    fn set_debug_control(&self, value: u64) {
        self.registers.set_debug_control(value);
    }

    fn debug_register(&self, id: SysReg) -> u64 {
        self.registers.debug_register(id)
    }

    fn set_debug_register(&self, id: SysReg, value: u64) {
        self.registers.set_debug_register(id, value);
    }

    fn clear_debug_registers(&self) {
        self.registers.clear_debug_registers();
    }

    fn vector(&self, index: u8) -> Option<u128> {
        self.registers.vector(index)
    }

    fn set_vector(&self, index: u8, value: u128) {
        self.registers.set_vector(index, value);
    }
}
