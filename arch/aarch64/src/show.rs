//! A vCPU's state, for people.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::vcpu::Vcpu;
use core::fmt::Arguments;
use core::ptr;
use hanok_vm::Pending;

/// Says registers, latest exits and pending interrupts of a vCPU, on its own pCPU.
pub fn vcpu(vcpu: &mut Vcpu, cpu: &Cpu, board: &Board) {
    let (name, id) = (&vcpu.unit.vm.config().name, vcpu.core.id);
    if !vcpu.on {
        return board.say(format_args!("{name} vCPU {id}: off"));
    }
    let resident = ptr::eq(cpu.resident, vcpu);
    if resident {
        vcpu.el1.save(board.features.pointer_authentication);
        if vcpu.is_aarch32() {
            vcpu.aarch32.save();
        }
    }
    let state = match (vcpu.waiting, resident) {
        (true, _) => "waits for an interrupt",
        (false, true) => "has the pCPU",
        (false, false) => "waits for its turn",
    };
    board.say(format_args!("{name} vCPU {id} on pCPU {}: {state}", cpu.id));
    // Several pCPUs may speak at a time: each line says whose it is.
    let say = |text: Arguments<'_>| board.say(format_args!("{name}.{id} {text}"));
    registers(vcpu, say);
    exits(vcpu, say);
    interrupts(vcpu, say);
}

fn registers(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    let (regs, el1) = (&vcpu.regs, &vcpu.el1);
    say(format_args!("pc {:016x} pstate {:x}", regs.pc, regs.pstate));
    for (index, row) in regs.x.chunks(4).enumerate() {
        let mut text = heapless::String::<96>::new();
        for value in row {
            // Four times 17 characters fit.
            let _ = core::fmt::write(&mut text, format_args!(" {value:016x}"));
        }
        say(format_args!("x{:<2}{text}", index * 4));
    }
    say(format_args!(
        "sp_el0 {:x} sp_el1 {:x} elr_el1 {:x} spsr_el1 {:x}",
        el1.sp_el0, el1.sp_el1, el1.elr, el1.spsr
    ));
    say(format_args!(
        "esr_el1 {:x} far_el1 {:x} vbar_el1 {:x} sctlr_el1 {:x}",
        el1.esr, el1.far, el1.vbar, el1.sctlr
    ));
    say(format_args!(
        "ttbr0_el1 {:x} ttbr1_el1 {:x} tcr_el1 {:x} cntv_ctl_el0 {:x} cntv_cval_el0 {:x}",
        el1.ttbr0, el1.ttbr1, el1.tcr, el1.cntv_ctl, el1.cntv_cval
    ));
    if vcpu.is_aarch32() {
        let own = &vcpu.aarch32;
        say(format_args!(
            "AArch32: dacr {:x} ifsr {:x} spsr_abt {:x} spsr_und {:x} spsr_irq {:x} spsr_fiq {:x}",
            own.dacr, own.ifsr, own.spsr_abt, own.spsr_und, own.spsr_irq, own.spsr_fiq
        ));
    }
}

fn exits(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    for step in vcpu.trail.latest() {
        let class = step.syndrome >> 26 & 0x3f;
        say(format_args!(
            "exit at {:016x}: class {class:#04x} ESR_EL2 {:08x}",
            step.pc, step.syndrome
        ));
    }
}

fn interrupts(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    let pending: Pending = vcpu.unit.vm.pending_interrupts(vcpu.core.id);
    if pending.is_empty() {
        say(format_args!("no interrupt is pending or active"));
    }
    for one in &pending {
        let word = |on, word| if on { word } else { "" };
        say(format_args!(
            "interrupt {}:{}{}{}{}",
            one.id,
            word(one.pending, " pending"),
            word(one.active, " active"),
            word(one.line, " line high"),
            word(!one.enabled, " disabled"),
        ));
    }
}
