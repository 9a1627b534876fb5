//! A pCPU's record, at which TPIDR_EL2 points; at PL1 of a 32-bit CPU TPIDRPRW does. The trap entry knows
//! the offsets of its first fields.

#[cfg(target_arch = "arm")]
use crate::privilege::is_deprivileged;
use crate::{sysreg, write_own};
use core::mem::offset_of;
use core::ptr;
use hanok_hal::{Backend, Context};
use hanok_pcpu::{After, Host, Pcpu, Vcpu};
use hanok_trace::Tracer;
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
    /// What its trap entry records exits with, if the board has a trace.
    pub tracer: Option<&'static Tracer>,
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
            tracer: None,
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
        self.handle(|_| (cause, after))
    }

    /// Handles an exit, as [`Self::finish`] ends it.
    #[inline(always)]
    pub fn handle(&mut self, handler: impl FnOnce(&mut Pcpu<B>) -> (Cause, After)) -> *mut Vcpu<B> {
        let Some(pcpu) = &mut self.pcpu else {
            unstarted()
        };
        let (cause, after) = handler(pcpu);
        pcpu.finish(cause, after);
        Self::enter(pcpu, &mut self.current)
    }

    /// Schedules for the first time, and gives the vCPU to enter.
    pub fn begin(&mut self) -> *mut Vcpu<B> {
        let Some(pcpu) = &mut self.pcpu else {
            unstarted()
        };
        pcpu.schedule();
        Self::enter(pcpu, &mut self.current)
    }

    /// Prepares the resident vCPU to be entered; if there is none, it schedules first. This is the only
    /// place where a vCPU's pointer is made; the trap entry finds it in `current`.
    #[inline(always)]
    fn enter(pcpu: &mut Pcpu<B>, current: &mut *mut Vcpu<B>) -> *mut Vcpu<B> {
        loop {
            if let Some(vcpu) = pcpu.resident() {
                vcpu.context.depart();
                let vcpu = ptr::from_mut(vcpu);
                *current = vcpu;
                return vcpu;
            }
            pcpu.schedule();
        }
    }
}

#[cold]
#[inline(never)]
fn unstarted() -> ! {
    panic!("a guest's exit on a CPU that has not started")
}

/// The first fields of a record, which have the same places whatever the backend is.
#[repr(C)]
struct Head {
    stacks: [u64; 2],
    current: *mut u8,
    id: CpuId,
}

/// Makes `cpu` this pCPU's own.
///
/// # Safety
/// `cpu` lives for ever and is no other pCPU's.
pub unsafe fn install<B: Backend>(cpu: *mut Cpu<B>) {
    const { assert!(offset_of!(Cpu<B>, id) == offset_of!(Head, id)) };
    #[cfg(target_arch = "arm")]
    if is_deprivileged() {
        // SAFETY: by this function's contract.
        unsafe { write_own!("tpidr_pl1", cpu as u64) };
        return;
    }
    // SAFETY: by this function's contract.
    unsafe { write_own!("tpidr_el2", cpu as u64) };
}

/// The address of this pCPU's own data, whatever level the hypervisor runs at.
#[inline(always)]
fn own_pointer() -> usize {
    #[cfg(target_arch = "arm")]
    if is_deprivileged() {
        return sysreg::own_pointer_at_pl1();
    }
    sysreg::own_pointer()
}

/// This pCPU's own data; null before [`install`].
#[inline(always)]
pub fn current<B: Backend>() -> *mut Cpu<B> {
    own_pointer() as *mut Cpu<B>
}

/// The same, at an exit that EL2 or Hyp mode has taken, which need not ask for the level.
#[inline(always)]
pub fn current_at_el2<B: Backend>() -> *mut Cpu<B> {
    sysreg::own_pointer() as *mut Cpu<B>
}

/// This pCPU's number; that of the boot CPU before [`install`].
#[cfg(target_arch = "arm")]
pub fn own_id() -> CpuId {
    let head = own_pointer() as *const Head;
    // SAFETY: null or an installed record, which begins with these fields and lives for ever; its number
    // never changes.
    unsafe { head.as_ref() }.map_or(CpuId::new(0), |head| head.id)
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

/// [`here`] at an exit that EL2 or Hyp mode has taken.
///
/// # Safety
/// As for [`here`].
#[inline(always)]
pub unsafe fn here_at_el2<'a, B: Backend>() -> &'a mut Cpu<B> {
    // SAFETY: by this function's contract.
    unsafe { &mut *current_at_el2() }
}
