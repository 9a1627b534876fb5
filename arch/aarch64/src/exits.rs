//! The way of an exit from the trap entry to the core, and back.

use crate::{Host, Vcpu, read};
use hanok_arm_common::{aborts, cpu};
use hanok_decode::{Class, Frequent, Syndrome};
use hanok_hal::Backend;
use hanok_pcpu::{After, FpAccess, Pcpu, guest};
use hanok_types::{Ipa, platform};
use hanok_vm::{
    Action, Cause, CoprocessorAccess, Exit, MmioAccess, SystemRegister, Wait, yield_answer,
};

/// Handles an exit of the vCPU that is resident, and gives the trap entry the one to enter.
#[inline(always)]
fn handle(handler: impl FnOnce(&mut Pcpu<Host>) -> (Cause, After)) -> *mut Vcpu {
    // SAFETY: the trap entry calls one handler at a time, on a CPU that runs guests; the vCPU's
    // pointer that the entry holds is used again only where this gives it anew.
    let cpu = unsafe { cpu::here::<Host>() };
    cpu.handle(handler)
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_sync() -> *mut Vcpu {
    handle(on_sync)
}

#[inline(always)]
fn on_sync(pcpu: &mut Pcpu<Host>) -> (Cause, After) {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    let esr = read!("esr_el2");
    local.exited(vcpu, esr, vcpu.context.regs.pc);
    if esr >> 26 & 0x3f == Class::Hvc64 as u64 {
        // Before the calls that are told apart one after the other: a yield is what switches cost.
        if let Some(answer) = yield_answer(vcpu.context.regs.x[0] as u32) {
            vcpu.context.regs.x[0] = answer as u64;
            return (Cause::Hypercall, vcpu.act(local, esr, Action::Yield));
        }
        let board = local.board;
        let action = guest(vcpu, board, &mut board.machine.lists()).hypercall();
        return (Cause::Hypercall, vcpu.act(local, esr, action));
    }
    on_other(pcpu, esr)
}

/// Exits of AArch64 code that are the most of all that come here have ways of their own, without a whole look at the syndrome.
#[inline(never)]
fn on_other(pcpu: &mut Pcpu<Host>, esr: u64) -> (Cause, After) {
    const WAIT: u64 = Class::Wfx as u64;
    const DATA_ABORT: u64 = Class::DataAbortLower as u64;
    match esr >> 26 & 0x3f {
        WAIT => on_wait(pcpu, esr),
        DATA_ABORT => {
            let ipa = aborts::fault_ipa(read!("far_el2"), false);
            // The interrupt controller, which most of these exits are for, lies before the shared devices, and RAM behind them.
            if (platform::VIRTIO..platform::RAM).contains(&ipa) {
                return on_device(pcpu, esr, ipa);
            }
            on_rare(pcpu, esr)
        }
        _ => on_rare(pcpu, esr),
    }
}

/// A WFI or WFE.
#[inline(never)]
fn on_wait(pcpu: &mut Pcpu<Host>, esr: u64) -> (Cause, After) {
    match pcpu.resident_and_local() {
        (Some(vcpu), local) if !vcpu.context.regs.is_aarch32() => {
            let action = Action::NextThenBlock(Wait::Interrupt);
            (Cause::Wait, vcpu.act(local, esr, action))
        }
        _ => on_rare(pcpu, esr),
    }
}

/// An access at `ipa`, where shared devices may be.
#[inline(never)]
fn on_device(pcpu: &mut Pcpu<Host>, esr: u64, ipa: Ipa) -> (Cause, After) {
    if let (Some(vcpu), local) = pcpu.resident_and_local()
        && !vcpu.context.regs.is_aarch32()
        && let Some(Frequent::Access { access, write }) = Frequent::decode(esr)
    {
        let access = MmioAccess {
            width: access.width,
            register: access.register,
            sign_extend: access.sign_extend,
            wide: access.wide,
        };
        let board = local.board;
        let lists = &mut board.machine.lists();
        let action = guest(vcpu, board, lists).access_slow_slot_by_register(ipa, write, access);
        if let Some(action) = action {
            return (Cause::Device, vcpu.act(local, esr, action));
        }
    }
    on_rare(pcpu, esr)
}

#[inline(never)]
fn on_rare(pcpu: &mut Pcpu<Host>, esr: u64) -> (Cause, After) {
    let syndrome = Syndrome::decode(esr);
    if syndrome == Syndrome::FpAccess
        && !is_skipped(pcpu, syndrome, esr)
        && pcpu.give_fp() == FpAccess::Given
    {
        return (Cause::Fp, After::Resume);
    }
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    if condition_fails(vcpu, syndrome, esr) {
        vcpu.advance(esr);
        return (Cause::Denied, After::Resume);
    }
    let Some(exit) = exit_of(vcpu, syndrome) else {
        return (Cause::Device, After::Resume);
    };
    let board = local.board;
    vcpu.notice(board, &exit, esr);
    let action = guest(vcpu, board, &mut board.machine.lists()).handle(exit);
    vcpu.notice_fault_loop(board, &exit, action);
    (Cause::from(&exit), vcpu.act(local, esr, action))
}

/// Whether the instruction's condition fails, so that it does nothing: the CPU may trap such an
/// instruction nevertheless (DDI 0487, G1.20.2).
fn condition_fails(vcpu: &Vcpu, syndrome: Syndrome, esr: u64) -> bool {
    let context = &vcpu.context;
    context.regs.is_aarch32() && !context.psr().passes(syndrome.condition(esr))
}

/// [`condition_fails`] for the resident vCPU.
fn is_skipped(pcpu: &mut Pcpu<Host>, syndrome: Syndrome, esr: u64) -> bool {
    pcpu.resident()
        .is_some_and(|vcpu| condition_fails(vcpu, syndrome, esr))
}

/// The exit in the core's terms; `None` if the guest must try the instruction again.
fn exit_of(vcpu: &Vcpu, syndrome: Syndrome) -> Option<Exit> {
    if let Some(access) = coprocessor(syndrome) {
        // A 32-bit program under a 64-bit kernel may access no coprocessor.
        return Some(if vcpu.context.is_aarch32() {
            Exit::Coprocessor(access)
        } else {
            Exit::Denied
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
        Syndrome::InstructionAbort(abort) => return aborts::fetch_exit(vcpu, &abort),
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
extern "C" fn hanok_on_irq() -> *mut Vcpu {
    handle(|pcpu| (Cause::Interrupt, pcpu.interrupted()))
}

/// A physical SError arrived while a vCPU ran, and is given to its guest.
///
/// EL2 itself runs with SErrors masked, so one that the hypervisor causes arrives here too,
/// after the next entry; it does no further harm, though the guest is blamed for it.
#[unsafe(no_mangle)]
extern "C" fn hanok_on_serror() -> *mut Vcpu {
    handle(|pcpu| (Cause::SystemError, on_serror(pcpu)))
}

/// Acts as if an SError had arrived while the vCPU ran that this CPU is about to enter. Returns the vCPU to
/// enter. For a test.
///
/// # Safety
/// As for [`cpu::here`].
#[cfg(feature = "selftest")]
pub unsafe fn system_error() -> *mut Vcpu {
    hanok_on_serror()
}

fn on_serror(pcpu: &mut Pcpu<Host>) -> After {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return After::Reconsider;
    };
    let esr = read!("esr_el2");
    let board = local.board;
    vcpu.notice(board, &Exit::SystemError, esr);
    let action = guest(vcpu, board, &mut board.machine.lists()).handle(Exit::SystemError);
    vcpu.act(local, esr, action)
}
