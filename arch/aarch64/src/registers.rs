//! A dump of a vCPU's registers.

use crate::context::El2Context;
use core::fmt::Arguments;
use hanok_arm_common::aborts::Aborted;
use hanok_decode::Control;
use hanok_vm::exception_storm;

/// The vector at which the vCPU, whose registers were fetched, takes one exception after the other.
pub fn storm_vector(vcpu: &El2Context) -> Option<u64> {
    let (regs, el1, aarch32) = (&vcpu.regs, &vcpu.el1, vcpu.is_aarch32());
    let (link, vectors) = if aarch32 {
        (
            regs.get(vcpu.register(14)),
            Control::from_bits(el1.sctlr as u32).vectors(el1.vbar),
        )
    } else {
        (el1.elr, el1.vbar)
    };
    exception_storm(regs.pc, link, vectors, aarch32).then_some(regs.pc)
}

/// Passes the registers to `say`, a row of text at a time.
pub fn describe(vcpu: &El2Context, say: impl Fn(Arguments<'_>)) {
    let (regs, el1) = (&vcpu.regs, &vcpu.el1);
    say(format_args!("pc {:016x} pstate {:x}", regs.pc, regs.pstate));
    for (index, row) in regs.x.chunks(4).enumerate() {
        let mut text = heapless::String::<96>::new();
        for value in row {
            // Four times 17 characters fit into the row.
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
