//! The part of the backend that differs between the architectures: ID registers, banked stack pointers,
//! debug and FP registers.

use crate::traps::Features;
use crate::{HostContext, fp, host_id};
use hanok_arm_common::machine::Kind;
use hanok_decode::SysReg;
use hanok_vm::{CpuRegisters, StackPointer};

/// Hyp mode of ARMv7-A.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hyp;

impl Kind for Hyp {
    type Context = HostContext;
    type Features = Features;
    const TIMER_INLINE: bool = true;
}

impl CpuRegisters for Hyp {
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
