//! A dump of a vCPU's registers.

use crate::context::HypContext;
use core::fmt::Arguments;
use hanok_decode::{Control, Psr, banked_register};
use hanok_vm::exception_storm;

/// The stack pointer and link register of each mode, by their places in AArch64.
const BANKED: [(&str, usize, usize); 6] = [
    ("usr", 13, 14),
    ("svc", 19, 18),
    ("abt", 21, 20),
    ("und", 23, 22),
    ("irq", 17, 16),
    ("fiq", 29, 30),
];

/// The vector at which the vCPU, whose registers were fetched, takes one exception after the other.
pub fn storm_vector(vcpu: &HypContext) -> Option<u64> {
    let (regs, pl1) = (vcpu.registers(), &vcpu.pl1);
    let vectors = Control::from_bits(pl1.sctlr).vectors(pl1.vbar.into());
    let mode = Psr::from_bits(regs.pstate as u32).mode();
    let link = regs.get(banked_register(14, mode));
    exception_storm(regs.pc, link, vectors, true).then_some(regs.pc)
}

/// Passes the registers to `say`, a row of text at a time.
pub fn describe(vcpu: &HypContext, say: impl Fn(Arguments<'_>)) {
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
