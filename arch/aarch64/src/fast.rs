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
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::aborts::fault_ipa;
use crate::exits::AARCH32;
use crate::interrupts::{CpuInterface, Interface, KICK, SystemRegisters, Taken};
use crate::lists::HardwareLists;
use crate::outcome::{arrived, count};
use crate::service::{guest, set_timer};
use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_arm_common::{GichLists, HostGicV2};
use hanok_decode::{Class, Esr, Frequent, Psr, SysReg, operand_of_write, register_of_word_store};
use hanok_hal::ListRegisters;
use hanok_types::{Regs, platform};
use hanok_vgic::Sgir;
use hanok_vm::{Cause, Mail, MmioAccess, constant_answer};

/// Registers that the entry has saved: X0 to X18, X30, and the zero register.
fn is_saved(register: u8) -> bool {
    register <= 18 || register >= 30
}

/// What the trap entry is told: `vcpu`, and whether its exit is done with. A vCPU's address is
/// even.
#[inline(always)]
fn answer(vcpu: *mut Vcpu, done: bool) -> *mut Vcpu {
    match done {
        true => vcpu,
        false => vcpu.wrapping_byte_add(1),
    }
}

/// A synchronous exit of AArch32 code.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync_aarch32(vcpu: *mut Vcpu) -> *mut Vcpu {
    const HYPERCALL: u64 = Class::Hvc32 as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    let esr = read!("esr_el2");
    match esr >> 26 & 0x3f {
        HYPERCALL => answer(vcpu, hypercall(vcpu, esr)),
        DATA_ABORT if is_as_in_aarch64(esr) => device(vcpu, esr),
        _ => answer(vcpu, false),
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
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    const SYSTEM_REGISTER: u64 = Class::SystemRegister as u64;
    let esr = read!("esr_el2");
    match esr >> 26 & 0x3f {
        HYPERCALL => answer(vcpu, hypercall(vcpu, esr)),
        DATA_ABORT if sgir(vcpu, esr) => vcpu,
        DATA_ABORT => device(vcpu, esr),
        SYSTEM_REGISTER => answer(vcpu, system_register(vcpu, esr)),
        _ => answer(vcpu, false),
    }
}

#[inline(always)]
fn hypercall(vcpu: *mut Vcpu, esr: u64) -> bool {
    // SAFETY: as in `arrived`; the reference ends here.
    let id = unsafe { (*vcpu).regs.x[0] } as u32;
    let Some(answer) = constant_answer(id) else {
        return false;
    };
    let (vcpu, cpu, _) = arrived(vcpu);
    // HVC's return address is already that of the next instruction.
    vcpu.regs.x[0] = answer as u64;
    vcpu.trail.add(esr, read!("elr_el2"));
    count(vcpu, cpu, Cause::Hypercall);
    true
}

#[inline(never)]
fn device(vcpu: *mut Vcpu, esr: u64) -> *mut Vcpu {
    answer(vcpu, access_device(vcpu, esr))
}

#[inline(always)]
fn access_device(vcpu: *mut Vcpu, esr: u64) -> bool {
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
    let ipa = fault_ipa(read!("far_el2"), false);
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
    count(vcpu, cpu, Cause::Device);
    true
}

/// An SGI to one other vCPU.
#[inline(always)]
fn system_register(vcpu: *mut Vcpu, esr: u64) -> bool {
    let Some(operand) = operand_of_write(SysReg::ICC_SGI1R_EL1, esr) else {
        return false;
    };
    // Not X30, for brevity.
    if operand > 18 {
        return false;
    }
    let (vcpu, cpu, board) = arrived(vcpu);
    let value = vcpu.regs.get(operand);
    let sent = vcpu.unit.vm.post_group1_sgi(board, vcpu.core.id, value);
    if !sent {
        return false;
    }
    // Only AArch64 has the register by this exit.
    let pc = advance_a64(read!("spsr_el2"));
    vcpu.trail.add(esr, pc);
    count(vcpu, cpu, Cause::SystemRegister);
    true
}

