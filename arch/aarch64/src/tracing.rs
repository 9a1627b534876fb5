//! The trap entry's calls while exits and entries are traced (`vectors.rs`).

use crate::{Vcpu, read};
use hanok_arm_common::tracing::Traced;

/// The guest of `vcpu` was left in the way `kind`. X0 to X18 and X30 are saved.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_exit(vcpu: *mut Vcpu, kind: u32) -> *mut Vcpu {
    // SAFETY: the trap entry calls this before it calls the handler.
    if let Some(traced) = unsafe { Traced::new(vcpu) } {
        traced.left(kind, traced.vcpu().context.regs.x[0]);
    }
    vcpu
}

/// The guest of `vcpu` is entered: at once, with the address in ELR_EL2, if `at_once` is not zero, or else with what is saved.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_enter(vcpu: *mut Vcpu, at_once: u32) -> *mut Vcpu {
    // SAFETY: the trap entry calls this after the handler has ended.
    if let Some(traced) = unsafe { Traced::new(vcpu) } {
        traced.enters(match at_once {
            0 => traced.vcpu().context.regs.pc,
            _ => read!("elr_el2"),
        });
    }
    vcpu
}
