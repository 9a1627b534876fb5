//! Which vCPU a pCPU runs: for now the one vCPU that the description gave it, or none.
//!
//! Here a vCPU comes into its VM and leaves it, and the last one to leave carries the VM's
//! ending out. A pCPU without a vCPU to run sleeps until an interrupt.

use crate::board::{Board, VmUnit};
use crate::cpu::{self, Cpu};
use crate::lists::HardwareLists;
use crate::ram::Damaged;
use crate::traps::{self, guest_mdcr};
use crate::vcpu::Vcpu;
use crate::{fp, interrupts, service, sysreg, write};
use core::sync::atomic::Ordering;
use hanok_types::VcpuId;
use hanok_vm::{Ending, Machine, StopReason};

/// This pCPU's record and the board. Callers hold no reference to the record.
fn here<'a>() -> (&'a mut Cpu, &'static Board) {
    // SAFETY: this pCPU's own record, which lives for ever and which nobody else touches; the
    // callers give the reference up before they ask again.
    let cpu = unsafe { &mut *cpu::current() };
    let board = cpu.board.expect("a pCPU that schedules has its board");
    (cpu, board)
}

/// The vCPU to run next on this pCPU; sleeps while there is none. The caller holds no
/// reference to the pCPU's record or to its vCPU.
pub fn next() -> *mut Vcpu {
    loop {
        let (cpu, board) = here();
        if let Some(vcpu) = cpu.vcpu {
            // SAFETY: this pCPU's own vCPU, which nobody else touches; the reference ends
            // with this turn of the loop.
            if settle(unsafe { &mut *vcpu }, cpu, board) {
                return vcpu;
            }
        }
        idle(None, board);
    }
}

/// Brings `vcpu` in or out of its VM, as its power state and the VM's life ask for. Returns
/// whether it is to run.
fn settle(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board) -> bool {
    let unit = vcpu.unit;
    let vm = &unit.vm;
    if vcpu.on {
        if vm.life().is_running() && vm.power(vcpu.core.id).is_on() {
            return true;
        }
        unload(vcpu, board);
        leave(unit, cpu, board);
    }
    if !vm.power(vcpu.core.id).is_pending() || !vm.life().enter() {
        return false;
    }
    match vm.power(vcpu.core.id).take_start() {
        Some(entry) => {
            vcpu.reset(entry);
            load(vcpu, cpu, board);
            true
        }
        None => {
            leave(unit, cpu, board);
            false
        }
    }
}

/// Puts a vCPU that starts into this CPU.
fn load(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board) {
    vcpu.on = true;
    vcpu.stack = cpu.stack;
    write!("vtcr_el2", board.vtcr);
    write!("vttbr_el2", vcpu.unit.vttbr);
    sysreg::isb();
    // What another life, or another VM under this VMID, left in this CPU's TLB.
    // SAFETY: TLB maintenance for the VMID just set.
    unsafe {
        core::arch::asm!(
            "tlbi vmalls12e1",
            "dsb nsh",
            "isb",
            options(nostack, preserves_flags)
        )
    };
    vcpu.el1.load(board.features.pointer_authentication);
    write!("hcr_el2", vcpu.hcr.bits());
    write!("mdcr_el2", guest_mdcr(false));
    fp::close();
    HardwareLists::new().reset();
    traps::forget_errors();
    sysreg::isb();
    // What was sent to it before it came.
    vcpu.unit.vm.requests(vcpu.core.id).ask_interrupts();
    service::refresh(vcpu, board);
}

/// Takes a vCPU that is off, or whose VM ends, out of this CPU. Its state is of no use any
/// more; its physical interrupts are let go.
fn unload(vcpu: &mut Vcpu, board: &'static Board) {
    vcpu.on = false;
    write!("cntv_ctl_el0", 0);
    write!("cnthp_ctl_el2", 0);
    vcpu.unit
        .vm
        .take_back_interrupts(board, vcpu.core.id, &mut HardwareLists::new());
    write!("ich_hcr_el2", 0);
    // Active or not: deactivating one that is not changes nothing.
    interrupts::deactivate(board.interrupts.virtual_timer);
    sysreg::isb();
}

