//! From the trap entry to the core, and back.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::outcome::{self, After, act, advance, arrived, go_on};
use crate::service::guest;
use crate::vcpu::Vcpu;
use crate::{aborts, fp, read};
use core::ptr;
use hanok_decode::{Class, Syndrome};
use hanok_vm::{Action, Cause, CoprocessorAccess, Exit, SystemRegister};

/// PSTATE.M[4]: AArch32.
pub(crate) const AARCH32: u64 = 1 << 4;

#[unsafe(no_mangle)]
extern "C" fn hanok_on_sync(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (cause, after) = on_sync(vcpu);
    go_on(vcpu, cause, after)
}

fn on_sync(vcpu: *mut Vcpu) -> (Cause, After) {
    let (vcpu, cpu, board) = arrived(vcpu);
    let esr = read!("esr_el2");
    vcpu.trail.add(esr, vcpu.regs.pc);
    if esr >> 26 & 0x3f == Class::Hvc64 as u64 {
        let action = guest(vcpu, board, &mut board.gic.lists()).hypercall();
        return (Cause::Hypercall, act(vcpu, cpu, esr, action));
    }
    on_other(vcpu, cpu, board, esr)
}

#[inline(never)]
fn on_other(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board, esr: u64) -> (Cause, After) {
    let syndrome = Syndrome::decode(esr);
    if vcpu.regs.is_aarch32() && !vcpu.psr().passes(syndrome.condition(esr)) {
        // The CPU may trap what its condition lets do nothing (DDI 0487, G1.20.2).
        advance(vcpu, esr);
        return (Cause::Denied, After::Resume);
    }
    if syndrome == Syndrome::FpAccess && load_fp(vcpu, cpu) {
        return (Cause::Fp, After::Resume);
    }
    let Some(exit) = exit_of(vcpu, syndrome) else {
        return (Cause::Device, After::Resume);
    };
    if exit == Exit::Unexpected {
        outcome::notice_unexpected(vcpu, board, esr);
    }
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(exit);
    if let (Exit::Fetch { ipa, .. }, Action::Inject(_)) = (exit, action) {
        aborts::notice_fault_loop(vcpu, board, ipa);
    }
    (Cause::from(&exit), act(vcpu, cpu, esr, action))
}

/// FP registers to the CPU, at the guest's first use since it came; `false` where it has them.
fn load_fp(vcpu: &mut Vcpu, cpu: &mut Cpu) -> bool {
    if ptr::eq(cpu.fp_owner, vcpu) {
        return false;
    }
    fp::open();
    if !cpu.fp_owner.is_null() {
        // SAFETY: another one of this pCPU's own vCPUs, to which no reference is held.
        unsafe { (*cpu.fp_owner).fp.save() };
    }
    vcpu.fp.load();
    cpu.fp_owner = vcpu;
    true
}

/// The exit in the core's words; `None` where the guest is to try again.
fn exit_of(vcpu: &Vcpu, syndrome: Syndrome) -> Option<Exit> {
    if let Some(access) = coprocessor(syndrome) {
        // A 64-bit kernel's 32-bit program has nothing there.
        return Some(match vcpu.is_aarch32() {
            true => Exit::Coprocessor(access),
            false => Exit::Denied,
        });
    }
    Some(match syndrome {
        Syndrome::Hvc(_) => Exit::Hypercall,
        Syndrome::Smc(_) => Exit::MonitorCall,
        Syndrome::Wait(_) => Exit::Wait,
        Syndrome::SystemRegister(access) => Exit::SystemRegister(SystemRegister {
            id: access.register,
            register: access.operand,
            write: !access.read,
        }),
        Syndrome::DataAbort(abort) => return aborts::data_exit(vcpu, &abort),
        Syndrome::InstructionAbort(abort) => aborts::fetch_exit(vcpu, &abort),
        Syndrome::Sve
        | Syndrome::Sme(_)
        | Syndrome::PointerAuthentication
        | Syndrome::OtherInstruction(_)
        | Syndrome::Unknown
        | Syndrome::Cp14Transfer(_)
        | Syndrome::Other(_) => Exit::Denied,
        _ => Exit::Unexpected,
    })
}

/// A trapped coprocessor instruction; its general registers are AArch64's.
fn coprocessor(syndrome: Syndrome) -> Option<CoprocessorAccess> {
    Some(match syndrome {
        Syndrome::Cp15(one) => CoprocessorAccess::Cp15(one),
        Syndrome::Cp15Pair(pair) => CoprocessorAccess::Cp15Pair(pair),
        Syndrome::Cp14(one) => CoprocessorAccess::Cp14(one),
        Syndrome::Cp14Pair(pair) => CoprocessorAccess::Cp14Pair(pair),
        Syndrome::Vmrs(one) => CoprocessorAccess::Vmrs(one),
        _ => return None,
    })
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (cause, after) = outcome::on_irq(vcpu);
    go_on(vcpu, cause, after)
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_serror(vcpu: *mut Vcpu) -> *mut Vcpu {
    system_error(vcpu)
}

/// A physical SError arrived while `vcpu`, this pCPU's own, ran: it is the guest's.
///
/// EL2 itself runs with SErrors masked, so one that the hypervisor causes shows here too,
/// after the next entry; it is contained, if blamed on the guest.
pub fn system_error(vcpu: *mut Vcpu) -> *mut Vcpu {
    let after = on_serror(vcpu);
    go_on(vcpu, Cause::SystemError, after)
}

fn on_serror(vcpu: *mut Vcpu) -> After {
    let (vcpu, cpu, board) = arrived(vcpu);
    let esr = read!("esr_el2");
    board.notice(
        vcpu.unit,
        format_args!("SError while it ran (ESR_EL2 {esr:#x}), handed to it"),
    );
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(Exit::SystemError);
    act(vcpu, cpu, esr, action)
}
