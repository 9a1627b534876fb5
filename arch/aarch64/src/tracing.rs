//! The trap entry's calls while exits and entries are traced (`vectors.rs`). X0 to X18 and X30 are saved.

use crate::{Vcpu, read};
use hanok_arm_common::tracing::Traced as TracedOf;

type Traced<'a> = TracedOf<'a, crate::backend::El2>;

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
            traced.excepted(traced.vcpu().context.regs.x[0])
        })
    }
}

/// Its guest was left by an interrupt.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_irq(vcpu: *mut Vcpu) {
    // SAFETY: as above.
    unsafe { traced(vcpu, |traced| traced.interrupted()) }
}

/// Its guest was left by an SError.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_serror(vcpu: *mut Vcpu) {
    // SAFETY: as above.
    unsafe { traced(vcpu, |traced| traced.disturbed()) }
}

/// Its guest is entered with the address in ELR_EL2.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_enter(vcpu: *mut Vcpu) {
    // SAFETY: the trap entry calls this after the handler has ended.
    unsafe { traced(vcpu, |traced| traced.enters(read!("elr_el2"))) }
}

/// Its guest is entered with the address that is saved.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_return(vcpu: *mut Vcpu) {
    // SAFETY: as above.
    unsafe { traced(vcpu, |traced| traced.enters(traced.vcpu().context.regs.pc)) }
}