/// A vCPU is out of its VM; if it was the last, it does what is to be done then.
fn leave(unit: &'static VmUnit, cpu: &mut Cpu, board: &'static Board) {
    match unit.vm.life().leave() {
        (0, Some(ending)) => carry_out(unit, ending, cpu, board),
        (0, None) if unit.vm.stop_if_all_off() => carry_out(unit, Ending::Stopped, cpu, board),
        _ => {}
    }
}

/// Does what the VM's end asks for; nobody is in the VM.
fn carry_out(unit: &'static VmUnit, ending: Ending, cpu: &mut Cpu, board: &'static Board) {
    let name = &unit.vm.config().name;
    match ending {
        Ending::Reset => {
            board.say(format_args!("vm {name}: reset"));
            let begun = begin_life(unit, board);
            if begun.is_ok() {
                let first = unit.vm.cpu_of(VcpuId::new(0));
                if let Some(first) = first.filter(|first| *first != cpu.id) {
                    board.kick(first);
                }
                return;
            }
            unit.vm.set_stop_reason(StopReason::Reload);
            stopped(unit, board);
        }
        Ending::Off => board.say(format_args!("vm {name}: off")),
        Ending::Stopped => stopped(unit, board),
    }
    unit.vm.life().end();
    end_if_over(board);
}

fn stopped(unit: &'static VmUnit, board: &'static Board) {
    board.any_stopped.store(true, Ordering::Relaxed);
    let name = &unit.vm.config().name;
    match unit.vm.stop_reason() {
        Some(reason) => board.say(format_args!("vm {name}: stopped: {reason}")),
        None => board.say(format_args!("vm {name}: stopped: no reason was given")),
    }
}

/// Puts the images in place and lets the first vCPU start.
pub fn begin_life(unit: &'static VmUnit, board: &'static Board) -> Result<(), Damaged> {
    let mut seed = |bytes: &mut [u8]| board.random.lock().fill(bytes);
    unit.ram.load(unit.vm.config(), board.payload, &mut seed)?;
    unit.vm.begin();
    Ok(())
}

/// The word for the image of `unit` that is damaged.
pub fn damaged_kind(unit: &VmUnit, damaged: Damaged) -> &'static str {
    let blob = unit.vm.config().blobs.get(damaged.blob);
    blob.map_or("image", |blob| blob.kind.word())
}

/// Ends the run once every VM has ended.
pub fn end_if_over(board: &'static Board) {
    if !board.vms.iter().all(|unit| unit.vm.life().is_ended()) {
        return;
    }
    let how = if board.any_stopped.load(Ordering::Relaxed) {
        "stopped"
    } else {
        "off"
    };
    board.say(format_args!("end: {how}"));
    if let Some(firmware) = board.firmware {
        firmware.system_off();
    }
}

/// This pCPU's vCPU waits: until an interrupt is pending for it, or it is to leave its VM.
/// The caller holds no reference to it.
pub fn sleep() -> *mut Vcpu {
    loop {
        let (cpu, board) = here();
        let Some(vcpu) = cpu.vcpu else { return next() };
        // SAFETY: this pCPU's own vCPU; the reference ends with this turn.
        let waiting = unsafe { &mut *vcpu };
        let vm = &waiting.unit.vm;
        if !vm.life().is_running() {
            return next();
        }
        if vm.interrupt_waits(board, waiting.core.id, &mut HardwareLists::new()) {
            return vcpu;
        }
        idle(Some(waiting), board);
    }
}

/// Sleeps until a physical interrupt, and serves what is pending.
fn idle(mut vcpu: Option<&mut Vcpu>, board: &'static Board) {
    sysreg::wait_for_interrupt();
    while let Some(interrupt) = interrupts::acknowledge() {
        interrupts::drop_priority(interrupt);
        service::serve(vcpu.as_deref_mut(), board, interrupt);
    }
}
