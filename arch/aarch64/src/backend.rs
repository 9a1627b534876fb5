//! The part of the backend that differs between the architectures: ID registers, banked stack pointers,
//! debug and FP registers.

use crate::traps::Features;
use crate::{HostContext, debug, device, fp, host_id, read, vectors, write};
use hanok_arm_common::machine::Kind;
use hanok_decode::SysReg;
use hanok_types::{Hpa, Width};
use hanok_vm::{CpuRegisters, DeviceRegisters, StackPointer};

/// EL2 of Armv8-A.
#[derive(Clone, Copy, Debug, Default)]
pub struct El2;

impl Kind for El2 {
    type Context = HostContext;
    type Features = Features;
    const TIMER_INLINE: bool = false;
    const RECORDS_ENTRIES: bool = true;

    fn trace_exits(on: bool) {
        vectors::select(on);
    }
}

impl DeviceRegisters for El2 {
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
        // SAFETY: the core asks only for registers of a device that the guest has for itself, aligned, and
        // `hypervisor/src/layout.rs`, `map_registers`, has mapped these.
        unsafe { device::access(at, width, value) }
    }
}

impl CpuRegisters for El2 {
    fn id_register(&self, id: SysReg) -> u64 {
        host_id::read(id)
    }

    fn stack_pointer(&self, which: StackPointer) -> u64 {
        match which {
            StackPointer::El0 => read!("sp_el0"),
            StackPointer::El1 => read!("sp_el1"),
        }
    }

    fn set_stack_pointer(&self, which: StackPointer, value: u64) {
        // EL2 runs on SP_EL2, so SP_EL0 and SP_EL1 both hold the guest's values.
        match which {
            StackPointer::El0 => write!("sp_el0", value),
            StackPointer::El1 => write!("sp_el1", value),
        }
    }

    fn set_debug_control(&self, value: u64) {
        debug::set_control(value);
    }

    fn debug_register(&self, id: SysReg) -> u64 {
        debug::register(id)
    }

    fn set_debug_register(&self, id: SysReg, value: u64) {
        debug::set_register(id, value);
    }

    fn clear_debug_registers(&self) {
        debug::clear();
    }

    fn vector(&self, index: u8) -> Option<u128> {
        fp::vector(index)
    }

    fn set_vector(&self, index: u8, value: u128) {
        fp::set_vector(index, value);
    }
}
