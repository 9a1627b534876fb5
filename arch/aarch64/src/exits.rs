//! From the trap entry to the core, and back.

use crate::board::Board;
use crate::cpu::{self, Cpu};
use crate::fetch::instruction;
use crate::service::{self, guest};
use crate::stage1::translate;
use crate::vcpu::Vcpu;
use crate::{fp, inject, read, schedule, write};
use hanok_decode::{Class, Esr, Fault, Psr, Syndrome, syndrome_register};
use hanok_types::Ipa;
use hanok_vm::{Action, Cause, CoprocessorAccess, DataAbort, Exit, MmioAccess, SystemRegister};

/// PSTATE.M[4]: AArch32.
pub(crate) const AARCH32: u64 = 1 << 4;

/// How a vCPU goes on after its exit.
enum After {
    Resume,
    Sleep,
    Reconsider,
    Yield,
}

/// The vCPU that left the guest, its pCPU and the board.
#[inline(always)]
pub(crate) fn arrived<'a>(vcpu: *mut Vcpu) -> (&'a mut Vcpu, &'a mut Cpu, &'static Board) {
    // SAFETY: the trap entry passes the vCPU that ran, which belongs to this pCPU alone and
    // lives for ever; so does the pCPU's own record, which is distinct memory. No other
    // reference to either exists: the hypervisor keeps none across a guest's run, and the
    // handlers give theirs up before they go to the scheduler.
    let (vcpu, cpu) = unsafe { (&mut *vcpu, &mut *cpu::current()) };
    debug_assert!(cpu.board.is_some());
    // SAFETY: a pCPU that ran a guest has its board, for ever: `schedule` has asked for it.
    let board = unsafe { cpu.board.unwrap_unchecked() };
    (vcpu, cpu, board)
}

/// The vCPU to resume; what was done since the last time is charged to `cause`.
fn go_on(vcpu: *mut Vcpu, cause: Cause, after: After) -> *mut Vcpu {
    let next = match after {
        After::Resume => vcpu,
        After::Sleep => schedule::wait(),
        After::Reconsider => schedule::next(),
        After::Yield => schedule::give_way(),
    };
    let (vcpu, cpu, _) = arrived(vcpu);
    count(vcpu, cpu, cause);
    next
}

/// Counts an exit of `vcpu`, and charges what was executed since the last one to its cause.
#[inline(always)]
pub(crate) fn count(vcpu: &Vcpu, cpu: &mut Cpu, cause: Cause) {
    vcpu.counters.count(cause);
    if cpu.counts_instructions {
        vcpu.counters.charge(cause, cpu.instructions_since());
    }
}

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
        return (Cause::Hypercall, act(vcpu, cpu, board, esr, action));
    }
    on_other(vcpu, cpu, board, esr)
}

#[inline(never)]
fn on_other(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board, esr: u64) -> (Cause, After) {
    let syndrome = Syndrome::decode(esr);
    if vcpu.regs.is_aarch32() && !psr(vcpu).passes(syndrome.condition(esr)) {
        // The CPU may trap what its condition lets do nothing (DDI 0487, G1.20.2).
        advance(vcpu, esr);
        return (Cause::Denied, After::Resume);
    }
    if syndrome == Syndrome::FpAccess {
        load_fp(vcpu, cpu);
        return (Cause::Fp, After::Resume);
    }
    let Some(exit) = exit_of(vcpu, esr, syndrome) else {
        return (Cause::Device, After::Resume);
    };
    if let Exit::Fetch { ipa, .. } = exit {
        notice_fault_loop(vcpu, board, ipa);
    }
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(exit);
    (Cause::from(&exit), act(vcpu, cpu, board, esr, action))
}

/// Carries out what the core decided.
fn act(vcpu: &mut Vcpu, cpu: &Cpu, board: &Board, esr: u64, action: Action) -> After {
    if core::mem::take(&mut vcpu.core.rearm) {
        service::set_timer(Some(vcpu), cpu);
    }
    match action {
        Action::Resume => {}
        Action::Next => advance(vcpu, esr),
        Action::Inject(fault) => inject::inject(vcpu, fault),
        Action::GiveDebug => give_debug(vcpu, board),
        Action::Wait => {
            advance(vcpu, esr);
            return After::Sleep;
        }
        Action::Sleep => return After::Sleep,
        Action::Reconsider => return After::Reconsider,
        Action::Yield => return After::Yield,
    }
    After::Resume
}

/// The debug registers become the guest's.
fn give_debug(vcpu: &mut Vcpu, board: &Board) {
    vcpu.debug.given = true;
    vcpu.debug.load();
    write!("mdscr_el1", vcpu.core.mdscr);
    write!("oslar_el1", u64::from(vcpu.core.os_lock));
    write!("mdcr_el2", board.features.mdcr(true));
}

