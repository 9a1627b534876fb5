//! Frequent exits, served without the registers of the guest's other modes.
//!
//! The trap entry saves the trap frame alone (R0 to R12 and LR_usr) and calls here; ELR_hyp,
//! SPSR_hyp and all banked registers are still the guest's. What can be finished so is, by the
//! core's own code, and the guest goes on; of everything else nothing is done, and it takes the
//! long way (`exits.rs`). What is finished here, as in the 64-bit backend:
//!
//! - a hypercall with a constant answer, and the one that lets others run;
//! - a load or store of one register to a device, of little-endian data and outside an IT block;
//! - the sending of an SGI to one other vCPU, by GICD_SGIR, and a load of what the distributor's
//!   own registers say;
//! - the virtual timer's interrupt, and the report of its end;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::aborts::fault_ipa;
use crate::cpu::Cpu;
use crate::exits::yields;
use crate::interrupts::{Interface, KICK, Taken};
use crate::outcome::{arrived, count};
use crate::service::{guest, set_timer};
use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_decode::{Esr, Frequent, Psr, mode, register_of_word_load, register_of_word_store};
use hanok_types::{GicVersion, Regs};
use hanok_vgic::Sgir;
use hanok_vm::{Cause, Mail, MmioAccess, constant_answer, yield_answer};

/// What the trap entry is told: `vcpu`, and whether its exit is done with. A vCPU's address is
/// even.
#[inline(always)]
fn answer(vcpu: *mut Vcpu, done: bool) -> *mut Vcpu {
    match done {
        true => vcpu,
        false => vcpu.wrapping_byte_add(1),
    }
}

/// HVC, and its HSR.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_hypercall(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
    let Some(constant) = constant_answer(ours.frame[0]) else {
        return match yield_answer(ours.frame[0]) {
            Some(answer) => yields(vcpu, esr.into(), answer),
            None => answer(vcpu, false),
        };
    };
    // HVC's return address is already that of the next instruction.
    ours.frame[0] = constant as u32;
    ours.trail.add(esr.into(), read!("elr_el2"));
    count(ours, cpu, Cause::Hypercall);
    vcpu
}

/// Where in the frame a register is, in the mode that `psr` says; `None` where it is not.
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

/// A data abort of which the two below know nothing, and its HSR.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_device(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    answer(vcpu, access_device(vcpu, esr))
}

#[inline(always)]
fn access_device(vcpu: *mut Vcpu, esr: u32) -> bool {
    let (vcpu, cpu, board) = arrived(vcpu);
    let Some(Frequent::Access { access, write }) = Frequent::decode(esr.into()) else {
        return false;
    };
    let psr = read!("spsr_el2");
    if !Regs::is_plain_a32(psr) {
        return false;
    }
    let Some(place) = place(access.register, psr) else {
        return false;
    };
    if write {
        let value = vcpu.frame.get(place).copied().unwrap_or(0);
        vcpu.regs.set(access.register, value.into());
    }
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
    if !write && let Some(slot) = vcpu.frame.get_mut(place) {
        *slot = vcpu.regs.get(access.register) as u32;
    }
    if core::mem::take(&mut vcpu.core.rearm) {
        set_timer(Some(vcpu), cpu);
    }
    passed(vcpu, cpu, esr);
    true
}

/// A load from the distributor, and its HSR: of a word that has nothing to do with list registers.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_load(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
    let value = ours.unit.vm.distributor_word(ours.core.id, offset());
    let place = register_of_word_load(esr.into()).and_then(plain_place);
    let to = place.and_then(|place| ours.frame.get_mut(place));
    let (Some(value), Some(to)) = (value, to) else {
        return hanok_fast_device(vcpu, esr);
    };
    *to = value;
    passed(ours, cpu, esr);
    vcpu
}

/// A store to the distributor, and its HSR: an SGI to one other vCPU.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_store(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    let register = register_of_word_store(esr.into()).filter(|_| offset() == Sgir::OFFSET);
    let place = register.and_then(plain_place);
    let Some(value) = place.and_then(|place| ours.frame.get(place)) else {
        return hanok_fast_device(vcpu, esr);
    };
    if !ours.unit.vm.post_sgir(board, ours.core.id, *value) {
        return hanok_fast_device(vcpu, esr);
    }
    passed(ours, cpu, esr);
    vcpu
}

/// Where in its page a load or store went.
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

/// A load or store is done with.
#[inline(always)]
fn passed(vcpu: &mut Vcpu, cpu: &mut Cpu, esr: u32) {
    let pc = advance(esr.into());
    vcpu.trail.add(esr.into(), pc);
    count(vcpu, cpu, Cause::Device);
}

/// Past the instruction that made the exit, in a plain state; where it was.
#[inline(always)]
fn advance(esr: u64) -> u64 {
    let pc = read!("elr_el2");
    write!(
        "elr_el2",
        pc.wrapping_add(Esr::from_bits(esr).instruction_length())
    );
    pc
}

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    let Interface::V2(gic, mut lists) = board.gic;
    let taken = Taken::now(&gic);
    if taken.is_none() {
        return nothing(vcpu);
    }
    board.gic.drop_priority(taken);
    let id = taken.id();
    if id == KICK && !cpu.is_shared() {
        taken.end(&gic);
        let (vm, id) = (&ours.unit.vm, ours.core.id);
        // Whoever changes whether a vCPU may run asks for its attention, too.
        let Some(mail) = ours.requests.take_interrupts_alone() else {
            return answer(vcpu, false);
        };
        if !vm.show_mail(id, mail, GicVersion::V2, &mut lists) {
            return interrupts_changed(vcpu, mail);
        }
        count(ours, cpu, Cause::Interrupt);
        return vcpu;
    }
    if id == board.interrupts.virtual_timer {
        return virtual_timer(vcpu, taken);
    }
    if id == board.interrupts.maintenance {
        return end_reported(vcpu, taken);
    }
    cpu.taken = Some(taken);
    answer(vcpu, false)
}

/// It has gone again.
#[cold]
fn nothing(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
    count(ours, cpu, Cause::Interrupt);
    vcpu
}

/// A kick's mail that needs the whole controller.
#[inline(never)]
fn interrupts_changed(vcpu: *mut Vcpu, mail: Mail) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    guest(ours, board, &mut board.gic.lists()).interrupts_changed(mail);
    count(ours, cpu, Cause::Interrupt);
    vcpu
}

/// It is deactivated by the guest, through the list register.
#[inline(never)]
fn virtual_timer(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    let mut lists = board.gic.lists();
    let (vm, id) = (&ours.unit.vm, ours.core.id);
    if !vm.virtual_timer_again(id, taken.id(), &mut lists) {
        return virtual_timer_at_length(vcpu, taken);
    }
    count(ours, cpu, Cause::Timer);
    vcpu
}

#[inline(never)]
fn virtual_timer_at_length(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    guest(ours, board, &mut board.gic.lists()).virtual_timer(taken.id());
    count(ours, cpu, Cause::Timer);
    vcpu
}

/// The guest has ended its timer's interrupt.
#[inline(never)]
fn end_reported(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    if !guest(ours, board, &mut board.gic.lists()).hardware_ended() {
        cpu.taken = Some(taken);
        return answer(vcpu, false);
    }
    board.gic.end(taken);
    count(ours, cpu, Cause::Interrupt);
    vcpu
}
