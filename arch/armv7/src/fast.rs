//! Frequent exits, served without the registers of the guest's other modes.
//!
//! The trap entry saves the trap frame alone (R0 to R12 and LR_usr) and calls here; ELR_hyp,
//! SPSR_hyp and all banked registers still hold the guest's values. An exit that can be handled with so
//! few registers is handled here, by the core's own code, and the guest goes on. Of any other exit nothing
//! is done here, and the slow path handles it (`exits.rs`). The fast path handles:
//!
//! - a hypercall with a constant answer, and the one that lets others run;
//! - a load or store of one register to a device, of little-endian data and outside an IT block;
//! - the sending of an SGI to one other vCPU, by GICD_SGIR, and a load of what the distributor's
//!   own registers say;
//! - the virtual timer's interrupt, and the report of its end;
//! - an interrupt of a device that its VM has for itself;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::exits::yields;
use crate::{Host, Vcpu, read, write_own};
use hanok_arm_common::aborts::fault_ipa;
use hanok_arm_common::exited::Fast;
use hanok_arm_common::interrupted::interrupt;
use hanok_arm_common::lists::HostLists;
use hanok_decode::{Esr, Frequent, Psr, mode, register_of_word_load, register_of_word_store};
use hanok_pcpu::guest;
use hanok_types::{GicVersion, Regs};
use hanok_vgic::Sgir;
use hanok_vm::{Attempt, Cause, MmioAccess, constant_answer, yield_answer};

/// This CPU's own record, beside its vCPUs.
type Local = hanok_pcpu::Local<Host>;

/// The exit that the trap entry has taken.
type Exited = hanok_arm_common::exited::Exited<Host>;

/// HVC with this HSR.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_hypercall(mut exited: Exited, esr: u32) -> Option<Exited> {
    let function = exited.with(|vcpu, _| vcpu.context.frame[0]);
    let Some(constant) = constant_answer(function) else {
        return match yield_answer(function) {
            Some(answer) => yields(exited, esr.into(), answer),
            None => exited.not_done(),
        };
    };
    exited.handle(|vcpu, local| {
        // HVC's return address is already that of the next instruction.
        vcpu.context.frame[0] = constant as u32;
        local.exited(vcpu, esr.into(), read!("elr_el2"));
        local.handled(vcpu, Cause::Hypercall);
        Fast::Done
    })
}

/// The place of a register in the frame, in the mode of `psr`; `None` if it is not in the frame.
#[inline(always)]
fn place(register: u8, psr: u64) -> Option<usize> {
    let mode = Psr::from_bits(psr as u32).mode();
    match register {
        0..=7 => Some(usize::from(register)),
        8..=12 if mode != mode::FIQ => Some(usize::from(register)),
        14 if mode == mode::USER || mode == mode::SYSTEM => Some(13),
        _ => None,
    }
}

/// A data abort with this HSR, which neither [`hanok_fast_load`] nor [`hanok_fast_store`] handles.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_device(exited: Exited, esr: u32) -> Option<Exited> {
    exited.handle(|vcpu, local| access_device(vcpu, local, esr))
}

#[inline(always)]
fn access_device(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let Some(Frequent::Access { access, write }) = Frequent::decode(esr.into()) else {
        return Fast::Slow;
    };
    let psr = read!("spsr_el2");
    if !Regs::is_plain_a32(psr) {
        return Fast::Slow;
    }
    let Some(place) = place(access.register, psr) else {
        return Fast::Slow;
    };
    if write {
        let value = vcpu.context.frame.get(place).copied().unwrap_or(0);
        vcpu.context.regs.set(access.register, value.into());
    }
    let wanted = MmioAccess {
        width: access.width,
        register: access.register,
        sign_extend: access.sign_extend,
        wide: false,
    };
    let ipa = fault_ipa(read!("far_el2"), false);
    let board = local.board;
    // SAFETY: the vectors of Hyp mode alone call this.
    let (_, lists) = unsafe { board.machine.gic.at_hyp() };
    let lists = &mut HostLists::V2(lists);
    if guest(vcpu, board, lists)
        .by_register(ipa, write, wanted)
        .is_err()
    {
        return Fast::Slow;
    }
    if !write && let Some(slot) = vcpu.context.frame.get_mut(place) {
        *slot = vcpu.context.regs.get(access.register) as u32;
    }
    vcpu.rearm(local);
    passed(vcpu, local, esr)
}

/// A load from the distributor with this HSR. Handles a word whose value does not depend on list
/// registers.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_load(exited: Exited, esr: u32) -> Option<Exited> {
    let load = |vcpu: &mut Vcpu, local: &mut Local| load(vcpu, local, esr);
    exited.handle_or(load, |exited| hanok_fast_device(exited, esr))
}

#[inline(always)]
fn load(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let value = vcpu.unit.vm.distributor_word(vcpu.core.id, offset());
    let place = register_of_word_load(esr.into()).and_then(plain_place);
    let to = place.and_then(|place| vcpu.context.frame.get_mut(place));
    let (Some(value), Some(to)) = (value, to) else {
        return Fast::Slow;
    };
    *to = value;
    passed(vcpu, local, esr)
}

/// A store to the distributor with this HSR. Handles the sending of an SGI to one other vCPU.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_store(exited: Exited, esr: u32) -> Option<Exited> {
    let store = |vcpu: &mut Vcpu, local: &mut Local| store(vcpu, local, esr);
    exited.handle_or(store, |exited| hanok_fast_device(exited, esr))
}

#[inline(always)]
fn store(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let register = register_of_word_store(esr.into()).filter(|_| offset() == Sgir::OFFSET);
    let place = register.and_then(plain_place);
    let Some(value) = place.and_then(|place| vcpu.context.frame.get(place)) else {
        return Fast::Slow;
    };
    // No CPU of ARMv7 has a GICv3's registers.
    let (vm, version) = (&vcpu.unit.vm, GicVersion::V2);
    let posted = vm.post_sgir(local.board, version, vcpu.core.id, *value);
    if posted == Attempt::Untouched {
        return Fast::Slow;
    }
    passed(vcpu, local, esr)
}

/// The offset in its page of the address that a load or store went to.
#[inline(always)]
fn offset() -> u64 {
    read!("far_el2") & 0xfff
}

/// [`place`] in the mode that the guest is in; `None` where its state is not a plain one.
#[inline(always)]
fn plain_place(register: u8) -> Option<usize> {
    let psr = read!("spsr_el2");
    Regs::is_plain_a32(psr)
        .then(|| place(register, psr))
        .flatten()
}

/// Ends the exit of a load or store that was handled.
#[inline(always)]
fn passed(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let pc = advance(esr.into());
    local.exited(vcpu, esr.into(), pc);
    local.handled(vcpu, Cause::Device);
    Fast::Done
}

/// Advances the guest, which is in a plain state, past the instruction that made the exit. Returns the
/// instruction's address.
#[inline(always)]
fn advance(esr: u64) -> u64 {
    let pc = read!("elr_el2");
    let next = pc.wrapping_add(Esr::from_bits(esr).instruction_length());
    // SAFETY: used by the return to the guest alone, whose program counter it is.
    unsafe { write_own!("elr_el2", next) };
    pc
}

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(mut exited: Exited) -> Option<Exited> {
    // SAFETY: the vectors of Hyp mode alone call this.
    let (gic, lists) = exited.with(|_, local| unsafe { local.board.machine.gic.at_hyp() });
    interrupt(exited, gic, &lists)
}