/// An SGI to one other vCPU, on a GICv2.
#[inline(always)]
fn sgir(vcpu: *mut Vcpu, esr: u64) -> bool {
    const PAGE: u64 = platform::GIC_DIST.get() >> 12 << 4;
    let Some(register) = register_of_word_store(esr) else {
        return false;
    };
    let pstate = read!("spsr_el2");
    let there = read!("far_el2") & 0xfff == Sgir::OFFSET && read!("hpfar_el2") == PAGE;
    if !there || register > 18 || pstate & AARCH32 != 0 {
        return false;
    }
    let (vcpu, cpu, board) = arrived(vcpu);
    let value = vcpu.regs.get(register) as u32;
    let sent = vcpu.unit.vm.post_sgir(board, vcpu.core.id, value);
    if !sent {
        return false;
    }
    let pc = advance_a64(pstate);
    vcpu.trail.add(esr, pc);
    count(vcpu, cpu, Cause::Device);
    true
}

/// Past the instruction of an AArch64 guest in this PSTATE that made the exit; where it was.
#[inline(always)]
fn advance_a64(pstate: u64) -> u64 {
    let pc = read!("elr_el2");
    write!("elr_el2", pc.wrapping_add(4));
    write!("spsr_el2", Regs::advanced_pstate(pstate));
    pc
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

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (_, _, board) = arrived(vcpu);
    // Once, so that each way is free of the question.
    match &board.gic {
        Interface::V3 => interrupt_v3(vcpu),
        Interface::V2(gic, lists) => interrupt_v2(vcpu, gic, lists),
    }
}

#[inline(never)]
fn interrupt_v3(vcpu: *mut Vcpu) -> *mut Vcpu {
    interrupt(vcpu, SystemRegisters, HardwareLists)
}

#[inline(never)]
fn interrupt_v2(vcpu: *mut Vcpu, gic: &HostGicV2, lists: &GichLists) -> *mut Vcpu {
    interrupt(vcpu, *gic, *lists)
}

#[inline(always)]
fn interrupt(vcpu: *mut Vcpu, gic: impl CpuInterface, lists: impl ListRegisters) -> *mut Vcpu {
    let (_, cpu, board) = arrived(vcpu);
    let taken = gic.acknowledge();
    if taken.is_none() {
        return nothing(vcpu);
    }
    gic.drop_priority(taken);
    let id = taken.id();
    if id == KICK && !cpu.is_shared() {
        gic.end(taken);
        return kick(vcpu, gic, lists);
    }
    if id == board.interrupts.virtual_timer {
        return virtual_timer(vcpu, taken, lists);
    }
    if id == board.interrupts.maintenance {
        return end_reported(vcpu, taken);
    }
    cpu.taken = Some(taken);
    answer(vcpu, false)
}

/// It has gone again.
#[inline(never)]
fn nothing(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
    count(ours, cpu, Cause::Interrupt);
    vcpu
}

#[inline(always)]
fn kick<G: CpuInterface>(vcpu: *mut Vcpu, _: G, mut lists: impl ListRegisters) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
    let (vm, id) = (&ours.unit.vm, ours.core.id);
    // Whoever changes whether a vCPU may run asks for its attention, too.
    let Some(mail) = vm.requests(id).take_interrupts_alone() else {
        return answer(vcpu, false);
    };
    if !vm.show_mail(id, mail, G::VERSION, &mut lists) {
        return interrupts_changed(vcpu, mail);
    }
    count(ours, cpu, Cause::Interrupt);
    vcpu
}

#[inline(never)]
fn interrupts_changed(vcpu: *mut Vcpu, mail: Mail) -> *mut Vcpu {
    let (ours, cpu, board) = arrived(vcpu);
    guest(ours, board, &mut board.gic.lists()).interrupts_changed(mail);
    count(ours, cpu, Cause::Interrupt);
    vcpu
}

/// It is deactivated by the guest, through the list register.
#[inline(never)]
fn virtual_timer(vcpu: *mut Vcpu, taken: Taken, mut lists: impl ListRegisters) -> *mut Vcpu {
    let (ours, cpu, _) = arrived(vcpu);
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

/// On a GICv2, the guest has ended an interrupt with a physical one behind, most often its
/// timer's, that did not stand alone.
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
