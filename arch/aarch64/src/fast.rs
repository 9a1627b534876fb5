//! Frequent exits, served before the whole register file is saved.
//!
//! The trap entry saves what a function may change (X0 to X18, X30) and calls here; X19 to
//! X29 are still the guest's, as are ELR_EL2 and SPSR_EL2. What can be finished so is, by the
//! core's own code, and the guest goes on; of everything else nothing is done, and the entry
//! saves the rest and takes the long way (`exits.rs`). What is finished here:
//!
//! - a hypercall with a constant answer;
//! - a load or store of one register to a device, in AArch32 code of one that is not banked;
//! - the sending of an SGI to one other vCPU, by a system register or a GICv2's GICD_SGIR;
//! - the virtual timer's interrupt, and on a GICv2 the report of its end;
//! - an interrupt of a device that its VM has for itself;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::exits::AARCH32;
use crate::{Host, Vcpu, read, write_own};
use hanok_arm_common::aborts::fault_ipa;
use hanok_arm_common::cpu::{self, Fast, not_done};
use hanok_arm_common::host_gic::{BoardGic, CpuInterface, KICK, SystemRegisters};
use hanok_arm_common::lists::HardwareLists;
use hanok_arm_common::{GichLists, HostGicV2};
use hanok_decode::{Class, Esr, Frequent, Psr, SysReg, operand_of_write, register_of_word_store};
use hanok_hal::{Backend, ListRegisters, Taken};
use hanok_pcpu::{OwnDevice, guest};
use hanok_types::{Regs, platform};
use hanok_vgic::Sgir;
use hanok_vm::{Cause, Mail, MmioAccess, constant_answer};

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

/// Registers that the entry has saved: X0 to X18, X30, and the zero register.
fn is_saved(register: u8) -> bool {
    register <= 18 || register >= 30
}

/// A synchronous exit of AArch32 code.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync_aarch32(vcpu: *mut Vcpu) -> *mut Vcpu {
    const HYPERCALL: u64 = Class::Hvc32 as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    let esr = read!("esr_el2");
    match esr >> 26 & 0x3f {
        HYPERCALL => handle(vcpu, |vcpu, local| hypercall(vcpu, local, esr)),
        DATA_ABORT if is_as_in_aarch64(esr) => device(vcpu, esr),
        _ => not_done(),
    }
}

/// Whether a load or store of AArch32 code, as its syndrome has it, is done as one of AArch64
/// code is: its register has the same number there, and its data are little-endian.
#[inline(always)]
fn is_as_in_aarch64(esr: u64) -> bool {
    let pstate = read!("spsr_el2");
    let register = (esr >> 16 & 0x1f) as u8;
    Regs::is_plain_a32(pstate) && Psr::from_bits(pstate as u32).is_unbanked(register)
}

/// A synchronous exit of AArch64 code.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync(vcpu: *mut Vcpu) -> *mut Vcpu {
    const HYPERCALL: u64 = Class::Hvc64 as u64;
    let esr = read!("esr_el2");
    let class = esr >> 26 & 0x3f;
    if class == HYPERCALL {
        return handle(vcpu, |vcpu, local| hypercall(vcpu, local, esr));
    }
    other(vcpu, esr, class)
}

/// Any but a hypercall.
#[inline(never)]
extern "C" fn other(vcpu: *mut Vcpu, esr: u64, class: u64) -> *mut Vcpu {
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    const SYSTEM_REGISTER: u64 = Class::SystemRegister as u64;
    match class {
        DATA_ABORT => {
            let sgir = |vcpu: &mut Vcpu, local: &mut Local| sgir(vcpu, local, esr);
            handle_or(vcpu, sgir, || device(vcpu, esr))
        }
        SYSTEM_REGISTER => handle(vcpu, |vcpu, local| system_register(vcpu, local, esr)),
        _ => not_done(),
    }
}

