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
//! - an interrupt of a device that its VM has for itself;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::exits::yields;
use crate::{Host, Vcpu, read, write_own};
use hanok_arm_common::aborts::fault_ipa;
use hanok_arm_common::cpu::{self, Fast, not_done};
use hanok_arm_common::host_gic::{BoardGic, CpuInterface, KICK};
use hanok_decode::{Esr, Frequent, Psr, mode, register_of_word_load, register_of_word_store};
use hanok_hal::{Backend, ListRegisters, Taken};
use hanok_pcpu::{OwnDevice, guest};
use hanok_types::{GicVersion, Regs};
use hanok_vgic::Sgir;
use hanok_vm::{Cause, Mail, MmioAccess, constant_answer, yield_answer};

/// This CPU's own record, beside its vCPUs.
type Local = hanok_pcpu::Local<Host>;

/// Handles an exit on the fast path. What the trap entry is told: `vcpu` if the exit is done with, and
/// null if not.
#[inline(always)]
fn handle(vcpu: *mut Vcpu, handler: impl FnOnce(&mut Vcpu, &mut Local) -> Fast) -> *mut Vcpu {
    handle_or(vcpu, handler, not_done)
}

/// What `look` finds of the vCPU and its pCPU.
#[inline(always)]
fn with<R>(vcpu: *mut Vcpu, look: impl FnOnce(&mut Vcpu, &mut Local) -> R) -> R {
    // SAFETY: as below.
    let (ours, local) = unsafe { cpu::arrived(vcpu) };
    look(ours, local)
}

/// [`handle`], with something to try where the exit is not done with.
#[inline(always)]
fn handle_or(
    vcpu: *mut Vcpu,
    handler: impl FnOnce(&mut Vcpu, &mut Local) -> Fast,
    slow: impl FnOnce() -> *mut Vcpu,
) -> *mut Vcpu {
    // SAFETY: the trap entry alone calls what is here, one handler at a time, with the vCPU that it
    // was given.
    unsafe { cpu::handle_fast(vcpu, handler, slow) }
}

/// HVC, and its HSR.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_hypercall(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let function = with(vcpu, |vcpu, _| vcpu.context.frame[0]);
    let Some(constant) = constant_answer(function) else {
        return match yield_answer(function) {
            Some(answer) => yields(esr.into(), answer),
            None => not_done(),
        };
    };
    handle(vcpu, |vcpu, local| {
        // HVC's return address is already that of the next instruction.
        vcpu.context.frame[0] = constant as u32;
        vcpu.exits.add(esr.into(), read!("elr_el2"));
        local.count(vcpu, Cause::Hypercall);
        Fast::Done
    })
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
    handle(vcpu, |vcpu, local| access_device(vcpu, local, esr))
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
    let lists = &mut board.machine.lists();
    if guest(vcpu, board, lists)
        .by_register(ipa, write, wanted)
        .is_none()
    {
        return Fast::Slow;
    }
    if !write && let Some(slot) = vcpu.context.frame.get_mut(place) {
        *slot = vcpu.context.regs.get(access.register) as u32;
    }
    vcpu.rearm(local);
    passed(vcpu, local, esr)
}

/// A load from the distributor, and its HSR: of a word that has nothing to do with list registers.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_load(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let load = |vcpu: &mut Vcpu, local: &mut Local| load(vcpu, local, esr);
    handle_or(vcpu, load, || hanok_fast_device(vcpu, esr))
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

/// A store to the distributor, and its HSR: an SGI to one other vCPU.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_store(vcpu: *mut Vcpu, esr: u32) -> *mut Vcpu {
    let store = |vcpu: &mut Vcpu, local: &mut Local| store(vcpu, local, esr);
    handle_or(vcpu, store, || hanok_fast_device(vcpu, esr))
}

