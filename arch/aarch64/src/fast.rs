//! Frequent exits, served before the whole register file is saved.
//!
//! The trap entry saves what a function may change (X0 to X18, X30) and calls here; X19 to
//! X29 are still the guest's, as are ELR_EL2 and SPSR_EL2. What can be finished so is, by the
//! core's own code, and the guest goes on; of everything else nothing is done, and the entry
//! saves the rest and takes the long way (`exits.rs`). What is finished here:
//!
//! - a hypercall with a constant answer;
//! - a load or store of one register to a device;
//! - the sending of an SGI by a system register;
//! - the virtual timer's interrupt, and on a GICv2 the report of its end;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::exits::{arrived, count, fault_ipa};
use crate::interrupts::{Interface, KICK};
use crate::service::{guest, set_timer};
use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_decode::{Class, Esr, Frequent, SysReg};
use hanok_vm::{Cause, MmioAccess, constant_answer};

/// Registers that the entry has saved: X0 to X18, X30, and the zero register.
fn is_saved(register: u8) -> bool {
    register <= 18 || register >= 30
}

/// A synchronous exit; whether it is done with.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync(vcpu: *mut Vcpu) -> bool {
    const HYPERCALL: u64 = Class::Hvc64 as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    const SYSTEM_REGISTER: u64 = Class::SystemRegister as u64;
    let esr = read!("esr_el2");
    match esr >> 26 & 0x3f {
        HYPERCALL => hypercall(vcpu, esr),
        DATA_ABORT => device(vcpu, esr),
        SYSTEM_REGISTER => system_register(vcpu, esr),
        _ => false,
    }
}

#[inline(always)]
fn hypercall(vcpu: *mut Vcpu, esr: u64) -> bool {
    // SAFETY: as in `arrived`; the reference ends here.
    let id = unsafe { (*vcpu).regs.x[0] } as u32;
    let Some(answer) = constant_answer(id) else {
        return false;
    };
    let (vcpu, cpu, board) = arrived(vcpu);
    // HVC's return address is already that of the next instruction.
    vcpu.regs.x[0] = answer as u64;
    vcpu.trail.add(esr, read!("elr_el2"));
    count(vcpu, cpu, board, Cause::Hypercall);
    true
}

#[inline(never)]
fn device(vcpu: *mut Vcpu, esr: u64) -> bool {
    let (vcpu, cpu, board) = arrived(vcpu);
    let Some(Frequent::Access { access, write }) = Frequent::decode(esr) else {
        return false;
    };
    if !is_saved(access.register) {
        return false;
    }
    let access = MmioAccess {
        width: access.width,
        register: access.register,
        sign_extend: access.sign_extend,
        wide: access.wide,
    };
    let ipa = fault_ipa(false);
    let lists = &mut board.gic.lists();
    if guest(vcpu, board, lists)
        .by_register(ipa, write, access)
        .is_none()
    {
        return false;
    }
    if core::mem::take(&mut vcpu.core.rearm) {
        set_timer(Some(vcpu), cpu);
    }
    let pc = advance(vcpu, esr);
    vcpu.trail.add(esr, pc);
    count(vcpu, cpu, board, Cause::Device);
    true
}

#[inline(never)]
fn system_register(vcpu: *mut Vcpu, esr: u64) -> bool {
    let (vcpu, cpu, board) = arrived(vcpu);
    let Some(Frequent::RegisterWrite { register, operand }) = Frequent::decode(esr) else {
        return false;
    };
    if register != SysReg::ICC_SGI1R_EL1 || !is_saved(operand) {
        return false;
    }
    let value = vcpu.regs.get(operand);
    guest(vcpu, board, &mut board.gic.lists()).send_group1_sgi(value);
    let pc = advance(vcpu, esr);
    vcpu.trail.add(esr, pc);
    count(vcpu, cpu, board, Cause::SystemRegister);
    true
}

/// Past the instruction that made the exit, by the CPU's own registers; where it was.
#[inline(always)]
fn advance(vcpu: &mut Vcpu, esr: u64) -> u64 {
    let pc = read!("elr_el2");
    vcpu.regs.pc = pc;
    vcpu.regs.pstate = read!("spsr_el2");
    vcpu.regs.advance(Esr::from_bits(esr).instruction_length());
    write!("elr_el2", vcpu.regs.pc);
    write!("spsr_el2", vcpu.regs.pstate);
    pc
}

/// A physical interrupt, which is acknowledged here in any case; whether it is done with.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(vcpu: *mut Vcpu) -> bool {
    let (vcpu, cpu, board) = arrived(vcpu);
    // Once, so that each way is free of the question.
    match board.gic {
        Interface::V3 => interrupt(vcpu, cpu, board, Interface::V3),
        Interface::V2(gic, lists) => interrupt(vcpu, cpu, board, Interface::V2(gic, lists)),
    }
}

#[inline(always)]
fn interrupt(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board, gic: Interface) -> bool {
    let Some(taken) = gic.acknowledge() else {
        count(vcpu, cpu, board, Cause::Interrupt);
        return true;
    };
    gic.drop_priority(taken);
    let id = taken.id();
    let lists = &mut gic.lists();
    let cause = if id == board.interrupts.virtual_timer {
        // Deactivated by the guest, through the list register.
        let mut guest = guest(vcpu, board, lists);
        if !guest.virtual_timer_again(id) {
            guest.virtual_timer(id);
        }
        Cause::Timer
    } else if id == KICK && !cpu.is_shared() {
        gic.end(taken);
        if !guest(vcpu, board, lists).kicked() {
            cpu.taken = None;
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
