//! A pCPU's record: what TPIDR_EL2 points at, and what the trap entry knows by its place.

use crate::{read, write};
use core::ptr;
use hanok_hal::{Backend, Context};
use hanok_pcpu::{After, Host, Local, Pcpu, Vcpu};
use hanok_types::CpuId;
use hanok_vm::Cause;

/// One pCPU's own data. Touched by that pCPU alone.
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
    /// Which pCPU.
    pub id: CpuId,
    /// The executive; `None` while the CPU starts.
    pub pcpu: Option<Pcpu<B>>,
}

impl<B: Backend> Cpu<B> {
    /// A pCPU that does not run guests yet, by the tops of its normal and its emergency stack.
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

    /// Ends an exit, and gives the trap entry the vCPU to enter. What was done since the last exit is
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

    /// The vCPU to enter, ready for it. The one place where its pointer is made.
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
    write!("tpidr_el2", cpu as u64);
}

/// This pCPU's own data; null before [`install`].
#[inline(always)]
pub fn current<B: Backend>() -> *mut Cpu<B> {
    read!("tpidr_el2") as *mut Cpu<B>
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

/// The vCPU that has just left its guest, and its pCPU's record: two distinct things, of which the
/// record's list of vCPUs is not reached by the second.
///
/// # Safety
/// As for [`here`]; and `vcpu` is what [`Cpu::finish`] or [`Cpu::begin`] gave last.
#[inline(always)]
pub unsafe fn arrived<'a, B: Host>(vcpu: *mut Vcpu<B>) -> (&'a mut Vcpu<B>, &'a mut Local<B>) {
    let cpu: *mut Cpu<B> = current();
    // SAFETY: by this function's contract the record is there and nobody else's; that a guest ran
    // shows that the executive is there.
    let local = unsafe {
        let pcpu = &mut (*cpu).pcpu;
        debug_assert!(pcpu.is_some());
        &mut pcpu.as_mut().unwrap_unchecked().local
    };
    // SAFETY: by this function's contract; the vCPU is no part of the record, and the list that
    // refers to it is not used while the result is.
    (unsafe { &mut *vcpu }, local)
}

/// Whether an exit is done with on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fast {
    /// It is, and the guest goes on.
    Done,
    /// Nothing has been done, but that an interrupt was taken: the slow path is to handle it.
    Slow,
}

/// Handles an exit of `vcpu` on the fast path. What the trap entry is told: the vCPU if the exit is
/// done with, and else what `slow` says.
///
/// # Safety
/// As for [`arrived`].
#[inline(always)]
pub unsafe fn handle_fast<B: Host>(
    vcpu: *mut Vcpu<B>,
    handler: impl FnOnce(&mut Vcpu<B>, &mut Local<B>) -> Fast,
    slow: impl FnOnce() -> *mut Vcpu<B>,
) -> *mut Vcpu<B> {
    // SAFETY: by this function's contract.
    let (ours, local) = unsafe { arrived(vcpu) };
    match handler(ours, local) {
        Fast::Done => vcpu,
        Fast::Slow => slow(),
    }
}

/// Null, what the trap entry is told of an exit that is not done with. The compiler does not see its
/// value: it would make it beforehand, in a register of its own, and then move both answers about.
#[inline(always)]
pub fn not_done<T>() -> *mut T {
    let null: *mut T;
    // SAFETY: an instruction that sets one register.
    unsafe {
        core::arch::asm!("mov {}, #0", out(reg) null, options(nomem, nostack, preserves_flags))
    };
    null
}
