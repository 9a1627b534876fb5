//! Physical interrupts, and the timer behind all that is due on a pCPU.

use crate::board::Board;
use crate::controls::Hcr;
use crate::cpu::Cpu;
use crate::interrupts::Taken;
use crate::lists::HostLists;
use crate::vcpu::Vcpu;
use crate::{devices, write};
use core::sync::atomic::Ordering;
use hanok_types::Deadline;
use hanok_vm::Guest;

/// The core's handler for this vCPU.
pub fn guest<'a>(
    vcpu: &'a mut Vcpu,
    board: &'static Board,
    lists: &'a mut HostLists,
) -> Guest<'a, Board, HostLists> {
    Guest {
        vm: &vcpu.unit.vm,
        vcpu: &mut vcpu.core,
        regs: &mut vcpu.regs,
        machine: board,
        lists,
    }
}

/// The vCPU whose state is in this CPU. The caller holds no other reference to it.
fn resident<'a>(cpu: &Cpu) -> Option<&'a mut Vcpu> {
    // SAFETY: this pCPU's own vCPU, which lives for ever; by this function's contract.
    unsafe { cpu.resident.as_mut() }
}

/// Serves one physical interrupt other than a running vCPU's timer, and deactivates it. The
/// caller holds no reference to the resident vCPU.
pub fn serve(cpu: &mut Cpu, board: &'static Board, taken: Taken) {
    let interrupt = taken.id();
    let lines = &board.interrupts;
    if interrupt == lines.virtual_timer {
        match resident(cpu) {
            // Deactivated by the guest, through the list register.
            Some(vcpu) => {
                guest(vcpu, board, &mut board.gic.lists()).virtual_timer(interrupt);
                return;
            }
            // Nobody is here whose timer it could be: an old one, from before its vCPU left.
            None => write!("cntv_ctl_el0", 0),
        }
    } else if interrupt == lines.hyp_timer {
        write!("cnthp_ctl_el2", 0);
        cpu.timer.set(Deadline::NEVER);
        // It has come; the scheduler, which is asked next, sets the next one.
        cpu.deadline = Deadline::NEVER;
        devices::let_through(cpu, board);
        if let Some(vcpu) = resident(cpu) {
            vcpu.core.rearm = true;
        }
    } else if interrupt == lines.maintenance {
        if let Some(vcpu) = resident(cpu) {
            guest(vcpu, board, &mut board.gic.lists()).maintenance();
        }
    } else if Some(interrupt) == lines.uart {
        board.serve_console();
    } else if devices::hand_on(interrupt, cpu, board) {
        // Deactivated by the guest, through the list register.
        return;
    }
    // Whoever goes on is refreshed by `switch::to`; where several share the CPU that may be another
    // one, and what is done for this one now would be undone at once.
    if let Some(vcpu) = resident(cpu).filter(|vcpu| vcpu.waiting || !cpu.is_shared()) {
        refresh(vcpu, cpu, board);
    }
    board.gic.end(taken);
}

/// Brings the interrupts and timers of the vCPU in this CPU up to date.
pub fn refresh(vcpu: &mut Vcpu, cpu: &Cpu, board: &'static Board) {
    guest(vcpu, board, &mut board.gic.lists()).refresh();
    if core::mem::take(&mut vcpu.core.rearm) {
        set_timer(Some(vcpu), cpu);
    }
}

/// An SError, or asynchronous abort, of what a vCPU did came as it left this CPU: it takes it when
/// it comes back.
#[cold]
#[inline(never)]
pub fn late_error(vcpu: &mut Vcpu, board: &Board) {
    board.late_error.store(false, Ordering::Relaxed);
    vcpu.hcr.insert(Hcr::VSE);
    board.notice(
        vcpu.unit,
        format_args!("an SError of what it did, as it left its core: handed to it"),
    );
}

/// Sets the hypervisor's timer to what is due first: the resident vCPU's timers, another
/// vCPU's, or the end of a turn. The caller holds no reference to the resident vCPU.
pub fn program_timer(cpu: &Cpu) {
    set_timer(resident(cpu).map(|vcpu| &*vcpu), cpu);
}

/// [`program_timer`], for who has the resident vCPU.
pub fn set_timer(vcpu: Option<&Vcpu>, cpu: &Cpu) {
    let own = vcpu.map_or(Deadline::NEVER, |vcpu| vcpu.unit.vm.deadline(&vcpu.core));
    let due = own.or(cpu.deadline);
    if cpu.timer.replace(due) == due {
        return;
    }
    match due.ticks() {
        Some(at) => {
            write!("cnthp_cval_el2", at);
            write!("cnthp_ctl_el2", 1);
        }
        None => write!("cnthp_ctl_el2", 0),
    }
}