#[inline(always)]
fn hypercall(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    let Some(answer) = constant_answer(vcpu.context.regs.x[0] as u32) else {
        return Fast::Slow;
    };
    // HVC's return address is already that of the next instruction.
    vcpu.context.regs.x[0] = answer as u64;
    vcpu.exits.add(esr, read!("elr_el2"));
    local.count(vcpu, Cause::Hypercall);
    Fast::Done
}

#[inline(never)]
fn device(vcpu: *mut Vcpu, esr: u64) -> *mut Vcpu {
    handle(vcpu, |vcpu, local| access_device(vcpu, local, esr))
}

#[inline(always)]
fn access_device(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    let Some(Frequent::Access { access, write }) = Frequent::decode(esr) else {
        return Fast::Slow;
    };
    if !is_saved(access.register) {
        return Fast::Slow;
    }
    let access = MmioAccess {
        width: access.width,
        register: access.register,
        sign_extend: access.sign_extend,
        wide: access.wide,
    };
    let ipa = fault_ipa(read!("far_el2"), false);
    let board = local.board;
    let lists = &mut board.machine.lists();
    if guest(vcpu, board, lists)
        .by_register(ipa, write, access)
        .is_none()
    {
        return Fast::Slow;
    }
    vcpu.rearm(local);
    let pc = advance(vcpu, esr);
    vcpu.exits.add(esr, pc);
    local.count(vcpu, Cause::Device);
    Fast::Done
}

/// An SGI to one other vCPU.
#[inline(always)]
fn system_register(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    let Some(operand) = operand_of_write(SysReg::ICC_SGI1R_EL1, esr) else {
        return Fast::Slow;
    };
    // Not X30, for brevity.
    if operand > 18 {
        return Fast::Slow;
    }
    let value = vcpu.context.regs.get(operand);
    let vm = &vcpu.unit.vm;
    if !vm.post_group1_sgi(local.board, vcpu.core.id, value) {
        return Fast::Slow;
    }
    // Only AArch64 has the register by this exit.
    let pc = advance_a64(read!("spsr_el2"));
    vcpu.exits.add(esr, pc);
    local.count(vcpu, Cause::SystemRegister);
    Fast::Done
}

/// An SGI to one other vCPU, on a GICv2.
#[inline(always)]
fn sgir(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    const PAGE: u64 = platform::GIC_DIST.get() >> 12 << 4;
    let Some(register) = register_of_word_store(esr) else {
        return Fast::Slow;
    };
    let pstate = read!("spsr_el2");
    let there = read!("far_el2") & 0xfff == Sgir::OFFSET && read!("hpfar_el2") == PAGE;
    if !there || register > 18 || pstate & AARCH32 != 0 {
        return Fast::Slow;
    }
    let value = vcpu.context.regs.get(register) as u32;
    if !vcpu.unit.vm.post_sgir(local.board, vcpu.core.id, value) {
        return Fast::Slow;
    }
    let pc = advance_a64(pstate);
    vcpu.exits.add(esr, pc);
    local.count(vcpu, Cause::Device);
    Fast::Done
}

/// Past the instruction of an AArch64 guest in this PSTATE that made the exit; where it was.
#[inline(always)]
fn advance_a64(pstate: u64) -> u64 {
    let pc = read!("elr_el2");
    // SAFETY: used by the return to the guest alone, whose program counter it is.
    unsafe { write_own!("elr_el2", pc.wrapping_add(4)) };
    // SAFETY: the guest's own PSTATE, whose exception level stays.
    unsafe { write_own!("spsr_el2", Regs::advanced_pstate(pstate)) };
    pc
}

