//! Physical interrupts, and the timer behind a vCPU's emulated ones.

use crate::board::Board;
use crate::lists::HardwareLists;
use crate::vcpu::Vcpu;
use crate::{interrupts, write};
use hanok_types::IntId;
use hanok_vm::Guest;

/// The core's handler for this vCPU.
pub fn guest<'a>(
    vcpu: &'a mut Vcpu,
    board: &'static Board,
    lists: &'a mut HardwareLists,
) -> Guest<'a, Board, HardwareLists> {
    Guest {
        vm: &vcpu.unit.vm,
        vcpu: &mut vcpu.core,
        regs: &mut vcpu.regs,
        machine: board,
        lists,
    }
}

/// Serves one physical interrupt other than a running vCPU's timer, and deactivates it.
/// `vcpu` is the one in this CPU, if any.
pub fn serve(vcpu: Option<&mut Vcpu>, board: &'static Board, interrupt: IntId) {
    let lines = &board.interrupts;
    if Some(interrupt) == lines.uart {
        board.serve_console();
    }
    match vcpu {
        Some(vcpu) => {
            let lists = &mut HardwareLists::new();
            if interrupt == lines.virtual_timer {
                guest(vcpu, board, lists).virtual_timer(interrupt);
                return;
            }
            if interrupt == lines.maintenance {
                guest(vcpu, board, lists).maintenance();
            }
            if interrupt == lines.hyp_timer {
                write!("cnthp_ctl_el2", 0);
            }
            refresh(vcpu, board);
        }
        None if interrupt == lines.hyp_timer => write!("cnthp_ctl_el2", 0),
        // Nobody is here whose timer it could be: an old one, from before its vCPU left.
        None if interrupt == lines.virtual_timer => write!("cntv_ctl_el0", 0),
        None => {}
    }
    interrupts::deactivate(interrupt);
}

/// Brings the interrupts and timers of the vCPU in this CPU up to date.
pub fn refresh(vcpu: &mut Vcpu, board: &'static Board) {
    guest(vcpu, board, &mut HardwareLists::new()).refresh();
    if core::mem::take(&mut vcpu.core.rearm) {
        program_timer(vcpu, board);
    }
}

/// Sets the hypervisor's timer to the vCPU's next deadline.
pub fn program_timer(vcpu: &mut Vcpu, board: &'static Board) {
    match guest(vcpu, board, &mut HardwareLists::new()).deadline() {
        Some(at) => {
            write!("cnthp_cval_el2", at);
            write!("cnthp_ctl_el2", 1);
        }
        None => write!("cnthp_ctl_el2", 0),
    }
}
