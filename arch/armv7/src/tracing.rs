//! The trap entry's calls while exits and entries are traced (`vectors.rs`), in Hyp mode.

use crate::{Vcpu, read};
use hanok_arm_common::tracing::Traced;

/// The guest of `vcpu` was left in the way `kind`. What the entry saves is saved.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_exit(vcpu: *mut Vcpu, kind: u32) -> *mut Vcpu {
    // SAFETY: the trap entry calls this before it calls the handler.
    if let Some(traced) = unsafe { Traced::new(vcpu) } {
        traced.left(kind, traced.vcpu().context.frame[0].into());
    }
    vcpu
}

/// The guest of `vcpu` is entered, at the address in ELR_hyp.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_enter(vcpu: *mut Vcpu) -> *mut Vcpu {
    // SAFETY: the trap entry calls this after the handler has ended.
    if let Some(traced) = unsafe { Traced::new(vcpu) } {
        traced.enters(read!("elr_el2"));
    }
    vcpu
}
