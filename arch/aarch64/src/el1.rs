//! The EL1 and EL0 state that stays in the CPU while its vCPU does.
//!
//! Saved and loaded only when a pCPU changes its vCPU. State that a trap hides from the guest (PMU, SVE,
//! MTE, ...) is not here; state that is switched lazily (FP, debug) has modules of its own.

use crate::{read, write, write_own};
use hanok_arm_common::controls::Hcr;
use hanok_arm_common::sysreg::isb;

macro_rules! el1_state {
    ($($(#[$doc:meta])* $field:ident = $register:literal),* $(,)?) => {
        /// Register values, each under its own name.
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub struct El1State {
            $($(#[$doc])* #[doc = concat!("`", $register, "`")] pub $field: u64,)*
            /// `tcr_el1` and `sctlr_el1`, which are written last.
            pub tcr: u64,
            #[doc = "`sctlr_el1`"]
            pub sctlr: u64,
            /// Pointer authentication keys, where the CPU has them: IA, IB, DA, DB, GA.
            pub keys: [u64; 10],
        }

        impl El1State {
            fn save_registers(&mut self) {
                $(self.$field = read!($register);)*
            }

            fn load_registers(&self) {
                $(write!($register, self.$field);)*
            }
        }
    };
}

el1_state! {
    vmpidr = "vmpidr_el2",
    cpacr = "cpacr_el1",
    ttbr0 = "ttbr0_el1",
    ttbr1 = "ttbr1_el1",
    mair = "mair_el1",
    amair = "amair_el1",
    vbar = "vbar_el1",
    contextidr = "contextidr_el1",
    esr = "esr_el1",
    far = "far_el1",
    afsr0 = "afsr0_el1",
    afsr1 = "afsr1_el1",
    elr = "elr_el1",
    spsr = "spsr_el1",
    sp_el0 = "sp_el0",
    sp_el1 = "sp_el1",
    tpidr_el0 = "tpidr_el0",
    tpidrro_el0 = "tpidrro_el0",
    tpidr_el1 = "tpidr_el1",
    par = "par_el1",
    csselr = "csselr_el1",
    mdscr = "mdscr_el1",
    cntkctl = "cntkctl_el1",
    cntv_cval = "cntv_cval_el0",
    cntv_ctl = "cntv_ctl_el0",
}

macro_rules! keys {
    ($do:ident, $($index:literal $register:literal),*) => { $($do!($index, $register);)* };
}

macro_rules! each_key {
    ($do:ident) => {
        // APIAKeyLo to APGAKeyHi by encoding: the names need FEAT_PAuth in the assembler.
        keys!(
            $do, 0 "s3_0_c2_c1_0", 1 "s3_0_c2_c1_1", 2 "s3_0_c2_c1_2", 3 "s3_0_c2_c1_3",
            4 "s3_0_c2_c2_0", 5 "s3_0_c2_c2_1", 6 "s3_0_c2_c2_2", 7 "s3_0_c2_c2_3",
            8 "s3_0_c2_c3_0", 9 "s3_0_c2_c3_1"
        );
    };
}

impl El1State {
    /// The state of a vCPU out of reset (DDI 0487, D1.9.2 and the registers' own reset
    /// values), with this affinity and SCTLR_EL1. The boot protocol requires MMU and caches to be off.
    pub fn reset(vmpidr: u64, sctlr: u64) -> Self {
        Self {
            vmpidr,
            sctlr,
            ..Self::default()
        }
    }

    /// Takes the state out of the CPU.
    pub fn save(&mut self, pointer_authentication: bool) {
        self.save_registers();
        self.tcr = read!("tcr_el1");
        self.sctlr = read!("sctlr_el1");
        if pointer_authentication {
            macro_rules! save_key {
                ($index:literal, $register:literal) => {
                    self.keys[$index] = read!($register)
                };
            }
            each_key!(save_key);
        }
    }

    /// Puts the state into the CPU, together with stage 2. Takes effect for EL1 at the next
    /// return to it.
    ///
    /// Between the first and the last write the CPU holds parts of two vCPUs. A translation
    /// that it speculates then (also by an AT instruction it only guesses, errata 1319367
    /// and 1319537) would put a mixture of both into its TLB. So until all registers are in place,
    /// stage 1 is on, so that no address is translated flat, and walks of its tables are off. HCR_EL2 is
    /// written in this window, too: its RW bit says how the other registers are read.
    pub fn load(&self, vttbr: u64, hcr: Hcr, pointer_authentication: bool) {
        write!("tcr_el1", self.tcr | NO_WALKS);
        isb();
        write!("sctlr_el1", self.sctlr | STAGE_1);
        isb();
        // SAFETY: the stage 2 of the VM whose vCPU this is, under the VMID that is its alone.
        unsafe { write_own!("vttbr_el2", vttbr) };
        // SAFETY: made by `guest_hcr`: stage 2 and all traps are on while the guest runs.
        unsafe { write_own!("hcr_el2", hcr.bits()) };
        // The timer is off while its compare value changes, so that it does not fire in between.
        write!("cntv_ctl_el0", 0);
        self.load_registers();
        if pointer_authentication {
            macro_rules! load_key {
                ($index:literal, $register:literal) => {
                    write!($register, self.keys[$index])
                };
            }
            each_key!(load_key);
        }
        isb();
        write!("sctlr_el1", self.sctlr);
        isb();
        write!("tcr_el1", self.tcr);
    }
}

/// SCTLR_EL1 out of reset: its RES1 bits for a CPU without the later features.
pub const SCTLR_RESET: u64 = 0x30d0_0800;

/// SCTLR_EL1.M.
const STAGE_1: u64 = 1;

/// With these bits a TLB miss is a fault and not a walk, whichever vCPU's HCR_EL2.RW is set: TCR_EL1.EPD0 and
/// EPD1, which are also those of TTBCR with long descriptors; and PD0 and PD1 of TTBCR with short
/// ones, which lie in TCR_EL1.T0SZ.
const NO_WALKS: u64 = 1 << 7 | 1 << 23 | 3 << 4;
