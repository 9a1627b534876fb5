//! A vCPU's state, for people.

use crate::board::Board;
use crate::cpu::Cpu;
use crate::registers::{self, DIGITS, SYNDROME};
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
        registers::fetch(vcpu, board);
    }
    let state = match (vcpu.waiting, resident) {
        (true, _) => "waits for an interrupt",
        (false, true) => "has the pCPU",
        (false, false) => "waits for its turn",
    };
    board.say(format_args!("{name} vCPU {id} on pCPU {}: {state}", cpu.id));
    // Several pCPUs may speak at a time: each line says whose it is.
    let say = |text: Arguments<'_>| board.say(format_args!("{name}.{id} {text}"));
    registers::say(vcpu, say);
    exits(vcpu, say);
    interrupts(vcpu, say);
    storm(vcpu, cpu, board);
}

/// Says so where a vCPU takes one exception after the other at one vector, on its own pCPU.
#[cold]
#[inline(never)]
pub fn storm(vcpu: &mut Vcpu, cpu: &Cpu, board: &Board) {
    if ptr::eq(cpu.resident, vcpu) {
        registers::fetch(vcpu, board);
    }
    if vcpu.on && registers::storm(vcpu) {
        board.say(format_args!(
            "{}.{} takes exception after exception at its vector {:#x}, where no code is",
            vcpu.unit.vm.config().name,
            vcpu.core.id,
            vcpu.regs.pc
        ));
    }
}

fn exits(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    for step in vcpu.trail.latest() {
        let class = step.syndrome >> 26 & 0x3f;
        say(format_args!(
            "exit at {:0DIGITS$x}: class {class:#04x} {SYNDROME} {:08x}",
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
