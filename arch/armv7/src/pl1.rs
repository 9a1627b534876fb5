//! The PL1 and PL0 state that stays in the CPU while its vCPU does.
//!
//! Saved and loaded only when a pCPU changes its vCPU. Banked general registers travel with each
//! exit (`vcpu.rs`); what is hidden from a guest by a trap (PMU, debug, Jazelle) is not here, and
//! FP has a module of its own.

use crate::{read, write};

macro_rules! pl1_state {
    ($($field:ident = $register:tt),* $(,)?) => {
        /// Register values, each under its own name.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Pl1State {
            $(#[doc = concat!("`", $register, "`")] pub $field: u64,)*
            /// TTBCR and SCTLR, which are written last.
            pub tcr: u64,
            #[doc = "SCTLR"]
            pub sctlr: u64,
            /// TEECR and TEEHBR, where the CPU has them.
            pub thumbee: (u64, u64),
        }

        impl Pl1State {
            fn save_registers(&mut self) {
                $(self.$field = read!($register);)*
            }

            fn load_registers(&self) {
                $(write!($register, self.$field);)*
            }
        }
    };
}

pl1_state! {
    vmpidr = "vmpidr_el2",
    cpacr = "cpacr_el1",
    ttbr0 = "ttbr0_el1",
    ttbr1 = "ttbr1_el1",
    dacr = "dacr32_el2",
    mair0 = "mair0_el1",
    mair1 = "mair1_el1",
    amair0 = "amair0_el1",
    amair1 = "amair1_el1",
    vbar = "vbar_el1",
    contextidr = "contextidr_el1",
    dfsr = "esr_el1",
    ifsr = "ifsr32_el2",
    adfsr = "afsr0_el1",
    aifsr = "afsr1_el1",
    dfar = "dfar_el1",
    ifar = "ifar_el1",
    spsr_svc = "spsr_svc",
    spsr_abt = "spsr_abt",
    spsr_und = "spsr_und",
    spsr_irq = "spsr_irq",
    spsr_fiq = "spsr_fiq",
    tpidrurw = "tpidr_el0",
    tpidruro = "tpidrro_el0",
    tpidrprw = "tpidr_el1",
    par = "par_el1",
    csselr = "csselr_el1",
    cntkctl = "cntkctl_el1",
    cntv_cval = "cntv_cval_el0",
    cntv_ctl = "cntv_ctl_el0",
}

/// SCTLR out of reset: its RES1 bits, and the barriers of coprocessor 15 (DDI 0406C, B4.1.130).
const SCTLR_RESET: u64 = 0x00c5_0078;
/// SCTLR.M.
const STAGE_1: u64 = 1;
/// TTBCR.EAE: long descriptors.
const LONG: u64 = 1 << 31;
/// TTBCR.EPD0 and EPD1 of long descriptors: a TLB miss is a fault, not a walk.
const NO_LONG_WALKS: u64 = 1 << 7 | 1 << 23;
/// TTBCR.PD0 and PD1 of short ones.
const NO_SHORT_WALKS: u64 = 3 << 4;

impl Pl1State {
    /// A vCPU as it comes out of reset, with this affinity; MMU and caches off, vectors at 0.
    pub fn reset(vmpidr: u64) -> Self {
        Self {
            vmpidr,
            sctlr: SCTLR_RESET,
            ..Self::default()
        }
    }

    /// Takes the state out of the CPU.
    pub fn save(&mut self, thumbee: bool) {
        self.save_registers();
        if thumbee {
            self.thumbee = (read!("teecr32_el1"), read!("teehbr32_el1"));
        }
        self.tcr = read!("tcr_el1");
        self.sctlr = read!("sctlr_el1");
    }

    /// Puts the state into the CPU, together with stage 2. Takes effect for PL1 at the next
    /// return to it.
    ///
    /// Between the first and the last write the CPU holds parts of two vCPUs; until all is in
    /// place, stage 1 is on, that nothing is translated flat, and its walks are off, as in the
    /// 64-bit backend.
    pub fn load(&self, vttbr: u64, thumbee: bool) {
        let closed = if self.tcr & LONG != 0 {
            NO_LONG_WALKS
        } else {
            NO_SHORT_WALKS
        };
        write!("tcr_el1", self.tcr | closed);
        crate::sysreg::isb();
        write!("sctlr_el1", self.sctlr | STAGE_1);
        crate::sysreg::isb();
        write!("vttbr_el2", vttbr);
        // The timer off while its compare value changes, so that it does not fire between.
        write!("cntv_ctl_el0", 0);
        self.load_registers();
        if thumbee {
            write!("teecr32_el1", self.thumbee.0);
            write!("teehbr32_el1", self.thumbee.1);
        }
        crate::sysreg::isb();
        write!("sctlr_el1", self.sctlr);
        crate::sysreg::isb();
        write!("tcr_el1", self.tcr);
    }
}
