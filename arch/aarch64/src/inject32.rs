//! Gives a guest whose EL1 is AArch32 an exception (DDI 0487, G1.16).

use crate::context::El2Context;
use crate::{read, write};
use hanok_decode::{Control, Fault, banked_register, fault_status, mode, offset};

/// The lower half of a register.
const LOW: u64 = 0xffff_ffff;

fn control() -> Control {
    Control::from_bits(read!("sctlr_el1") as u32)
}

/// Where the guest's handler of a prefetch abort is.
pub fn prefetch_vector() -> u64 {
    control()
        .vectors(read!("vbar_el1"))
        .wrapping_add(offset::PREFETCH_ABORT)
        & LOW
}

/// Gives the vCPU, which is in this CPU, an undefined instruction exception.
pub fn undefined(vcpu: &mut El2Context) {
    let before = vcpu.psr();
    let next = if before.thumb() { 2 } else { 4 };
    take(vcpu, mode::UNDEFINED, offset::UNDEFINED, next);
    write!("spsr_und", before.as_spsr());
}

/// Gives the vCPU, which is in this CPU, a data abort.
pub fn data_abort(vcpu: &mut El2Context, fault: Fault, write: bool) {
    write!("esr_el1", fault_status(fault, write, read!("tcr_el1")));
    let ifar = read!("far_el1") & !LOW;
    write!("far_el1", ifar | read!("far_el2") & LOW);
    abort(vcpu, offset::DATA_ABORT, 8);
}

/// Gives the vCPU, which is in this CPU, a prefetch abort.
pub fn prefetch_abort(vcpu: &mut El2Context, fault: Fault) {
    write!("ifsr32_el2", fault_status(fault, false, read!("tcr_el1")));
    let dfar = read!("far_el1") & LOW;
    write!("far_el1", read!("far_el2") << 32 | dfar);
    abort(vcpu, offset::PREFETCH_ABORT, 4);
}

fn abort(vcpu: &mut El2Context, vector: u64, distance: u64) {
    let before = vcpu.psr();
    take(vcpu, mode::ABORT, vector, distance);
    let masked = vcpu.psr().with_abort_masked(true);
    vcpu.regs.pstate = masked.into_bits().into();
    write!("spsr_abt", before.as_spsr());
}

/// Enters a handler, whose return address is `distance` bytes from the instruction (DDI 0487,
/// G1.16, pseudocode AArch32.EnterMode). The mode's SPSR is the caller's to set.
fn take(vcpu: &mut El2Context, to: u8, vector: u64, distance: u64) {
    let control = control();
    let before = vcpu.psr();
    let pan = before.pan() || has_pan() && !control.keeps_pan();
    let after = before
        .in_handler(to, control)
        .with_software_step(false)
        .with_illegal(false)
        .with_pan(pan)
        .with_ssbs(control.ssbs());
    let back = vcpu.regs.pc.wrapping_add(distance) & LOW;
    vcpu.regs.set(banked_register(14, to), back);
    vcpu.regs.pstate = after.into_bits().into();
    vcpu.regs.pc = control.vectors(read!("vbar_el1")).wrapping_add(vector) & LOW;
}

/// FEAT_PAN.
pub fn has_pan() -> bool {
    read!("id_aa64mmfr1_el1") >> 20 & 0xf != 0
}
