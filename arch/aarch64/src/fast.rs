//! Frequent exits, served before the whole register file is saved.
//!
//! The trap entry saves what a function may change (X0 to X18, X30) and calls here; X19 to
//! X29 still hold the guest's values, as do ELR_EL2 and SPSR_EL2. An exit that can be handled with so few
//! registers is handled here, by the core's own code, and the guest goes on. Of any other exit nothing
//! is done here, and the entry saves the other registers and calls the slow path (`exits.rs`). The fast
//! path handles:
//!
//! - a hypercall with a constant answer;
//! - a load or store of one register to a device, in AArch32 code of one that is not banked;
//! - the sending of an SGI to one other vCPU, by a system register or a GICv2's GICD_SGIR;
//! - the virtual timer's interrupt, and on a GICv2 the report of its end;
//! - an interrupt of a device that its VM has for itself;
//! - a kick that is for interrupts alone, on a pCPU with one vCPU.

use crate::{Host, Vcpu, read, write_own};
use hanok_arm_common::aborts::fault_ipa;
use hanok_arm_common::exited::Fast;
use hanok_arm_common::host_gic::{BoardGic, SystemRegisters};
use hanok_arm_common::interrupted::interrupt;
use hanok_arm_common::lists::HardwareLists;
use hanok_arm_common::{GichLists, HostGicV2};
use hanok_decode::{
    Class, Esr, Frequent, Psr, SysReg, is_store, operand_of_write, register_of_narrow_load,
    register_of_narrow_store, register_of_word_load, register_of_word_store,
};
use hanok_hal::Backend;
use hanok_pcpu::guest;
use hanok_types::{Ipa, Regs, platform};
use hanok_vgic::Sgir;
use hanok_vm::{Attempt, Cause, MmioAccess, constant_answer};

/// This CPU's own record, beside its vCPUs.
type Local = hanok_pcpu::Local<Host>;

/// The exit that the trap entry has taken.
type Exited = hanok_arm_common::exited::Exited<Host>;

/// Registers that the entry has saved: X0 to X18, X30, and the zero register.
fn is_saved(register: u8) -> bool {
    register <= 18 || register >= 30
}

/// A synchronous exit of AArch32 code.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync_aarch32(exited: Exited) -> Option<Exited> {
    const HYPERCALL: u64 = Class::Hvc32 as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    let esr = read!("esr_el2");
    match esr >> 26 & 0x3f {
        HYPERCALL => exited.handle(|vcpu, local| hypercall(vcpu, local, esr)),
        DATA_ABORT if !is_as_in_aarch64(esr) => exited.not_done(),
        DATA_ABORT if is_long(esr) => data_abort(exited, esr),
        DATA_ABORT => device(exited, esr),
        _ => exited.not_done(),
    }
}

/// Whether a load or store of AArch32 code can be handled as one of AArch64 code with the same
/// syndrome: its register has the same number in AArch64, and its data are little-endian.
#[inline(always)]
fn is_as_in_aarch64(esr: u64) -> bool {
    let pstate = read!("spsr_el2");
    let register = (esr >> 16 & 0x1f) as u8;
    Regs::is_plain_a32(pstate) && Psr::from_bits(pstate as u32).is_unbanked(register)
}

/// Bytes of an instruction that is not one of the short ones of T32.
const LONG: u64 = 4;

/// Whether the instruction that made the exit has [`LONG`] bytes.
#[inline(always)]
fn is_long(esr: u64) -> bool {
    Esr::from_bits(esr).instruction_length() == LONG
}

/// A synchronous exit of AArch64 code.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_sync(exited: Exited) -> Option<Exited> {
    const HYPERCALL: u64 = Class::Hvc64 as u64;
    let esr = read!("esr_el2");
    let class = esr >> 26 & 0x3f;
    if class == HYPERCALL {
        return exited.handle(|vcpu, local| hypercall(vcpu, local, esr));
    }
    other(exited, esr, class)
}

