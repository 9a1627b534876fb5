//! A pCPU: what TPIDR_EL2 points at.

use crate::board::Board;
use crate::vcpu::Vcpu;
use hanok_types::CpuId;

/// One pCPU's own data. Touched by that pCPU alone.
#[allow(missing_debug_implementations)]
#[repr(C)]
pub struct Cpu {
    /// Top of the stack for exceptions from EL2 itself.
    pub emergency_stack: u64,
    /// Top of the normal stack.
    pub stack: u64,
    /// Which pCPU.
    pub id: CpuId,
    /// What all share; `None` while starting.
    pub board: Option<&'static Board>,
    /// The vCPU that has this pCPU, if any.
    pub vcpu: Option<*mut Vcpu>,
}

/// Makes `cpu` this pCPU's own.
///
/// # Safety
/// `cpu` lives for ever and is no other pCPU's.
pub unsafe fn install(cpu: *mut Cpu) {
    crate::write!("tpidr_el2", cpu as u64);
}

/// This pCPU's own data; null before [`install`].
pub fn current() -> *mut Cpu {
    crate::read!("tpidr_el2") as *mut Cpu
}
