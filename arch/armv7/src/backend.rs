//! The backend, as the executive knows it.

use crate::traps::Features;
use crate::{HostContext, fp, host_id, read, write};
use core::sync::atomic::{AtomicBool, Ordering};
use hanok_arm_common::host_gic::{BoardGic, CpuGic, Targets};
use hanok_arm_common::lists::HostLists;
use hanok_arm_common::ram::GuestRam;
use hanok_arm_common::{Firmware, HostUart, bulk, mmu, pmu, sysreg};
use hanok_decode::SysReg;
use hanok_hal::{Backend, LateError, Taken};
use hanok_types::{CpuId, Deadline, IntId};
use hanok_vm::{CpuRegisters, StackPointer};

/// The CPUs of the board.
#[derive(Debug)]
pub struct Hyp {
    /// How CPUs take their interrupts.
    pub gic: BoardGic,
    /// How each pCPU is named, by its index.
    pub targets: Targets,
    /// The CPUs' optional features (all CPUs of a board are alike).
    pub features: Features,
    /// VTCR, the same for every VM.
    pub vtcr: u64,
    /// VTTBR of the stage 2 that maps nothing.
    pub empty_space: u64,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// The firmware, if the board has PSCI.
    pub firmware: Option<Firmware>,
    /// A planted error, for a test that must see whose it is: the next vCPU that makes room for
    /// another one leaves as if a store of its had failed.
    pub late_error: AtomicBool,
    /// A planted fault, for a test that must find it: ID registers say something else now and
    /// then.
    pub unsteady_ids: bool,
}

impl Hyp {
    /// Whether [`Self::late_error`] is still to come.
    pub(crate) fn late_error_is_planted(&self) -> bool {
        self.late_error.load(Ordering::Relaxed)
    }

    /// What is reported of an error that came late, if `seen`.
    pub(crate) fn reported(&self, seen: bool) -> LateError {
        if seen {
            self.late_error.store(false, Ordering::Relaxed);
            LateError::Pending
        } else {
            LateError::None
        }
    }
}

impl Backend for Hyp {
    type Context = HostContext;
    type Lists = HostLists;
    type Gic = CpuGic;
    type Memory = GuestRam;
    type Line = HostUart;

    #[inline(always)]
    fn counter(&self) -> u64 {
        read!("cntpct_el0")
    }

    #[inline(always)]
    fn counter_frequency(&self) -> u64 {
        self.frequency
    }

    fn set_timer(&self, due: Deadline) {
        match due.ticks() {
            Some(at) => {
                write!("cnthp_cval_el2", at);
                write!("cnthp_ctl_el2", 1);
            }
            None => write!("cnthp_ctl_el2", 0),
        }
    }

    fn stop_virtual_timer(&self) {
        write!("cntv_ctl_el0", 0);
    }

    #[inline(always)]
    fn kick(&self, cpu: CpuId) {
        if let Some(target) = self.targets.get(cpu.index()) {
            self.gic.kick(target);
        }
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

    /// ISR_EL1.I (DDI 0487, D24.2.90; ISR in Hyp mode, DDI 0406C, B4.1.90) is the physical
    /// interrupt's here, whatever is routed.
    #[inline(never)]
    fn interrupt_is_pending(&self) -> bool {
        read!("isr_el1") & 1 << 7 != 0
    }

    fn idle(&self) {
        sysreg::wait_for_interrupt();
    }

    fn enter_empty_space(&self) {
        write!("vttbr_el2", self.empty_space);
        sysreg::isb();
    }

    fn forget_all_spaces(&self) {
        mmu::forget_all_vmids();
    }

    fn forget_instructions(&self) {
        bulk::forget_instructions();
    }

    #[inline(always)]
    fn instructions(&self) -> u32 {
        pmu::read_instructions()
    }

    fn power_off(&self) {
        if let Some(firmware) = self.firmware {
            firmware.system_off();
        }
    }
}

impl CpuRegisters for Hyp {
    fn id_register(&self, id: SysReg) -> u64 {
        let value = host_id::read(id);
        if self.unsteady_ids && self.counter().is_multiple_of(8) {
            !value
        } else {
            value
        }
    }

    /// An AArch64 guest's stack pointers: nothing asks for them of an AArch32 guest.
    fn stack_pointer(&self, _which: StackPointer) -> u64 {
        0
    }

    fn set_stack_pointer(&self, _which: StackPointer, _value: u64) {}

    // Self-hosted debug, of which an AArch32 guest has none (`core/vm/src/aarch32.rs`).
    fn set_debug_control(&self, _value: u64) {}

    fn debug_register(&self, _id: SysReg) -> u64 {
        0
    }

    fn set_debug_register(&self, _id: SysReg, _value: u64) {}

    fn clear_debug_registers(&self) {}

    fn vector(&self, index: u8) -> Option<u128> {
        fp::vector(index)
    }

    fn set_vector(&self, index: u8, value: u128) {
        fp::set_vector(index, value);
    }
}
