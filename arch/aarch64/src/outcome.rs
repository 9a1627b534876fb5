//! How an exit ends: what the core decided is carried out, and a vCPU goes on.

use crate::board::Board;
use crate::cpu::{self, Cpu};
use crate::vcpu::Vcpu;
use crate::{inject, schedule, service};
use hanok_decode::Esr;
use hanok_vm::{Action, Cause, Wait};

/// How a vCPU goes on after its exit.
#[derive(Clone, Copy, Debug)]
pub enum After {
    /// At once.
    Resume,
    /// When something is pending for it.
    Sleep,
    /// When its turn comes, which may be now.
    Reconsider,
    /// After whoever else is ready.
    Yield,
}

/// The vCPU that left the guest, its pCPU and the board.
#[inline(always)]
pub fn arrived<'a>(vcpu: *mut Vcpu) -> (&'a mut Vcpu, &'a mut Cpu, &'static Board) {
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
pub fn go_on(vcpu: *mut Vcpu, cause: Cause, after: After) -> *mut Vcpu {
    let next = match after {
        After::Resume => vcpu,
        After::Sleep => schedule::wait(),
        After::Reconsider => schedule::next(),
        After::Yield => schedule::give_way(),
    };
    let (vcpu, cpu, _) = arrived(vcpu);
    count(vcpu, cpu, cause);
    // SAFETY: this pCPU's own vCPU, which it resumes; the references above are given up.
    unsafe { (*next).depart() };
    next
}

/// Counts an exit of `vcpu`, and charges what was executed since the last one to its cause.
#[inline(always)]
pub fn count(vcpu: &Vcpu, cpu: &mut Cpu, cause: Cause) {
    vcpu.counters.count(cause);
    if cpu.counts_instructions {
        vcpu.counters.charge(cause, cpu.instructions_since());
    }
}

/// Carries out what the core decided.
pub fn act(vcpu: &mut Vcpu, cpu: &Cpu, esr: u64, action: Action) -> After {
    if core::mem::take(&mut vcpu.core.rearm) {
        service::set_timer(Some(vcpu), cpu);
    }
    match action {
        Action::Resume => {}
        Action::Next => advance(vcpu, esr),
        Action::Inject(fault) => inject::inject(vcpu, fault),
        Action::NextThenBlock(wait) => {
            advance(vcpu, esr);
            return blocked(wait);
        }
        Action::Block(wait) => return blocked(wait),
        Action::Reconsider => return After::Reconsider,
        Action::Yield => return After::Yield,
    }
    After::Resume
}

/// How a vCPU goes on that waits.
fn blocked(wait: Wait) -> After {
    match wait {
        Wait::Interrupt => After::Sleep,
        // Nobody takes pages, replies to other VMs or has a budget yet: it tries again.
        Wait::Page(_) | Wait::Reply | Wait::Budget => After::Yield,
    }
}

/// Says that an exit came for which no trap is set: the guest goes on, and somebody is to know.
#[cold]
#[inline(never)]
pub fn notice_unexpected(vcpu: &Vcpu, board: &Board, esr: u64) {
    board.notice(
        vcpu.unit,
        format_args!("an exit that cannot be (syndrome {esr:#x}): undefined for it"),
    );
}

/// Past the instruction that made the exit.
pub fn advance(vcpu: &mut Vcpu, esr: u64) {
    vcpu.regs.advance(Esr::from_bits(esr).instruction_length());
}

/// After a physical interrupt that the short way has taken, and left to this one.
pub fn on_irq(vcpu: *mut Vcpu) -> (Cause, After) {
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
