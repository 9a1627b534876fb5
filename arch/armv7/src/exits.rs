//! The way of an exit from the trap entry to the core, and back.

use crate::{Host, Vcpu, read};
use hanok_arm_common::exited::Exited;
use hanok_arm_common::{aborts, cpu};
use hanok_decode::{Coprocessor, CoprocessorPair, Psr, Syndrome, banked_register};
use hanok_hal::Backend;
use hanok_pcpu::{After, FpAccess, Pcpu, guest};
use hanok_vm::{Cause, CoprocessorAccess, Exit};

/// DFSC of an asynchronous external abort (DDI 0406C, B3.13.3), which in AArch64 is a class of
/// its own.
const ASYNCHRONOUS: u64 = 0b01_0001;

/// Handles an exit of the vCPU that is resident, and gives the trap entry the one to enter.
#[inline(always)]
fn handle(handler: impl FnOnce(&mut Pcpu<Host>) -> (Cause, After)) -> *mut Vcpu {
    // SAFETY: the trap entry calls one handler at a time, on a CPU that runs guests; the vCPU's
    // pointer that the entry holds is used again only where this gives it anew.
    let cpu = unsafe { cpu::here_at_el2::<Host>() };
    cpu.handle(handler)
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_sync() -> *mut Vcpu {
    handle(on_sync)
}

/// The hypercall that yields, whose answer is `answer`. No other register is read or changed.
#[inline(never)]
pub(crate) fn yields(_exited: Exited<Host>, esr: u64, answer: i64) -> Option<Exited<Host>> {
    let vcpu = handle(|pcpu| {
        if let (Some(vcpu), local) = pcpu.resident_and_local() {
            vcpu.context.frame[0] = answer as u32;
            vcpu.context.arrive_folded();
            local.exited(vcpu, esr, read!("elr_el2"));
        }
        (Cause::Hypercall, After::Yield)
    });
    // SAFETY: the exit has just ended, and this is what the trap entry is told.
    unsafe { Exited::ended(vcpu) }
}

fn on_sync(pcpu: &mut Pcpu<Host>) -> (Cause, After) {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    vcpu.context.arrive();
    let esr = read!("esr_el2");
    local.exited(vcpu, esr, vcpu.context.regs.pc);
    let syndrome = Syndrome::decode(esr);
    if !vcpu.context.psr().passes(syndrome.condition(esr)) {
        // The CPU may trap an instruction whose condition fails, and which does nothing (B1.14.4).
        vcpu.advance(esr);
        return (Cause::Denied, After::Resume);
    }
    if syndrome == Syndrome::FpAccess && is_fp(esr) && pcpu.give_fp() == FpAccess::Given {
        return (Cause::Fp, After::Resume);
    }
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    let Some(exit) = exit_of(vcpu, esr, syndrome) else {
        return (Cause::Device, After::Resume);
    };
    let board = local.board;
    vcpu.notice(board, &exit, esr);
    let action = guest(vcpu, board, &mut board.machine.lists()).handle(exit);
    vcpu.notice_fault_loop(board, &exit, action);
    #[cfg(feature = "selftest")]
    if board.machine.planted.ids_are_unsteady() && matches!(action, hanok_vm::Action::Inject(_)) {
        crate::traps::unsettle_ids();
    }
    (Cause::from(&exit), vcpu.act(local, esr, action))
}

/// Whether a trapped coprocessor access is one to FP or SIMD (HSR's ISS, B3.13.6: coproc 10 or
/// 11, or TA); the other coprocessors are not there.
fn is_fp(esr: u64) -> bool {
    const SIMD: u64 = 1 << 5;
    esr & SIMD != 0 || matches!(esr & 0xf, 10 | 11)
}

/// The exit in the core's terms; `None` if the guest must try the instruction again.
fn exit_of(vcpu: &Vcpu, esr: u64, syndrome: Syndrome) -> Option<Exit> {
    let mode = vcpu.context.psr();
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
        Syndrome::InstructionAbort(abort) => return aborts::fetch_exit(vcpu, &abort),
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
extern "C" fn hanok_on_irq() -> *mut Vcpu {
    handle(|pcpu| {
        if let Some(vcpu) = pcpu.resident() {
            vcpu.context.arrive_folded();
        }
        (Cause::Interrupt, pcpu.interrupted())
    })
}

/// Acts as if an asynchronous abort had arrived while the vCPU ran that this CPU is about to enter. Returns
/// the vCPU to enter. For a test; a real abort comes by [`hanok_on_sync`].
///
/// # Safety
/// As for [`cpu::here`].
#[cfg(feature = "selftest")]
pub unsafe fn system_error() -> *mut Vcpu {
    handle(|pcpu| {
        let (Some(vcpu), local) = pcpu.resident_and_local() else {
            return (Cause::SystemError, After::Reconsider);
        };
        // The registers of the vCPU that was about to be entered are as after an exit.
        vcpu.context.arrive();
        let board = local.board;
        vcpu.notice(board, &Exit::SystemError, 0);
        let action = guest(vcpu, board, &mut board.machine.lists()).handle(Exit::SystemError);
        (Cause::SystemError, vcpu.act(local, 0, action))
    })
}
