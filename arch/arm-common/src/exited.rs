//! An exit on the fast path: the vCPU that has just left its guest, and its pCPU's record.

use crate::cpu::{self, Cpu};
use core::arch::asm;
use core::ptr::NonNull;
use hanok_pcpu::{Host, Local, Vcpu};

/// The exit that the trap entry has just taken. The entry passes the vCPU's pointer, and the handler's
/// answer is the outcome of the exit: the same pointer if the exit is handled and the guest goes on, and
/// null if the slow path must handle it. In Rust the answer is `Option<Exited>`.
///
/// The trap entry alone makes one, at each exit, with the vCPU that it entered last; nothing can copy it.
/// So its holder has exclusive access to this CPU's record and to the vCPU: the hypervisor keeps no
/// reference to either across a guest's run, and the entry calls one handler at a time.
#[derive(Debug)]
#[repr(transparent)]
pub struct Exited<B: Host>(NonNull<Vcpu<B>>);

/// Whether an exit is handled on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Fast {
    /// It is, and the guest goes on.
    Done,
    /// Nothing has been done, except that an interrupt may have been acknowledged: the slow path must
    /// handle the exit.
    Slow,
}

impl<B: Host> Exited<B> {
    /// Calls `look` with the vCPU and its pCPU's record.
    #[inline(always)]
    pub fn with<R>(&mut self, look: impl FnOnce(&mut Vcpu<B>, &mut Local<B>) -> R) -> R {
        let cpu: *mut Cpu<B> = cpu::current_at_el2();
        // SAFETY: whoever has an `Exited` is alone with the record; that a guest ran shows that the
        // executive is there.
        let local = unsafe {
            let pcpu = &mut (*cpu).pcpu;
            debug_assert!(pcpu.is_some());
            &mut pcpu.as_mut().unwrap_unchecked().local
        };
        // SAFETY: the vCPU is no part of `local`, and the list of vCPUs that refers to it is not
        // reached by `local`.
        look(unsafe { self.0.as_mut() }, local)
    }

    /// Handles the exit by `handler`, or else by `slow`.
    #[inline(always)]
    pub fn handle_or(
        mut self,
        handler: impl FnOnce(&mut Vcpu<B>, &mut Local<B>) -> Fast,
        slow: impl FnOnce(Self) -> Option<Self>,
    ) -> Option<Self> {
        match self.with(handler) {
            Fast::Done => Some(self),
            Fast::Slow => slow(self),
        }
    }

    /// Handles the exit by `handler`, or leaves it to the slow path.
    #[inline(always)]
    pub fn handle(self, handler: impl FnOnce(&mut Vcpu<B>, &mut Local<B>) -> Fast) -> Option<Self> {
        self.handle_or(handler, Self::not_done)
    }

    /// Leaves the exit to the slow path. The answer's value, null, is hidden from the compiler, which would
    /// otherwise load the constant beforehand, into a register of its own, and then move both answers
    /// between registers.
    #[inline(always)]
    pub fn not_done(self) -> Option<Self> {
        let null: *mut Vcpu<B>;
        // SAFETY: an instruction that sets one register.
        unsafe { asm!("mov {}, #0", out(reg) null, options(nomem, nostack, preserves_flags)) };
        NonNull::new(null).map(Self)
    }

    /// The answer to the trap entry if a handler of the slow path has already ended the exit, and the vCPU
    /// to enter is `vcpu`.
    ///
    /// # Safety
    /// [`Cpu::finish`] gave `vcpu`, and the trap entry gets the answer next.
    #[inline(always)]
    pub unsafe fn ended(vcpu: *mut Vcpu<B>) -> Option<Self> {
        NonNull::new(vcpu).map(Self)
    }
}
