//! From the trap entry to the core, and back.

use crate::board::Board;
use crate::cpu::{self, Cpu};
use crate::fetch::instruction;
use crate::service::{self, guest};
use crate::stage1::translate;
use crate::vcpu::Vcpu;
use crate::{fp, inject, read, schedule, traps};
use hanok_decode::{
    Condition, Coprocessor, CoprocessorPair, Esr, Fault, Psr, Syndrome, banked_register,
};
use hanok_types::Ipa;
use hanok_vm::{Action, Cause, CoprocessorAccess, DataAbort, Exit, MmioAccess};

/// DFSC of an asynchronous external abort (DDI 0406C, B3.13.3), which in AArch64 is a class of
/// its own.
const ASYNCHRONOUS: u64 = 0b01_0001;

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
    let board = cpu.board.expect("a pCPU that ran a guest has its board");
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
    let (vcpu, cpu, board) = arrived(vcpu);
    count(vcpu, cpu, board, cause);
    // SAFETY: this pCPU's own vCPU, which it resumes; the references above are given up.
    unsafe { (*next).depart() };
    next
}

/// Counts an exit of `vcpu`, and charges what was executed since the last one to its cause.
#[inline(always)]
pub(crate) fn count(vcpu: &Vcpu, cpu: &mut Cpu, board: &Board, cause: Cause) {
    vcpu.counters.count(cause);
    if board.counts_instructions {
        vcpu.counters.charge(cause, cpu.instructions_since());
    }
}

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
    if !vcpu.psr().passes(condition(&syndrome)) {
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
    if let Exit::Fetch { ipa, .. } = exit {
        notice_fault_loop(vcpu, board, ipa);
    }
    if exit == Exit::SystemError {
        notice_error(vcpu, board, esr);
    }
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(exit);
    (Cause::from(&exit), act(vcpu, cpu, esr, action))
}

/// The condition of the instruction that exited, where the syndrome has one.
fn condition(syndrome: &Syndrome) -> Condition {
    const ALWAYS: Condition = Condition::Code(0b1110);
    match syndrome {
        Syndrome::Wait(wait) => wait.condition,
        Syndrome::Cp15(one) | Syndrome::Cp14(one) | Syndrome::Vmrs(one) => one.condition,
        Syndrome::Cp15Pair(pair) | Syndrome::Cp14Pair(pair) => pair.condition,
        Syndrome::Cp14Transfer(transfer) => transfer.condition,
        _ => ALWAYS,
    }
}

/// Whether a trapped coprocessor access is one to FP or SIMD (HSR's ISS, B3.13.6: coproc 10 or
/// 11, or TA); the other coprocessors are not there.
fn is_fp(esr: u64) -> bool {
    const SIMD: u64 = 1 << 5;
    esr & SIMD != 0 || matches!(esr & 0xf, 10 | 11)
}

