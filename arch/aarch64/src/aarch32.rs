//! The state of a guest with AArch32 at EL1 that is not among that of `el1.rs`.
//!
//! Its general registers are X0 to X30 (DDI 0487, D1.20.1), and most of its system registers are
//! AArch64 ones of EL1 under other names (D1.20.2): SCTLR, TTBCR, VBAR, DFSR (ESR_EL1), DFAR and
//! IFAR (the halves of FAR_EL1), SPSR_svc (SPSR_EL1). Those here have names of their own, at EL2;
//! only an AArch32 guest uses them, so a switch to a 64-bit guest leaves them out.

use crate::{fp, read, write};
use hanok_decode::{Psr, mode};

/// SCTLR out of reset: its RES1 bits, and EL0 may wait and use barriers of coprocessor 15
/// (DDI 0487, G8.2.126).
pub const SCTLR_RESET: u64 = 0x00c5_0838;
/// What R1 of a kernel means by "the device tree says it": no machine has this number
/// (Documentation/arch/arm/booting.rst).
const NO_MACHINE: u64 = 0xffff_ffff;

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
    /// FPEXC32_EL2. It is switched with the vCPU and not with the FP registers: while its EN bit is clear,
    /// an access to FP registers is undefined and never becomes an exit.
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

    /// Takes all of the state out of the CPU. Afterwards accesses to FP registers do not trap, and the
    /// caller is to close that.
    pub fn save_all(&mut self) {
        self.save();
        fp::open();
        self.fpexc = read!("fpexc32_el2");
    }

    /// Puts the state into the CPU. Afterwards accesses to FP registers do not trap, and the caller is to
    /// set whether they do.
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
    // A firmware or an ELF file is not told where the device tree is: its registers are zero, as on QEMU.
    if boots && argument != 0 {
        (x[1], x[2]) = (NO_MACHINE, argument);
    } else {
        x[0] = argument;
    }
}
