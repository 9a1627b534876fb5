//! The part of the backend that differs between the architectures: ID registers, banked stack pointers,
//! debug and FP registers.

use crate::traps::Features;
use crate::{HostContext, device, fp, host_id, read, vectors, write, write_own};
use hanok_arm_common::HostTimer;
use hanok_arm_common::machine::Kind;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_decode::SysReg;
use hanok_types::{Deadline, Hpa, Width};
use hanok_vm::{CpuRegisters, DeviceRegisters, StackPointer};

/// A CPU of ARMv7-A, whose Hyp mode the hypervisor runs in, or whose PL1.
#[derive(Debug, Default)]
pub struct Arm32 {
    /// What the hypervisor has instead of a generic timer, on CPUs without one.
    pub timer: Option<HostTimer>,
}

impl Kind for Arm32 {
    type Context = HostContext;
    type Features = Features;
    const TIMER_INLINE: bool = true;
    const RECORDS_ENTRIES: bool = false;

    /// The trap entry of PL1 records none.
    fn trace_exits(on: bool) {
        if !is_deprivileged() {
            vectors::select(on);
        }
    }

    #[inline(always)]
    fn counter(&self) -> u64 {
        match &self.timer {
            None => read!("cntpct_el0"),
            Some(timer) => timer.counter(),
        }
    }

    fn set_timer(&self, due: Deadline) {
        if is_deprivileged() {
            return self.set_timer_at_pl1(due);
        }
        match due.ticks() {
            Some(at) => {
                write!("cnthp_cval_el2", at);
                write!("cnthp_ctl_el2", 1);
            }
            None => write!("cnthp_ctl_el2", 0),
        }
    }

    /// At PL1 guests' timers are emulated.
    fn stop_virtual_timer() {
        if !is_deprivileged() {
            write!("cntv_ctl_el0", 0);
        }
    }

    /// At PL1 no guest's memory is in the CPU's translation while the hypervisor runs.
    fn enter_empty_space(empty: u64) {
        if is_deprivileged() {
            return;
        }
        // SAFETY: the stage 2 that maps nothing, under the VMID that no VM has.
        unsafe { write_own!("vttbr_el2", empty) };
        hanok_arm_common::sysreg::isb();
    }
}

impl Arm32 {
    /// At PL1 the hypervisor's timer is PL1's physical one (DDI 0406C, chapter B8), or the board's own.
    #[cold]
    #[inline(never)]
    fn set_timer_at_pl1(&self, due: Deadline) {
        if let Some(timer) = &self.timer {
            return timer.set(due);
        }
        match due.ticks() {
            Some(at) => {
                write!("cntp_cval_el0", at);
                write!("cntp_ctl_el0", 1);
            }
            None => write!("cntp_ctl_el0", 0),
        }
    }
}

impl DeviceRegisters for Arm32 {
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
        // SAFETY: the core asks only for registers of a device that the guest has for itself, aligned, and
        // `hypervisor/src/layout.rs`, `map_registers`, has mapped these.
        unsafe { device::access(at, width, value) }
    }
}

impl CpuRegisters for Arm32 {
    fn id_register(&self, id: SysReg) -> u64 {
        host_id::read(id)
    }

    /// These are an AArch64 guest's stack pointers, which are never read or set for an AArch32 guest.
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
