//! Frequent exits, served without the registers of the guest's other modes.
//!
//! What can be finished with the trap frame alone (R0 to R12 and LR_usr) is, by the core's own
//! code, and the guest goes on; ELR_hyp, SPSR_hyp and all banked registers are still the guest's.
//! Of everything else nothing is done, and it takes the long way (`exits.rs`). What is finished
//! here, as in the 64-bit backend:
//!
//! - a hypercall with a constant answer;
//! - a load or store of one register to a device, of little-endian data;
//! - the virtual timer's interrupt, and the report of its end;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::exits::{arrived, count, fault_ipa};
use crate::interrupts::KICK;
use crate::lists::HostLists;
use crate::service::{guest, set_timer};
use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_decode::{Class, Esr, Frequent, Psr, mode};
use hanok_types::GicVersion;
use hanok_vm::{Cause, MmioAccess, constant_answer};

/// Serves a synchronous exit; whether it is done with.
pub fn sync(vcpu: *mut Vcpu) -> bool {
    const HYPERCALL: u64 = Class::Hvc32 as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    let esr = read!("esr_el2");
    let (vcpu, cpu, board) = arrived(vcpu);
    match esr >> 26 & 0x3f {
        HYPERCALL => hypercall(vcpu, cpu, board, esr),
        DATA_ABORT => device(vcpu, cpu, board, esr),
        _ => false,
    }
}

fn hypercall(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &Board, esr: u64) -> bool {
    let Some(answer) = constant_answer(vcpu.frame[0]) else {
        return false;
    };
    // HVC's return address is already that of the next instruction.
    vcpu.frame[0] = answer as u32;
    vcpu.trail.add(esr, read!("elr_el2"));
    count(vcpu, cpu, board, Cause::Hypercall);
    true
}

/// Where in the frame a register is, in the mode that `psr` says; `None` where it is not.
fn place(register: u8, psr: Psr) -> Option<usize> {
    let register = usize::from(register);
    match (register, psr.mode()) {
        (0..=7, _) => Some(register),
        (8..=12, other) if other != mode::FIQ => Some(register),
        (14, mode::USER | mode::SYSTEM) => Some(13),
        _ => None,
    }
}

#[inline(never)]
fn device(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board, esr: u64) -> bool {
    let Some(Frequent::Access { access, write }) = Frequent::decode(esr) else {
        return false;
    };
    let psr = read!("spsr_el2");
    let state = Psr::from_bits(psr as u32);
    if state.big_endian() {
        return false;
    }
    let place = place(access.register, state);
    let Some(value) = place.and_then(|place| vcpu.frame.get(place)).copied() else {
        return false;
    };
    vcpu.regs.set(access.register, value.into());
    let wanted = MmioAccess {
        width: access.width,
        register: access.register,
        sign_extend: access.sign_extend,
        wide: false,
    };
    let ipa = fault_ipa(read!("far_el2"), false);
    let lists = &mut board.gic.lists();
    if guest(vcpu, board, lists)
        .by_register(ipa, write, wanted)
        .is_none()
    {
        return false;
    }
    let value = vcpu.regs.get(access.register) as u32;
    if let Some(slot) = place.and_then(|place| vcpu.frame.get_mut(place)) {
        *slot = value;
    }
    if core::mem::take(&mut vcpu.core.rearm) {
        set_timer(Some(vcpu), cpu);
    }
    let pc = read!("elr_el2");
    (vcpu.regs.pc, vcpu.regs.pstate) = (pc, psr);
    vcpu.regs.advance(Esr::from_bits(esr).instruction_length());
    write!("elr_el2", vcpu.regs.pc);
    write!("spsr_el2", vcpu.regs.pstate);
    vcpu.trail.add(esr, pc);
    count(vcpu, cpu, board, Cause::Device);
    true
}

/// Acknowledges a physical interrupt; whether it is done with. If not, it waits in the pCPU's
/// record.
pub fn interrupt(vcpu: *mut Vcpu) -> bool {
    let (vcpu, cpu, board) = arrived(vcpu);
    let gic = board.gic;
    let Some(taken) = gic.acknowledge() else {
        count(vcpu, cpu, board, Cause::Interrupt);
        return true;
    };
    gic.drop_priority(taken);
    let id = taken.id();
    let lists = &mut gic.lists();
    let cause = if id == board.interrupts.virtual_timer {
        // Deactivated by the guest, through the list register.
        let (vm, vcpu_id) = (&vcpu.unit.vm, vcpu.core.id);
        if !vm.virtual_timer_again(vcpu_id, id, lists) {
            guest(vcpu, board, lists).virtual_timer(id);
        }
        Cause::Timer
    } else if id == KICK && !cpu.is_shared() {
        gic.end(taken);
        if !kicked(vcpu, board, lists) {
            return false;
        }
        Cause::Interrupt
    } else if id == board.interrupts.maintenance && guest(vcpu, board, lists).hardware_ended() {
        gic.end(taken);
        Cause::Interrupt
    } else {
        cpu.taken = Some(taken);
        return false;
    };
    count(vcpu, cpu, board, cause);
    true
}

/// After a kick: serves it where all that it was for is interrupts for this vCPU.
fn kicked(vcpu: &mut Vcpu, board: &'static Board, lists: &mut HostLists) -> bool {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    // Whoever changes whether a vCPU may run asks for its attention, too.
    let Some(mail) = vm.requests(id).take_interrupts_alone() else {
        return false;
    };
    if !vm.show_mail(id, mail, GicVersion::V2, lists) {
        guest(vcpu, board, lists).interrupts_changed(mail);
    }
    true
}
