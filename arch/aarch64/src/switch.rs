//! From one vCPU of a pCPU to another.

use crate::board::Board;
use crate::controls::Hcr;
use crate::cpu::Cpu;
use crate::traps;
use crate::vcpu::Vcpu;
use crate::{errors, fp, read, service, space, sysreg, write};
use core::ptr;
use core::sync::atomic::Ordering;
use hanok_types::Deadline;

/// Makes `vcpu`, which is in its VM and of this pCPU, the one whose state is in the CPU.
pub fn to(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board) {
    let comes = !ptr::eq(cpu.resident, vcpu);
    if comes {
        away(cpu, board);
        cpu.resident = vcpu;
        enter(vcpu, cpu, board);
    }
    vcpu.core.busy = comes;
    service::refresh(vcpu, cpu, board);
}

/// Takes the resident vCPU, if there is one, out of this CPU, and sees to it that its timers
/// are not forgotten. The caller holds no reference to it.
pub fn away(cpu: &mut Cpu, board: &'static Board) {
    // SAFETY: this pCPU's own vCPU; the reference ends here.
    let Some(left) = (unsafe { cpu.resident.as_mut() }) else {
        return;
    };
    cpu.resident = ptr::null_mut();
    out(left, board);
    // One that does not wait is looked at whenever it has its turn.
    if left.waiting {
        left.wake_at = deadline(left);
        cpu.deadline = cpu.deadline.or(left.wake_at);
    }
}

/// Takes the state of a vCPU out of the CPU. FP registers stay.
fn out(vcpu: &mut Vcpu, board: &'static Board) {
    vcpu.core.entry_due = false;
    vcpu.el1.save(board.features.pointer_authentication);
    if vcpu.is_aarch32() {
        vcpu.aarch32.save_all();
    }
    write!("cntv_ctl_el0", 0);
    // A virtual SError that the guest has taken meanwhile is no longer pending.
    vcpu.hcr
        .set(Hcr::VSE, read!("hcr_el2") & Hcr::VSE.bits() != 0);
    if errors::take(board.late_error.load(Ordering::Relaxed)) {
        service::late_error(vcpu, board);
    }
    fp::close();
    if vcpu.core.debug.in_use {
        vcpu.debug.save();
    }
    let vm = &vcpu.unit.vm;
    let mut lists = board.gic.lists();
    if vm.switch_out(board, vcpu.core.id, &mut lists) {
        // Active on its behalf: the next vCPU's timer must be able to fire.
        board.gic.deactivate(board.interrupts.virtual_timer);
    }
    lists.leave(&mut vcpu.interface);
}

/// When one of the timers of a vCPU that is in no CPU is due.
fn deadline(vcpu: &Vcpu) -> Deadline {
    let vm = &vcpu.unit.vm;
    let virt = vcpu.virtual_timer_due();
    let virt = virt.when(virt != Deadline::NEVER && !vm.holds_virtual_timer(vcpu.core.id));
    virt.or(vm.deadline(&vcpu.core))
}

/// A timer of a vCPU that is in no CPU has come to its time.
pub fn timers_due(vcpu: &mut Vcpu, board: &'static Board, now: u64) {
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    let virt = vcpu.virtual_timer_due().has_come(now);
    if virt && !vm.holds_virtual_timer(id) {
        vm.virtual_timer_absent(board, id, board.interrupts.virtual_timer);
    }
    vm.timers_absent(board, &mut vcpu.core);
    vcpu.wake_at = deadline(vcpu);
}

/// Whether a virtual SError waits for a vCPU: that wakes it, too (DDI 0487, D1.6.2).
pub fn system_error_waits(vcpu: &Vcpu, cpu: &Cpu) -> bool {
    let hcr = if ptr::eq(cpu.resident, vcpu) {
        read!("hcr_el2")
    } else {
        vcpu.hcr.bits()
    };
    hcr & Hcr::VSE.bits() != 0
}

/// Puts the state of a vCPU into the CPU.
fn enter(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board) {
    let (unit, id) = (vcpu.unit, vcpu.core.id);
    if unit.vm.switch_in(id)
        && let Some(gic) = &cpu.gic
    {
        gic.set_active(board.interrupts.virtual_timer, true);
        // Before its timer counts in this CPU.
        sysreg::dsb_sy();
    }
    let vttbr = unit.vttbr.load(Ordering::Acquire);
    let keys = board.features.pointer_authentication;
    vcpu.el1.load(vttbr, vcpu.hcr, keys);
    forget_sibling(vcpu, cpu);
    if vcpu.is_aarch32() {
        vcpu.aarch32.load(vcpu.el1.contextidr);
    }
    if vcpu.core.debug.in_use {
        vcpu.debug.load();
    }
    match ptr::eq(cpu.fp_owner, vcpu) {
        true => fp::open(),
        false => fp::close(),
    }
    board.gic.lists().enter(&vcpu.interface);
    traps::forget_errors();
    sysreg::isb();
    vcpu.wake_at = Deadline::NEVER;
}

/// Stage 1 translations of another vCPU of the VM, or of this one's former life, are cached
/// under the same VMID: they are not this one's (DDI 0487, D8.16 "TLB maintenance": a guest
/// invalidates locally what it changed for one CPU alone).
fn forget_sibling(vcpu: &Vcpu, cpu: &Cpu) {
    let Some(last) = vcpu.unit.last_here.get(cpu.id.index()) else {
        return;
    };
    let me = vcpu.core.id.index() as u8 + 1;
    if last.swap(me, Ordering::Relaxed) == me {
        return;
    }
    sysreg::isb();
    space::forget_current_vmid_here();
}
