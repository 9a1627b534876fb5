//! A pCPU's record, at which TPIDR_EL2 points; the trap entry knows the offsets of its first fields.

use crate::{sysreg, write_own};
use core::ptr;
use hanok_hal::{Backend, Context};
use hanok_pcpu::{After, Host, Pcpu, Vcpu};
use hanok_types::CpuId;
use hanok_vm::Cause;

/// One pCPU's own data. Only that pCPU accesses it.
#[allow(missing_debug_implementations)]
#[repr(C)]
pub struct Cpu<B: Backend> {
    /// Top of the stack for exceptions from EL2 itself.
    pub emergency_stack: u64,
    /// Top of the normal stack.
    pub stack: u64,
    /// The vCPU whose guest runs, or ran until the exit that is being handled; null before the first
    /// has run.
    pub current: *mut Vcpu<B>,
    /// The pCPU's number.
    pub id: CpuId,
    /// The executive; `None` while the CPU starts.
    pub pcpu: Option<Pcpu<B>>,
}

impl<B: Backend> Cpu<B> {
    /// The record of a pCPU that does not run guests yet, with the tops of its normal and its emergency stack.
    pub const fn new(id: CpuId, stacks: (u64, u64)) -> Self {
        let (stack, emergency_stack) = stacks;
        Self {
            emergency_stack,
            stack,
            current: ptr::null_mut(),
            id,
            pcpu: None,
        }
    }
}

impl<B: Host> Cpu<B> {
    /// The executive, which a CPU that runs guests has.
    #[inline(always)]
    pub fn pcpu(&mut self) -> &mut Pcpu<B> {
        match &mut self.pcpu {
            Some(pcpu) => pcpu,
            None => unstarted(),
        }
    }

    /// Ends an exit, and gives the trap entry the vCPU to enter. The instructions since the last exit are
    /// charged to `cause`.
    #[inline(always)]
    pub fn finish(&mut self, cause: Cause, after: After) -> *mut Vcpu<B> {
        self.pcpu().finish(cause, after);
        self.enter()
    }

    /// Schedules for the first time, and gives the vCPU to enter.
    pub fn begin(&mut self) -> *mut Vcpu<B> {
        self.pcpu().schedule();
        self.enter()
    }

    /// Prepares the resident vCPU to be entered; if there is none, it schedules first. This is the only
    /// place where a vCPU's pointer is made.
    #[inline(always)]
    fn enter(&mut self) -> *mut Vcpu<B> {
        loop {
            if let Some(vcpu) = self.pcpu().resident() {
                vcpu.context.depart();
                let vcpu = ptr::from_mut(vcpu);
                self.current = vcpu;
                return vcpu;
            }
            self.pcpu().schedule();
        }
    }
}

#[cold]
#[inline(never)]
fn unstarted() -> ! {
    panic!("a guest's exit on a CPU that has not started")
}

/// Makes `cpu` this pCPU's own.
///
/// # Safety
/// `cpu` lives for ever and is no other pCPU's.
pub unsafe fn install<B: Backend>(cpu: *mut Cpu<B>) {
    // SAFETY: by this function's contract.
    unsafe { write_own!("tpidr_el2", cpu as u64) };
}

/// This pCPU's own data; null before [`install`].
#[inline(always)]
pub fn current<B: Backend>() -> *mut Cpu<B> {
    sysreg::own_pointer() as *mut Cpu<B>
}

/// This pCPU's own data, at an exit.
///
/// # Safety
/// The CPU has its record installed, for ever, and no reference to it or to one of its vCPUs is in
/// use while the result is: the hypervisor keeps none across a guest's run, and the trap entry calls
/// one handler at a time.
#[inline(always)]
pub unsafe fn here<'a, B: Backend>() -> &'a mut Cpu<B> {
    // SAFETY: by this function's contract.
    unsafe { &mut *current() }
}
