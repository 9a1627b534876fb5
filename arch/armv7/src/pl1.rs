//! The PL1 and PL0 state that stays in the CPU while its vCPU does.
//!
//! Saved and loaded only when a pCPU changes its vCPU. Banked general registers travel with each
//! exit (`vcpu.rs`); what is hidden from a guest by a trap (PMU, debug, Jazelle) is not here, and
//! FP has a module of its own.

use crate::{read, write};

macro_rules! pl1_state {
    ($($field:ident: $width:ty = $register:tt),* $(,)?) => {
        /// Register values, each under its own name, as wide as the register is.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Pl1State {
            $(#[doc = concat!("`", $register, "`")] pub $field: $width,)*
            /// TTBCR and SCTLR, which are written last.
            pub tcr: u32,
            #[doc = "SCTLR"]
            pub sctlr: u32,
            /// TEECR and TEEHBR, where the CPU has them.
            pub thumbee: (u32, u32),
        }

        impl Pl1State {
            fn save_registers(&mut self) {
                $(self.$field = read!($register) as $width;)*
            }

            fn load_registers(&self) {
                $(write!($register, u64::from(self.$field));)*
            }
        }
    };
}

pl1_state! {
    vmpidr: u32 = "vmpidr_el2",
    cpacr: u32 = "cpacr_el1",
    ttbr0: u64 = "ttbr0_el1",
    ttbr1: u64 = "ttbr1_el1",
    dacr: u32 = "dacr32_el2",
    mair0: u32 = "mair0_el1",
    mair1: u32 = "mair1_el1",
    amair0: u32 = "amair0_el1",
    amair1: u32 = "amair1_el1",
    vbar: u32 = "vbar_el1",
    contextidr: u32 = "contextidr_el1",
    dfsr: u32 = "esr_el1",
    ifsr: u32 = "ifsr32_el2",
    adfsr: u32 = "afsr0_el1",
    aifsr: u32 = "afsr1_el1",
    dfar: u32 = "dfar_el1",
    ifar: u32 = "ifar_el1",
    spsr_svc: u32 = "spsr_svc",
    spsr_abt: u32 = "spsr_abt",
    spsr_und: u32 = "spsr_und",
    spsr_irq: u32 = "spsr_irq",
    spsr_fiq: u32 = "spsr_fiq",
    tpidrurw: u32 = "tpidr_el0",
    tpidruro: u32 = "tpidrro_el0",
    tpidrprw: u32 = "tpidr_el1",
    par: u64 = "par_el1",
    csselr: u32 = "csselr_el1",
    cntkctl: u32 = "cntkctl_el1",
    cntv_cval: u64 = "cntv_cval_el0",
    cntv_ctl: u32 = "cntv_ctl_el0",
}

/// SCTLR out of reset: its RES1 bits, and the barriers of coprocessor 15 (DDI 0406C, B4.1.130).
const SCTLR_RESET: u32 = 0x00c5_0078;
/// SCTLR.M.
const STAGE_1: u32 = 1;
/// TTBCR.EAE: long descriptors.
const LONG: u32 = 1 << 31;
/// TTBCR.EPD0 and EPD1 of long descriptors: a TLB miss is a fault, not a walk.
const NO_LONG_WALKS: u32 = 1 << 7 | 1 << 23;
/// TTBCR.PD0 and PD1 of short ones.
const NO_SHORT_WALKS: u32 = 3 << 4;

impl Pl1State {
    /// A vCPU as it comes out of reset, with this affinity; MMU and caches off, vectors at 0.
    pub fn reset(vmpidr: u64) -> Self {
        Self {
            vmpidr: vmpidr as u32,
            sctlr: SCTLR_RESET,
            ..Self::default()
        }
    }

    /// Takes the state out of the CPU.
    pub fn save(&mut self, thumbee: bool) {
        self.save_registers();
        if thumbee {
            self.thumbee = (read!("teecr32_el1") as u32, read!("teehbr32_el1") as u32);
        }
        self.tcr = read!("tcr_el1") as u32;
        self.sctlr = read!("sctlr_el1") as u32;
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
        write!("tcr_el1", u64::from(self.tcr | closed));
        crate::sysreg::isb();
        write!("sctlr_el1", u64::from(self.sctlr | STAGE_1));
        crate::sysreg::isb();
        write!("vttbr_el2", vttbr);
        // The timer off while its compare value changes, so that it does not fire between.
        write!("cntv_ctl_el0", 0);
        self.load_registers();
        if thumbee {
            write!("teecr32_el1", self.thumbee.0.into());
            write!("teehbr32_el1", self.thumbee.1.into());
        }
        crate::sysreg::isb();
        write!("sctlr_el1", self.sctlr.into());
        crate::sysreg::isb();
        write!("tcr_el1", self.tcr.into());
    }
}