/// Carries out what the core decided.
fn act(vcpu: &mut Vcpu, cpu: &Cpu, esr: u64, action: Action) -> After {
    if core::mem::take(&mut vcpu.core.rearm) {
        service::set_timer(Some(vcpu), cpu);
    }
    match action {
        // Debug registers are never given to AArch32 code: the core answers for them.
        Action::Resume | Action::GiveDebug => {}
        Action::Next => advance(vcpu, esr),
        Action::Inject(fault) => {
            if cpu.board.is_some_and(|board| board.unsteady_ids) {
                traps::unsettle_ids();
            }
            inject::inject(vcpu, fault);
        }
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

/// A guest whose exception vector cannot be fetched faults on it for ever, as on a board.
/// That is its right, but nobody is to wonder why nothing happens: said once a life.
fn notice_fault_loop(vcpu: &mut Vcpu, board: &Board, ipa: Ipa) {
    let pc = vcpu.regs.pc;
    if pc != inject::prefetch_vector() || core::mem::replace(&mut vcpu.loop_noticed, true) {
        return;
    }
    let id = vcpu.core.id;
    board.notice(
        vcpu.unit,
        format_args!(
            "vCPU {id} is stuck: its exception vector at {pc:#x} lies where nothing is ({ipa}); \
             the first fault came before the guest had set VBAR, or that is wrong"
        ),
    );
}

fn notice_error(vcpu: &Vcpu, board: &Board, esr: u64) {
    board.notice(
        vcpu.unit,
        format_args!("an asynchronous abort while it ran (HSR {esr:#x}), handed to it"),
    );
}

/// Past the instruction that made the exit.
fn advance(vcpu: &mut Vcpu, esr: u64) {
    vcpu.regs.advance(Esr::from_bits(esr).instruction_length());
}

/// FP registers to the CPU, at the guest's first use since it came; `false` where there are none.
fn load_fp(vcpu: &mut Vcpu, cpu: &mut Cpu) -> bool {
    // SAFETY: another of this pCPU's own vCPUs: `vcpu`'s own would not be closed.
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
        Syndrome::DataAbort(abort) => return data_exit(vcpu, &abort),
        Syndrome::InstructionAbort(abort) => Exit::Fetch {
            ipa: if abort.has_ipa() {
                fault_ipa(read!("ifar_el2"), abort.on_walk)
            } else {
                // Where there is something that is not for fetching, and perhaps not for reading.
                translate(vcpu, vcpu.regs.pc).unwrap_or_default()
            },
            walk: abort.on_walk,
        },
        Syndrome::FpAccess | Syndrome::Cp14Transfer(_) | Syndrome::Unknown => Exit::Denied,
        // In ARMv7 classes 0x09 and 0x0a are Jazelle's registers and BXJ (HSR.EC, B3.13.6), which
        // HSTR.TJDBX would make exit.
        Syndrome::PointerAuthentication | Syndrome::OtherInstruction(_) => Exit::Denied,
        _ => Exit::Unexpected { syndrome: esr },
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

/// A load's or store's exit. After a permission fault HPFAR is unknown, and the address is
/// translated by hand; where that fails, the guest's tables have changed meanwhile, and it
/// tries again.
fn data_exit(vcpu: &Vcpu, abort: &hanok_decode::DataAbort) -> Option<Exit> {
    let ipa = match abort.fault {
        _ if abort.has_ipa() => fault_ipa(read!("far_el2"), abort.on_walk),
        Fault::Permission(_) => translate(vcpu, read!("far_el2"))?,
        _ => {
            return Some(Exit::Refused { write: abort.write });
        }
    };
    Some(Exit::Data(data(vcpu, abort, ipa)))
}

/// HPFAR's page, and the offset of the virtual address in it (which a walk's fault does not
/// give).
pub(crate) fn fault_ipa(address: u64, walk: bool) -> Ipa {
    let page = (read!("hpfar_el2") >> 4) << 12;
    let offset = if walk { 0 } else { address & 0xfff };
    Ipa::new(page | offset)
}

fn data(vcpu: &Vcpu, abort: &hanok_decode::DataAbort, ipa: Ipa) -> DataAbort {
    let access = abort
        .access
        .filter(|_| !abort.cache_maintenance)
        .map(|access| MmioAccess {
            width: access.width,
            register: banked_register(access.register, vcpu.psr().mode()),
            sign_extend: access.sign_extend,
            wide: false,
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
    vcpu.arrive_folded();
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

/// An asynchronous abort arrived while `vcpu`, this pCPU's own and about to run, did: it is the
/// guest's. For a test; a real one comes by [`hanok_on_sync`].
pub fn system_error(vcpu: *mut Vcpu) -> *mut Vcpu {
    let (vcpu, cpu, board) = arrived(vcpu);
    vcpu.unfold();
    notice_error(vcpu, board, 0);
    let action = guest(vcpu, board, &mut board.gic.lists()).handle(Exit::SystemError);
    act(vcpu, cpu, 0, action);
    count(vcpu, cpu, board, Cause::SystemError);
    vcpu
}