/// Any synchronous exit of AArch64 code but a hypercall.
#[inline(never)]
extern "C" fn other(exited: Exited, esr: u64, class: u64) -> Option<Exited> {
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    const SYSTEM_REGISTER: u64 = Class::SystemRegister as u64;
    match class {
        DATA_ABORT => data_abort(exited, esr),
        SYSTEM_REGISTER => exited.handle(|vcpu, local| system_register(vcpu, local, esr)),
        _ => exited.not_done(),
    }
}

#[inline(always)]
fn hypercall(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    let Some(answer) = constant_answer(vcpu.context.regs.x[0] as u32) else {
        return Fast::Slow;
    };
    // HVC's return address is already that of the next instruction.
    vcpu.context.regs.x[0] = answer as u64;
    local.exited(vcpu, esr, read!("elr_el2"));
    local.handled(vcpu, Cause::Hypercall);
    Fast::Done
}

/// A load or store that stage 2 did not translate, by an instruction of [`LONG`] bytes. The cases differ by
/// the page, and their functions are called last, so that each saves only the registers that it needs
/// itself.
#[inline(always)]
fn data_abort(exited: Exited, esr: u64) -> Option<Exited> {
    /// HPFAR_EL2.FIPA of an address.
    const fn page(ipa: Ipa) -> u64 {
        ipa.get() >> 12 << 4
    }
    const DISTRIBUTOR: u64 = page(platform::GIC_DIST);
    const SERIAL_PORT: u64 = page(platform::UART);
    match read!("hpfar_el2") {
        DISTRIBUTOR if is_store(esr) => distributor_store(exited, esr),
        DISTRIBUTOR => distributor_load(exited, esr),
        SERIAL_PORT if is_store(esr) => serial_port_store(exited, esr),
        SERIAL_PORT => serial_port_load(exited, esr),
        _ => device(exited, esr),
    }
}

/// The offset in its page of the address that a load or store went to.
#[inline(always)]
fn offset() -> u64 {
    read!("far_el2") & 0xfff
}

/// A load of a word of the distributor whose value does not depend on list registers, as that of the
/// register which drivers read most. The rest of this path would do the same, but takes longer to find out
/// where the load goes.
#[inline(never)]
fn distributor_load(exited: Exited, esr: u64) -> Option<Exited> {
    let load = |vcpu: &mut Vcpu, local: &mut Local| {
        let Some(register) = register_of_word_load(esr).filter(|register| is_saved(*register))
        else {
            return Fast::Slow;
        };
        let Some(value) = vcpu.unit.vm.distributor_word(vcpu.core.id, offset()) else {
            return Fast::Slow;
        };
        vcpu.context.regs.set(register, value.into());
        passed(vcpu, local, esr, LONG)
    };
    exited.handle_or(load, |exited| device(exited, esr))
}

/// An SGI to one other vCPU, on a GICv2. The rest of this path handles X30 and the zero register, to keep
/// this short.
#[inline(never)]
fn distributor_store(exited: Exited, esr: u64) -> Option<Exited> {
    let store = |vcpu: &mut Vcpu, local: &mut Local| {
        let Some(register) = register_of_word_store(esr) else {
            return Fast::Slow;
        };
        if offset() != Sgir::OFFSET || register > 18 {
            return Fast::Slow;
        }
        let value = vcpu.context.regs.get(register) as u32;
        let vm = &vcpu.unit.vm;
        let posted = vm.post_sgir(local.board, vm.gic_version(), vcpu.core.id, value);
        if posted == Attempt::Untouched {
            return Fast::Slow;
        }
        passed(vcpu, local, esr, LONG)
    };
    exited.handle_or(store, |exited| device(exited, esr))
}

/// A load of the register that says whether the serial port has room or a byte, or of a byte itself, if the
/// load has no other effect. The rest of this path would do the same, with more work. It handles X30 and
/// the zero register, to keep this short.
#[inline(never)]
fn serial_port_load(exited: Exited, esr: u64) -> Option<Exited> {
    let load = |vcpu: &mut Vcpu, local: &mut Local| {
        let Some((register, mask)) = register_of_narrow_load(esr) else {
            return Fast::Slow;
        };
        if register > 18 {
            return Fast::Slow;
        }
        let Some(value) = vcpu.unit.vm.load_serial_port(local.board, offset()) else {
            return Fast::Slow;
        };
        vcpu.context.regs.set(register, (value & mask).into());
        passed(vcpu, local, esr, LONG)
    };
    exited.handle_or(load, |exited| device(exited, esr))
}

