//! What the trap entry records while exits and entries are traced.
//!
//! These are two calls in vectors of their own (`vectors.rs`), which a CPU has while somebody wants to see its exits: the other ones
//! do not even ask. So every exit is recorded, and at its very beginning and end, whichever way it takes.

use crate::{Host, Vcpu, read, vectors};
use hanok_abi::trace::{Kind, class};
use hanok_arm_common::aborts::fault_ipa;
use hanok_arm_common::cpu;
use hanok_decode::Class;
use hanok_hal::Backend;
use hanok_pcpu::Local;
use hanok_trace::Tracer;

/// What this CPU records, and the vCPU that the trap entry has.
///
/// # Safety
/// To be called by the trap entry, with the vCPU that is in this CPU, while no other reference to it or to the CPU's
/// record is in use.
#[inline(always)]
unsafe fn here<'a>(vcpu: *mut Vcpu) -> Option<(&'static Tracer, &'a Local<Host>, &'a Vcpu)> {
    // SAFETY: by this function's contract.
    let cpu = unsafe { cpu::here::<Host>() };
    // SAFETY: as before; the vCPU is none of the record's fields, and its pCPU owns it.
    let vcpu = unsafe { &*vcpu };
    let local = &cpu.pcpu.as_ref()?.local;
    Some((local.tracer()?, local, vcpu))
}

/// The guest of `vcpu` was left. X0 to X18 and X30 are saved. `kind` is the number of [`Kind::Exit`] or of another way of leaving.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_exit(vcpu: *mut Vcpu, kind: u32) -> *mut Vcpu {
    // SAFETY: the trap entry calls this before it calls the handler.
    if let Some((tracer, local, own)) = unsafe { here(vcpu) } {
        let machine = &local.board.machine;
        tracer.left(machine.instructions());
        let (kind, class, why, about) = match kind {
            1 => {
                let esr = read!("esr_el2");
                (Kind::Exit, class::EXITS, esr as u32, about(own, esr))
            }
            2 => {
                let either = class::EXITS | class::INTERRUPTS;
                (Kind::Interrupted, either, machine.gic.pending(), 0)
            }
            _ => (Kind::SystemError, class::EXITS, 0, 0),
        };
        if tracer.classes() & class != 0 {
            let words = [why.into(), read!("elr_el2"), about];
            tracer.write(machine.counter(), (kind, own.source()), words);
        }
    }
    vcpu
}

/// The address of an abort, or the first argument of a call.
#[inline(always)]
fn about(vcpu: &Vcpu, esr: u64) -> u64 {
    const DATA: u64 = Class::DataAbortLower as u64;
    const INSTRUCTION: u64 = Class::InstructionAbortLower as u64;
    match esr >> 26 & 0x3f {
        DATA | INSTRUCTION => fault_ipa(read!("far_el2"), false).get(),
        _ => vcpu.context.regs.x[0],
    }
}

/// The guest of `vcpu` is entered: at once, with the address in ELR_EL2, if `at_once` is not zero, or else with what is saved.
#[unsafe(no_mangle)]
extern "C" fn hanok_trace_enter(vcpu: *mut Vcpu, at_once: u32) -> *mut Vcpu {
    // SAFETY: the trap entry calls this after the handler has ended.
    if let Some((tracer, local, own)) = unsafe { here(vcpu) } {
        let pc = match at_once {
            0 => own.context.regs.pc,
            _ => read!("elr_el2"),
        };
        let machine = &local.board.machine;
        let spent = if local.board.counts_instructions {
            tracer.since_left(machine.instructions())
        } else {
            0
        };
        local.enters(tracer, own, [pc, spent.into()]);
    }
    vcpu
}

/// Lets this CPU's trap entry record exits, or stop recording them.
pub(crate) fn trace_exits(on: bool) {
    vectors::select(on);
}
