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
        vcpu.pl1.save(board.features.thumbee);
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

/// The stack pointer and link register of each mode, by their places in AArch64.
const BANKED: [(&str, usize, usize); 6] = [
    ("usr", 13, 14),
    ("svc", 19, 18),
    ("abt", 21, 20),
    ("und", 23, 22),
    ("irq", 17, 16),
    ("fiq", 29, 30),
];

fn registers(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    let (regs, pl1) = (vcpu.registers(), &vcpu.pl1);
    say(format_args!("pc {:08x} cpsr {:x}", regs.pc, regs.pstate));
    for (index, row) in regs.x.chunks(4).take(4).enumerate() {
        let mut text = heapless::String::<64>::new();
        for value in row.iter().take(13 - 4 * index) {
            // Four times 9 characters fit.
            let _ = core::fmt::write(&mut text, format_args!(" {value:08x}"));
        }
        say(format_args!("r{:<2}{text}", index * 4));
    }
    for (mode, sp, lr) in BANKED {
        say(format_args!(
            "sp_{mode} {:08x} lr_{mode} {:08x}",
            regs.x[sp], regs.x[lr]
        ));
    }
    say(format_args!(
        "sctlr {:x} vbar {:x} ttbr0 {:x} ttbr1 {:x} ttbcr {:x}",
        pl1.sctlr, pl1.vbar, pl1.ttbr0, pl1.ttbr1, pl1.tcr
    ));
    say(format_args!(
        "dfsr {:x} dfar {:x} ifsr {:x} ifar {:x} cntv_ctl {:x} cntv_cval {:x}",
        pl1.dfsr, pl1.dfar, pl1.ifsr, pl1.ifar, pl1.cntv_ctl, pl1.cntv_cval
    ));
}

fn exits(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
    for step in vcpu.trail.latest() {
        let class = step.syndrome >> 26 & 0x3f;
        say(format_args!(
            "exit at {:08x}: class {class:#04x} HSR {:08x}",
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