#[inline(always)]
fn store(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let register = register_of_word_store(esr.into()).filter(|_| offset() == Sgir::OFFSET);
    let place = register.and_then(plain_place);
    let Some(value) = place.and_then(|place| vcpu.context.frame.get(place)) else {
        return Fast::Slow;
    };
    if !vcpu.unit.vm.post_sgir(local.board, vcpu.core.id, *value) {
        return Fast::Slow;
    }
    passed(vcpu, local, esr)
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
fn passed(vcpu: &mut Vcpu, local: &mut Local, esr: u32) -> Fast {
    let pc = advance(esr.into());
    vcpu.exits.add(esr.into(), pc);
    local.count(vcpu, Cause::Device);
    Fast::Done
}

/// Past the instruction that made the exit, in a plain state; where it was.
#[inline(always)]
fn advance(esr: u64) -> u64 {
    let pc = read!("elr_el2");
    let next = pc.wrapping_add(Esr::from_bits(esr).instruction_length());
    // SAFETY: used by the return to the guest alone, whose program counter it is.
    unsafe { write_own!("elr_el2", next) };
    pc
}

/// What is to be done about a physical interrupt that was acknowledged. Whatever is longer than a few
/// instructions is called last, with the vCPU's pointer alone: with the references, the pointer that
/// the trap entry is told would be kept on the stack meanwhile, for all that is short, too.
enum Next {
    /// It is done with.
    Done,
    /// It is the slow path's.
    Slow,
    /// There was none.
    Nothing,
    /// The mail of a kick needs the whole controller.
    Changed(Mail),
    /// The virtual timer's needs it.
    Timer(Taken),
    /// The end of an interrupt was reported.
    Ended(Taken),
    /// A device has fired, which may be its VM's own.
    Device(Taken),
}

impl Next {
    /// Does it.
    #[inline(always)]
    fn carry_out(self, vcpu: *mut Vcpu) -> *mut Vcpu {
        match self {
            Self::Done => vcpu,
            Self::Slow => not_done(),
            Self::Nothing => nothing(vcpu),
            Self::Changed(mail) => interrupts_changed(vcpu, mail),
            Self::Timer(taken) => virtual_timer_slowly(vcpu, taken),
            Self::Ended(taken) => end_reported(vcpu, taken),
            Self::Device(taken) => device_fired(vcpu, taken),
        }
    }
}

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    with(vcpu, interrupt).carry_out(vcpu)
}

#[inline(always)]
fn interrupt(vcpu: &mut Vcpu, local: &mut Local) -> Next {
    let BoardGic::V2(gic, lists) = local.board.machine.gic;
    let taken = CpuInterface::acknowledge(gic);
    if taken.is_none() {
        return Next::Nothing;
    }
    CpuInterface::drop_priority(gic, taken);
    let id = taken.id();
    if id == KICK && !local.is_shared() {
        CpuInterface::end(gic, taken);
        return kick(vcpu, local, lists);
    }
    let lines = &local.board.interrupts;
    if id == lines.virtual_timer {
        return virtual_timer(vcpu, local, taken, lists);
    }
    if id == lines.maintenance {
        return Next::Ended(taken);
    }
    if !id.is_private() {
        return Next::Device(taken);
    }
    local.taken = Some(taken);
    Next::Slow
}

#[inline(always)]
fn kick(vcpu: &mut Vcpu, local: &mut Local, mut lists: impl ListRegisters) -> Next {
    // Whoever changes whether a vCPU may run asks for its attention, too.
    let Some(mail) = vcpu.requests.take_interrupts_alone() else {
        return Next::Slow;
    };
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    if !vm.show_mail(id, mail, GicVersion::V2, &mut lists) {
        return Next::Changed(mail);
    }
    local.count(vcpu, Cause::Interrupt);
    Next::Done
}

/// It is deactivated by the guest, through the list register.
#[inline(always)]
fn virtual_timer(
    vcpu: &mut Vcpu,
    local: &mut Local,
    taken: Taken,
    mut lists: impl ListRegisters,
) -> Next {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    if !vm.virtual_timer_again(id, taken.id(), &mut lists) {
        return Next::Timer(taken);
    }
    local.count(vcpu, Cause::Timer);
    Next::Done
}

/// It has gone again.
#[inline(never)]
fn nothing(vcpu: *mut Vcpu) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| {
        local.count(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// A kick's mail that needs the whole controller.
#[inline(never)]
fn interrupts_changed(vcpu: *mut Vcpu, mail: Mail) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| {
        let board = local.board;
        guest(vcpu, board, &mut board.machine.lists()).interrupts_changed(mail);
        local.count(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// The virtual timer's interrupt, where it was not shown in this list register before.
#[inline(never)]
fn virtual_timer_slowly(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| {
        let board = local.board;
        guest(vcpu, board, &mut board.machine.lists()).virtual_timer(taken.id());
        local.count(vcpu, Cause::Timer);
        Fast::Done
    })
}

/// The guest has ended an interrupt with a physical one behind, most often its timer's, that did not
/// stand alone.
#[inline(never)]
fn end_reported(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| {
        let board = local.board;
        if !guest(vcpu, board, &mut board.machine.lists()).hardware_ended() {
            local.taken = Some(taken);
            return Fast::Slow;
        }
        board.machine.end(taken);
        local.count(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// The interrupt of a device, which the guest deactivates through the list register where the VM has the
/// device for itself.
#[inline(never)]
fn device_fired(vcpu: *mut Vcpu, taken: Taken) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| {
        if vcpu.own_device(local, taken.id()) == OwnDevice::Other {
            local.taken = Some(taken);
            return Fast::Slow;
        }
        local.count(vcpu, Cause::Interrupt);
        Fast::Done
    })
}
