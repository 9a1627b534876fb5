//! From the trap entry to the core, and back.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::outcome::{self, After, act, advance, arrived, count, go_on};
use crate::service::guest;
use crate::vcpu::Vcpu;
use crate::{aborts, fp, read, traps};
use core::ptr;
use hanok_decode::{Coprocessor, CoprocessorPair, Psr, Syndrome, banked_register};
use hanok_vm::{Action, Cause, CoprocessorAccess, Exit};

/// DFSC of an asynchronous external abort (DDI 0406C, B3.13.3), which in AArch64 is a class of
/// its own.
const ASYNCHRONOUS: u64 = 0b01_0001;

#[unsafe(no_mangle)]
extern "C" fn hanok_on_sync(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (cause, after) = on_sync(vcpu);
    go_on(vcpu, cause, after)
}

/// HVC to let others run, which answers with `answer`: nobody looks at another register.
pub(crate) fn yields(vcpu: *mut Vcpu, esr: u64, answer: i64) -> *mut Vcpu {
    let (ours, ..) = arrived(vcpu);
    ours.frame[0] = answer as u32;
    ours.arrive_folded();
    ours.trail.add(esr, read!("elr_el2"));
    go_on(vcpu, Cause::Hypercall, After::Yield)
}

fn on_sync(vcpu: *mut Vcpu) -> (Cause, After) {
    let (vcpu, cpu, board) = arrived(vcpu);
    vcpu.arrive();
    let esr = read!("esr_el2");
    vcpu.trail.add(esr, vcpu.regs.pc);
    let syndrome = Syndrome::decode(esr);
    if !vcpu.psr().passes(syndrome.condition(esr)) {
        // The CPU may trap what its condition lets do nothing (B1.14.4).
        advance(vcpu, esr);
        return (Cause::Denied, After::Resume);
    }
    if syndrome == Syndrome::FpAccess && is_fp(esr) && load_fp(vcpu, cpu) {
        return (Cause::Fp, After::Resume);
    }
    let Some(exit) = exit_of(vcpu, esr, syndrome) else {
        return (Cause::Device, After::Resume);
    };
    match exit {
        Exit::SystemError => notice_error(vcpu, board, esr),
        Exit::Unexpected => outcome::notice_unexpected(vcpu, board, esr),
        _ => {}
    }
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(exit);
    if let (Exit::Fetch { ipa, .. }, Action::Inject(_)) = (exit, action) {
        aborts::notice_fault_loop(vcpu, board, ipa);
    }
    if board.unsteady_ids && matches!(action, Action::Inject(_)) {
        traps::unsettle_ids();
    }
    (Cause::from(&exit), act(vcpu, cpu, esr, action))
}

/// Whether a trapped coprocessor access is one to FP or SIMD (HSR's ISS, B3.13.6: coproc 10 or
/// 11, or TA); the other coprocessors are not there.
fn is_fp(esr: u64) -> bool {
    const SIMD: u64 = 1 << 5;
    esr & SIMD != 0 || matches!(esr & 0xf, 10 | 11)
}

fn notice_error(vcpu: &Vcpu, board: &Board, esr: u64) {
    board.notice(
        vcpu.unit,
        format_args!("an asynchronous abort while it ran (HSR {esr:#x}), handed to it"),
    );
}

/// FP registers to the CPU, at the guest's first use since it came; `false` where there are none,
/// or it has them.
fn load_fp(vcpu: &mut Vcpu, cpu: &mut Cpu) -> bool {
    if ptr::eq(cpu.fp_owner, vcpu) {
        return false;
    }
    // SAFETY: another one of this pCPU's own vCPUs, to which no other reference is held.
    let owner = unsafe { cpu.fp_owner.as_mut() };
    let given = fp::hand_over(owner.map(|owner| &mut owner.fp), &vcpu.fp);
    if given {
        cpu.fp_owner = vcpu;
    }
    given
}

/// The exit in the core's words; `None` where the guest is to try again.
fn exit_of(vcpu: &Vcpu, esr: u64, syndrome: Syndrome) -> Option<Exit> {
    let mode = vcpu.psr();
    let one = |register| with_banked(register, mode);
    Some(match syndrome {
        Syndrome::Hvc(_) => Exit::Hypercall,
        Syndrome::Smc(_) => Exit::MonitorCall,
        Syndrome::Wait(_) => Exit::Wait,
        Syndrome::Cp15(access) => Exit::Coprocessor(CoprocessorAccess::Cp15(one(access))),
        Syndrome::Cp14(access) => Exit::Coprocessor(CoprocessorAccess::Cp14(one(access))),
        Syndrome::Vmrs(access) => Exit::Coprocessor(CoprocessorAccess::Vmrs(one(access))),
        Syndrome::Cp15Pair(pair) => {
            Exit::Coprocessor(CoprocessorAccess::Cp15Pair(with_banked_pair(pair, mode)))
        }
        Syndrome::Cp14Pair(pair) => {
            Exit::Coprocessor(CoprocessorAccess::Cp14Pair(with_banked_pair(pair, mode)))
        }
        Syndrome::DataAbort(_) if esr & 0x3f == ASYNCHRONOUS => Exit::SystemError,
        Syndrome::DataAbort(abort) => return aborts::data_exit(vcpu, &abort),
        Syndrome::InstructionAbort(abort) => aborts::fetch_exit(vcpu, &abort),
        Syndrome::FpAccess | Syndrome::Cp14Transfer(_) | Syndrome::Unknown | Syndrome::Other(_) => {
            Exit::Denied
        }
        // In ARMv7 classes 0x09 and 0x0a are Jazelle's registers and BXJ (HSR.EC, B3.13.6), which
        // HSTR.TJDBX would make exit.
        Syndrome::PointerAuthentication | Syndrome::OtherInstruction(_) => Exit::Denied,
        _ => Exit::Unexpected,
    })
}

fn with_banked(access: Coprocessor, psr: Psr) -> Coprocessor {
    Coprocessor {
        register: banked_register(access.register, psr.mode()),
        ..access
    }
}

fn with_banked_pair(access: CoprocessorPair, psr: Psr) -> CoprocessorPair {
    CoprocessorPair {
        registers: access
            .registers
            .map(|register| banked_register(register, psr.mode())),
        ..access
    }
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (ours, ..) = arrived(vcpu);
    ours.arrive_folded();
    let (cause, after) = outcome::on_irq(vcpu);
    go_on(vcpu, cause, after)
}

/// An asynchronous abort arrived while `vcpu`, this pCPU's own and about to run, did: it is the
/// guest's. For a test; a real one comes by [`hanok_on_sync`].
pub fn system_error(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (vcpu, cpu, board) = arrived(vcpu);
    vcpu.unfold();
    notice_error(vcpu, board, 0);
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(Exit::SystemError);
    act(vcpu, cpu, 0, action);
    count(vcpu, cpu, Cause::SystemError);
    vcpu
}
