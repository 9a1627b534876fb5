//! What a guest with AArch32 at EL1 has beside what `el1.rs` keeps.
//!
//! Its general registers are X0 to X30 (DDI 0487, D1.20.1), and most of its system registers are
//! AArch64 ones of EL1 under other names (D1.20.2): SCTLR, TTBCR, VBAR, DFSR (ESR_EL1), DFAR and
//! IFAR (the halves of FAR_EL1), SPSR_svc (SPSR_EL1). Those here have names of their own, at EL2;
//! nobody else can reach them, so a 64-bit guest's switch does without.

use crate::vcpu::Vcpu;
use crate::{fp, read, write};
use hanok_decode::{Control, Fault, Psr, banked_register, fault_status, mode, offset};

/// SCTLR out of reset: its RES1 bits, and EL0 may wait and use barriers of coprocessor 15
/// (DDI 0487, G8.2.126).
pub const SCTLR_RESET: u64 = 0x00c5_0838;
/// What R1 of a kernel means by "the device tree says it": no machine has this number
/// (Documentation/arch/arm/booting.rst).
const NO_MACHINE: u64 = 0xffff_ffff;
/// The lower half of a register.
const LOW: u64 = 0xffff_ffff;

/// Register values, each under its own name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aarch32State {
    /// DACR32_EL2.
    pub dacr: u64,
    /// IFSR32_EL2.
    pub ifsr: u64,
    /// SPSR_abt.
    pub spsr_abt: u64,
    /// SPSR_und.
    pub spsr_und: u64,
    /// SPSR_irq.
    pub spsr_irq: u64,
    /// SPSR_fiq.
    pub spsr_fiq: u64,
    /// FPEXC32_EL2. It goes with the vCPU and not with the FP registers: where its EN is clear,
    /// an access is undefined before it is an exit.
    fpexc: u64,
}

impl Aarch32State {
    /// Takes the state out of the CPU, but for FPEXC.
    pub fn save(&mut self) {
        self.dacr = read!("dacr32_el2");
        self.ifsr = read!("ifsr32_el2");
        self.spsr_abt = read!("spsr_abt");
        self.spsr_und = read!("spsr_und");
        self.spsr_irq = read!("spsr_irq");
        self.spsr_fiq = read!("spsr_fiq");
    }

    /// Takes all of the state out of the CPU. The trap of FP registers is open afterwards, for
    /// the caller to close.
    pub fn save_all(&mut self) {
        self.save();
        fp::open();
        self.fpexc = read!("fpexc32_el2");
    }

    /// Puts the state into the CPU. The trap of FP registers is open afterwards, for the caller
    /// to set.
    ///
    /// On Cortex-A57 and A72, DACR32_EL2 is not synchronized by what follows it but for a write
    /// of CONTEXTIDR_EL1 (errata 852523 and 853709): the vCPU's own value is written again.
    pub fn load(&self, contextidr: u64) {
        write!("dacr32_el2", self.dacr);
        write!("contextidr_el1", contextidr);
        write!("ifsr32_el2", self.ifsr);
        write!("spsr_abt", self.spsr_abt);
        write!("spsr_und", self.spsr_und);
        write!("spsr_irq", self.spsr_irq);
        write!("spsr_fiq", self.spsr_fiq);
        fp::open();
        write!("fpexc32_el2", self.fpexc);
    }
}

/// PSTATE of a vCPU that starts at `pc`: Supervisor mode, all masked, T32 by bit 0 of `pc`
/// (DEN0022F 6.4).
pub fn start_pstate(pc: u64) -> u64 {
    let psr = Psr::new()
        .with_mode(mode::SUPERVISOR)
        .with_thumb(pc & 1 != 0)
        .with_abort_masked(true)
        .with_irq_masked(true)
        .with_fiq_masked(true);
    psr.into_bits().into()
}

/// General registers of a vCPU that starts: the boot of a VM is by the protocol of Linux, with
/// the tree in R2; all others are started by CPU_ON, with its argument in R0.
pub fn start_registers(x: &mut [u64; 31], boots: bool, argument: u64) {
    if boots {
        (x[1], x[2]) = (NO_MACHINE, argument);
    } else {
        x[0] = argument;
    }
}

fn control() -> Control {
    Control::from_bits(read!("sctlr_el1") as u32)
}

fn psr(vcpu: &Vcpu) -> Psr {
    Psr::from_bits(vcpu.regs.pstate as u32)
}

/// Where the guest's handler of a prefetch abort is.
pub fn prefetch_vector() -> u64 {
    control()
        .vectors(read!("vbar_el1"))
        .wrapping_add(offset::PREFETCH_ABORT)
        & LOW
}

/// The vCPU, which is in this CPU, finds its instruction undefined.
pub fn undefined(vcpu: &mut Vcpu) {
    let before = psr(vcpu);
    let next = if before.thumb() { 2 } else { 4 };
    take(vcpu, mode::UNDEFINED, offset::UNDEFINED, next);
    write!("spsr_und", before.as_spsr());
}

/// A load or store of the vCPU, which is in this CPU, failed.
pub fn data_abort(vcpu: &mut Vcpu, fault: Fault, write: bool) {
    write!("esr_el1", fault_status(fault, write, read!("tcr_el1")));
    let ifar = read!("far_el1") & !LOW;
    write!("far_el1", ifar | read!("far_el2") & LOW);
    abort(vcpu, offset::DATA_ABORT, 8);
}

/// A fetch of the vCPU, which is in this CPU, failed.
pub fn prefetch_abort(vcpu: &mut Vcpu, fault: Fault) {
    write!("ifsr32_el2", fault_status(fault, false, read!("tcr_el1")));
    let dfar = read!("far_el1") & LOW;
    write!("far_el1", read!("far_el2") << 32 | dfar);
    abort(vcpu, offset::PREFETCH_ABORT, 4);
}

fn abort(vcpu: &mut Vcpu, vector: u64, distance: u64) {
    let before = psr(vcpu);
    take(vcpu, mode::ABORT, vector, distance);
    let masked = psr(vcpu).with_abort_masked(true);
    vcpu.regs.pstate = masked.into_bits().into();
    write!("spsr_abt", before.as_spsr());
}

/// Enters a handler, whose return address is `distance` bytes from the instruction (DDI 0487,
/// G1.16, pseudocode AArch32.EnterMode). The mode's SPSR is the caller's to set.
fn take(vcpu: &mut Vcpu, to: u8, vector: u64, distance: u64) {
    let control = control();
    let before = psr(vcpu);
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