/// Past the instruction that made the exit, by the CPU's own registers; where it was.
#[inline(always)]
fn advance(vcpu: &mut Vcpu, esr: u64) -> u64 {
    let regs = &mut vcpu.context.regs;
    let pc = read!("elr_el2");
    regs.pc = pc;
    regs.pstate = read!("spsr_el2");
    regs.advance(Esr::from_bits(esr).instruction_length());
    // SAFETY: used by the return to the guest alone, whose program counter it is.
    unsafe { write_own!("elr_el2", regs.pc) };
    // SAFETY: the guest's own PSTATE, whose exception level stays.
    unsafe { write_own!("spsr_el2", regs.pstate) };
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
    /// The virtual timer has fired.
    Timer(Taken),
    /// The end of an interrupt was reported.
    Ended(Taken),
    /// A device has fired, which may be its VM's own.
    Device(Taken),
}

impl Next {
    /// Does it.
    #[inline(always)]
    fn carry_out(self, vcpu: *mut Vcpu, lists: impl ListRegisters) -> *mut Vcpu {
        match self {
            Self::Done => vcpu,
            Self::Slow => not_done(),
            Self::Nothing => nothing(vcpu),
            Self::Changed(mail) => interrupts_changed(vcpu, mail),
            Self::Timer(taken) => virtual_timer(vcpu, taken, lists),
            Self::Ended(taken) => end_reported(vcpu, taken),
            Self::Device(taken) => device_fired(vcpu, taken),
        }
    }
}

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let board = with(vcpu, |_, local| local.board);
    // Once, so that each way is free of the question.
    match &board.machine.gic {
        BoardGic::V3 => interrupt_v3(vcpu),
        BoardGic::V2(gic, lists) => interrupt_v2(vcpu, gic, lists),
    }
}

#[inline(never)]
fn interrupt_v3(vcpu: *mut Vcpu) -> *mut Vcpu {
    let look = |vcpu: &mut _, local: &mut _| interrupt(vcpu, local, SystemRegisters, HardwareLists);
    with(vcpu, look).carry_out(vcpu, HardwareLists)
}

#[inline(never)]
fn interrupt_v2(vcpu: *mut Vcpu, gic: &HostGicV2, lists: &GichLists) -> *mut Vcpu {
    let look = |vcpu: &mut _, local: &mut _| interrupt(vcpu, local, *gic, *lists);
    with(vcpu, look).carry_out(vcpu, *lists)
}

#[inline(always)]
fn interrupt(
    vcpu: &mut Vcpu,
    local: &mut Local,
    gic: impl CpuInterface,
    lists: impl ListRegisters,
) -> Next {
    let taken = gic.acknowledge();
    if taken.is_none() {
        return Next::Nothing;
    }
    gic.drop_priority(taken);
    let id = taken.id();
    if id == KICK && !local.is_shared() {
        gic.end(taken);
        return kick(vcpu, local, gic, lists);
    }
    let lines = &local.board.interrupts;
    if id == lines.virtual_timer {
        return Next::Timer(taken);
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
fn kick<G: CpuInterface>(
    vcpu: &mut Vcpu,
    local: &mut Local,
    _: G,
    mut lists: impl ListRegisters,
) -> Next {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    // Whoever changes whether a vCPU may run asks for its attention, too.
    let Some(mail) = vm.requests(id).take_interrupts_alone() else {
        return Next::Slow;
    };
    if !vm.show_mail(id, mail, G::VERSION, &mut lists) {
        return Next::Changed(mail);
    }
    local.count(vcpu, Cause::Interrupt);
    Next::Done
}

/// It is deactivated by the guest, through the list register.
#[inline(never)]
fn virtual_timer(vcpu: *mut Vcpu, taken: Taken, mut lists: impl ListRegisters) -> *mut Vcpu {
    let shown = |vcpu: &mut Vcpu, local: &mut Local| {
        let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
        if !vm.virtual_timer_again(id, taken.id(), &mut lists) {
            return Fast::Slow;
        }
        local.count(vcpu, Cause::Timer);
        Fast::Done
    };
    handle_or(vcpu, shown, || virtual_timer_slowly(vcpu, taken))
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