/// The sending of a byte by the serial port, as [`serial_port_load`].
#[inline(never)]
fn serial_port_store(exited: Exited, esr: u64) -> Option<Exited> {
    let store = |vcpu: &mut Vcpu, local: &mut Local| {
        let Some(register) = register_of_narrow_store(esr) else {
            return Fast::Slow;
        };
        if register > 18 {
            return Fast::Slow;
        }
        let byte = vcpu.context.regs.get(register) as u8;
        let vm = &vcpu.unit.vm;
        if vm.store_serial_port(local.board, offset(), byte) == Attempt::Untouched {
            return Fast::Slow;
        }
        passed(vcpu, local, esr, LONG)
    };
    exited.handle_or(store, |exited| device(exited, esr))
}

/// A load or store of one register, wherever it goes.
#[inline(never)]
fn device(exited: Exited, esr: u64) -> Option<Exited> {
    exited.handle(|vcpu, local| access_device(vcpu, local, esr))
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
        .is_err()
    {
        return Fast::Slow;
    }
    vcpu.rearm(local);
    passed(vcpu, local, esr, Esr::from_bits(esr).instruction_length())
}

/// Ends the exit of a load or store by an instruction of `length` bytes that was handled.
#[inline(always)]
fn passed(vcpu: &mut Vcpu, local: &mut Local, esr: u64, length: u64) -> Fast {
    let pc = advance(length);
    local.exited(vcpu, esr, pc);
    local.handled(vcpu, Cause::Device);
    Fast::Done
}

/// An SGI to one other vCPU.
#[inline(always)]
fn system_register(vcpu: &mut Vcpu, local: &mut Local, esr: u64) -> Fast {
    let Some(operand) = operand_of_write(SysReg::ICC_SGI1R_EL1, esr) else {
        return Fast::Slow;
    };
    // X30 is left to the slow path, to keep this short.
    if operand > 18 {
        return Fast::Slow;
    }
    let value = vcpu.context.regs.get(operand);
    let vm = &vcpu.unit.vm;
    if vm.post_group1_sgi(local.board, vcpu.core.id, value) == Attempt::Untouched {
        return Fast::Slow;
    }
    // AArch32 code reaches the register by another exit.
    let pc = advance(LONG);
    local.exited(vcpu, esr, pc);
    local.handled(vcpu, Cause::SystemRegister);
    Fast::Done
}

/// Advances the guest past the instruction of `length` bytes that made the exit, in the CPU's own registers.
/// Returns the instruction's address. AArch32 code has to be in a plain state, of which nothing else changes.
#[inline(always)]
fn advance(length: u64) -> u64 {
    let (pc, pstate) = (read!("elr_el2"), read!("spsr_el2"));
    // SAFETY: used by the return to the guest alone, whose program counter it is.
    unsafe { write_own!("elr_el2", pc.wrapping_add(length)) };
    // SAFETY: the guest's own PSTATE, whose exception level stays.
    unsafe { write_own!("spsr_el2", Regs::advanced_pstate(pstate)) };
    pc
}

/// A physical interrupt, which is acknowledged here in any case.
#[unsafe(no_mangle)]
extern "C" fn hanok_fast_irq(mut exited: Exited) -> Option<Exited> {
    let board = exited.with(|_, local| local.board);
    // The version is matched once, so that neither path tests it again.
    match &board.machine.gic {
        BoardGic::V3 => interrupt_v3(exited),
        BoardGic::V2(gic, lists) => interrupt_v2(exited, gic, lists),
    }
}

#[inline(never)]
fn interrupt_v3(exited: Exited) -> Option<Exited> {
    interrupt(exited, SystemRegisters, &HardwareLists)
}

#[inline(never)]
fn interrupt_v2(exited: Exited, gic: &HostGicV2, lists: &GichLists) -> Option<Exited> {
    interrupt(exited, *gic, lists)
}
