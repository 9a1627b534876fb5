//! A vCPU's registers, for people.

use crate::board::Board;
use crate::vcpu::Vcpu;
use core::fmt::Arguments;
use hanok_decode::Control;
use hanok_vm::exception_storm;

/// Digits of an address.
pub const DIGITS: usize = 16;
/// The register with an exit's syndrome.
pub const SYNDROME: &str = "ESR_EL2";

/// Copies what the CPU holds of the resident vCPU.
pub fn fetch(vcpu: &mut Vcpu, board: &Board) {
    vcpu.el1.save(board.features.pointer_authentication);
    if vcpu.is_aarch32() {
        vcpu.aarch32.save();
    }
}

/// Whether the vCPU, whose registers were fetched, is lost in its exceptions.
pub fn storm(vcpu: &Vcpu) -> bool {
    let (regs, el1, aarch32) = (&vcpu.regs, &vcpu.el1, vcpu.is_aarch32());
    let (link, vectors) = match aarch32 {
        true => (
            regs.get(vcpu.register(14)),
            Control::from_bits(el1.sctlr as u32).vectors(el1.vbar),
        ),
        false => (el1.elr, el1.vbar),
    };
    exception_storm(regs.pc, link, vectors, aarch32)
}

/// Says them, a row at a time.
pub fn say(vcpu: &Vcpu, say: impl Fn(Arguments<'_>)) {
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
