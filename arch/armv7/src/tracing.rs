//! The trap entry's calls while exits and entries are traced (`vectors.rs`), in Hyp mode. R0 to R12 and
//! LR_usr are saved.

use crate::{Vcpu, read};
use hanok_arm_common::tracing::Traced as TracedOf;

type Traced<'a> = TracedOf<'a, crate::backend::Arm32>;

/// Records by `how` what happens to `vcpu`.
///
/// # Safety
/// As for [`TracedOf::new`].
#[inline(always)]
unsafe fn traced(vcpu: *mut Vcpu, how: impl FnOnce(Traced<'_>)) {
    // SAFETY: by this function's contract.
    how(unsafe { Traced::new(vcpu) });
}

/// Its guest was left by a synchronous exception.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_sync(vcpu: *mut Vcpu) {
    // SAFETY: the trap entry calls this before it calls the handler.
    unsafe {
        traced(vcpu, |traced| {
            traced.excepted(traced.vcpu().context.frame[0].into())
        })
    }
}

/// Its guest was left by an interrupt.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_irq(vcpu: *mut Vcpu) {
    // SAFETY: as above.
    unsafe { traced(vcpu, |traced| traced.interrupted()) }
}

/// Its guest is entered with the address in ELR_hyp.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_enter(vcpu: *mut Vcpu) {
    // SAFETY: the trap entry calls this after the handler has ended.
    unsafe { traced(vcpu, |traced| traced.enters(read!("elr_el2"))) }
}