/// A guest whose exception vector cannot be fetched faults on it for ever, as on a board.
/// That is its right, but nobody is to wonder why nothing happens: said once a life.
fn notice_fault_loop(vcpu: &mut Vcpu, board: &Board, ipa: Ipa) {
    let pc = vcpu.regs.pc;
    if pc != inject::fetch_vector(vcpu) || core::mem::replace(&mut vcpu.loop_noticed, true) {
        return;
    }
    let id = vcpu.core.id;
    board.notice(
        vcpu.unit,
        format_args!(
            "vCPU {id} is stuck: its exception vector at {pc:#x} lies where nothing is ({ipa}); \
             the first fault came before the guest had set VBAR_EL1, or that is wrong"
        ),
    );
}

/// The status of an AArch32 vCPU.
fn psr(vcpu: &Vcpu) -> Psr {
    Psr::from_bits(vcpu.regs.pstate as u32)
}

/// Past the instruction that made the exit.
fn advance(vcpu: &mut Vcpu, esr: u64) {
    vcpu.regs.advance(Esr::from_bits(esr).instruction_length());
}

/// FP registers to the CPU, at the guest's first use since it came.
fn load_fp(vcpu: &mut Vcpu, cpu: &mut Cpu) {
    fp::open();
    if !cpu.fp_owner.is_null() {
        // SAFETY: another of this pCPU's own vCPUs: `vcpu`'s own would not be closed.
        unsafe { (*cpu.fp_owner).fp.save() };
    }
    vcpu.fp.load();
    cpu.fp_owner = vcpu;
}

/// The exit in the core's words; `None` where the guest is to try again.
fn exit_of(vcpu: &Vcpu, esr: u64, syndrome: Syndrome) -> Option<Exit> {
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
        Syndrome::DataAbort(abort) => return data_exit(vcpu, &abort),
        Syndrome::InstructionAbort(abort) => Exit::Fetch {
            ipa: if abort.has_ipa() {
                fault_ipa(abort.on_walk)
            } else {
                // Where there is something that is not for fetching, and perhaps not for reading.
                translate(vcpu, vcpu.regs.pc).unwrap_or_default()
            },
            walk: abort.on_walk,
        },
        Syndrome::Sve
        | Syndrome::Sme(_)
        | Syndrome::PointerAuthentication
        | Syndrome::OtherInstruction(_)
        | Syndrome::Unknown
        | Syndrome::Cp14Transfer(_) => Exit::Denied,
        _ => Exit::Unexpected { syndrome: esr },
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

/// The general register that the syndrome of a data abort means.
fn register(vcpu: &Vcpu, register: u8) -> u8 {
    match vcpu.regs.is_aarch32() {
        true => syndrome_register(register, psr(vcpu).mode()),
        false => register,
    }
}

/// A load's or store's exit. After a permission fault HPFAR_EL2 is unknown, and the address
/// is translated by hand; where that fails, the guest's tables have changed meanwhile, and
/// it tries again.
fn data_exit(vcpu: &Vcpu, abort: &hanok_decode::DataAbort) -> Option<Exit> {
    let ipa = match abort.fault {
        _ if abort.has_ipa() => fault_ipa(abort.on_walk),
        Fault::Permission(_) => translate(vcpu, read!("far_el2"))?,
        _ => {
            return Some(Exit::Refused { write: abort.write });
        }
    };
    Some(Exit::Data(data(vcpu, abort, ipa)))
}

/// HPFAR_EL2's page, and the offset of FAR_EL2 in it (which a walk's fault does not give).
#[inline(always)]
pub(crate) fn fault_ipa(walk: bool) -> Ipa {
    let page = (read!("hpfar_el2") >> 4 & 0xff_ffff_ffff) << 12;
    let offset = if walk { 0 } else { read!("far_el2") & 0xfff };
    Ipa::new(page | offset)
}

fn data(vcpu: &Vcpu, abort: &hanok_decode::DataAbort, ipa: Ipa) -> DataAbort {
    let access = abort
        .access
        .filter(|_| !abort.cache_maintenance)
        .map(|access| MmioAccess {
            width: access.width,
            register: register(vcpu, access.register),
            sign_extend: access.sign_extend,
            wide: access.wide,
        });
    DataAbort {
        ipa,
        write: abort.write,
        walk: abort.on_walk,
        access,
        instruction: if access.is_none() && !abort.on_walk {
            instruction(vcpu)
        } else {
            None
        },
    }
}

#[unsafe(no_mangle)]
extern "C" fn hanok_on_irq(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (cause, after) = on_irq(vcpu);
    go_on(vcpu, cause, after)
}

fn on_irq(vcpu: *mut Vcpu) -> (Cause, After) {
    let (vcpu, cpu, board) = arrived(vcpu);
    // The vCPU is the resident one, which `serve` reaches through `cpu`.
    let (unit, id) = (vcpu.unit, vcpu.core.id);
    match cpu.taken.take() {
        Some(taken) => service::serve(cpu, board, taken),
        // A kick, which has been ended.
        None => service::refresh(vcpu, cpu, board),
    }
    // Whoever is kicked, or has come to its time, may be another vCPU of this pCPU.
    let stays = !cpu.is_shared() && unit.vm.may_run(id);
    let after = if stays {
        After::Resume
    } else {
        After::Reconsider
    };
    (Cause::Interrupt, after)
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
    act(vcpu, cpu, board, esr, action)
}
