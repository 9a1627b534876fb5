//! The PL1 and PL0 state that stays in the CPU while its vCPU does.
//!
//! Saved and loaded only when a pCPU changes its vCPU. Banked general registers travel with each
//! exit (`context.rs`); what is hidden from a guest by a trap (PMU, debug, Jazelle) is not here, and
//! FP has a module of its own.

use crate::{encoding, read, write, write_own};
use core::arch::asm;

/// The instruction that takes a register of the CPU into general ones.
macro_rules! taking {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal $to:literal) => {
        concat!(
            "mrc p15, ",
            $opc1,
            ", ",
            $to,
            ", c",
            $crn,
            ", c",
            $crm,
            ", ",
            $opc2
        )
    };
    (pair $opc1:literal $crm:literal $low:literal $high:literal) => {
        concat!("mrrc p15, ", $opc1, ", ", $low, ", ", $high, ", c", $crm)
    };
    (banked $name:literal $to:literal) => {
        concat!("mrs ", $to, ", ", $name)
    };
}

/// The instruction that puts general registers into one of the CPU.
macro_rules! giving {
    (one $opc1:literal $crn:literal $crm:literal $opc2:literal $from:literal) => {
        concat!(
            "mcr p15, ",
            $opc1,
            ", ",
            $from,
            ", c",
            $crn,
            ", c",
            $crm,
            ", ",
            $opc2
        )
    };
    (pair $opc1:literal $crm:literal $low:literal $high:literal) => {
        concat!("mcrr p15, ", $opc1, ", ", $low, ", ", $high, ", c", $crm)
    };
    (banked $name:literal $from:literal) => {
        concat!("msr ", $name, ", ", $from)
    };
}

/// The state, with what moves most of it in groups of eight words: one STM or LDM for each,
/// where moving the registers one by one takes two instructions each.
macro_rules! pl1_state {
    (
        [$p:ident = $p_:tt, $q:ident = $q_:tt, $r:ident = $r_:tt, $s:ident = $s_:tt]
        $([$a:ident = $a_:tt, $b:ident = $b_:tt, $c:ident = $c_:tt, $d:ident = $d_:tt,
           $e:ident = $e_:tt, $f:ident = $f_:tt, $g:ident = $g_:tt, $h:ident = $h_:tt])+
    ) => {
        /// Register values, each under its own name, as wide as the register is. What moves in
        /// groups comes first, in the groups' order.
        #[derive(Clone, Copy, Debug, Default)]
        #[repr(C)]
        pub struct Pl1State {
            #[doc = concat!("`", $p_, "`")] pub $p: u64,
            #[doc = concat!("`", $q_, "`")] pub $q: u64,
            #[doc = concat!("`", $r_, "`")] pub $r: u64,
            #[doc = concat!("`", $s_, "`")] pub $s: u64,
            $(#[doc = concat!("`", $a_, "`")] pub $a: u32,
              #[doc = concat!("`", $b_, "`")] pub $b: u32,
              #[doc = concat!("`", $c_, "`")] pub $c: u32,
              #[doc = concat!("`", $d_, "`")] pub $d: u32,
              #[doc = concat!("`", $e_, "`")] pub $e: u32,
              #[doc = concat!("`", $f_, "`")] pub $f: u32,
              #[doc = concat!("`", $g_, "`")] pub $g: u32,
              #[doc = concat!("`", $h_, "`")] pub $h: u32,)+
            /// CNTV_CTL, which is on only where all else is in place.
            pub cntv_ctl: u32,
            /// TTBCR and SCTLR, which are written last.
            pub tcr: u32,
            #[doc = "SCTLR"]
            pub sctlr: u32,
            /// VMPIDR, which no guest writes.
            pub vmpidr: u32,
            /// FCSEIDR, by which addresses below 32 MiB are moved (DDI 0406C, D11.2). CPUs with the
            /// virtualization extensions have it read-only, and zero; QEMU's have it whole.
            pub fcseidr: u32,
            /// TEECR and TEEHBR, where the CPU has them.
            pub thumbee: (u32, u32),
        }

        impl Pl1State {
            #[inline(always)]
            fn save_groups(&mut self) {
                // SAFETY: the groups are what `self` begins with, without gaps, as each is as long
                // as its type and they come in the order of their sizes; reading these registers
                // changes nothing.
                unsafe {
                    asm!(
                        ".arch_extension virt",
                        encoding!($p_, [taking] "r1" "r2"), encoding!($q_, [taking] "r3" "r4"),
                        encoding!($r_, [taking] "r5" "r8"), encoding!($s_, [taking] "r9" "r12"),
                        "stmia {at}!, {{r1, r2, r3, r4, r5, r8, r9, r12}}",
                        $(encoding!($a_, [taking] "r1"), encoding!($b_, [taking] "r2"),
                          encoding!($c_, [taking] "r3"), encoding!($d_, [taking] "r4"),
                          encoding!($e_, [taking] "r5"), encoding!($f_, [taking] "r8"),
                          encoding!($g_, [taking] "r9"), encoding!($h_, [taking] "r12"),
                          "stmia {at}!, {{r1, r2, r3, r4, r5, r8, r9, r12}}",)+
                        at = inout(reg) &raw mut *self => _,
                        out("r1") _, out("r2") _, out("r3") _, out("r4") _,
                        out("r5") _, out("r8") _, out("r9") _, out("r12") _,
                        options(nostack, preserves_flags)
                    );
                }
            }

            #[inline(always)]
            fn load_groups(&self) {
                // SAFETY: the groups are what `self` begins with, as above; these registers govern
                // the guest alone.
                unsafe {
                    asm!(
                        ".arch_extension virt",
                        "ldmia {at}!, {{r1, r2, r3, r4, r5, r8, r9, r12}}",
                        encoding!($p_, [giving] "r1" "r2"), encoding!($q_, [giving] "r3" "r4"),
                        encoding!($r_, [giving] "r5" "r8"), encoding!($s_, [giving] "r9" "r12"),
                        $("ldmia {at}!, {{r1, r2, r3, r4, r5, r8, r9, r12}}",
                          encoding!($a_, [giving] "r1"), encoding!($b_, [giving] "r2"),
                          encoding!($c_, [giving] "r3"), encoding!($d_, [giving] "r4"),
                          encoding!($e_, [giving] "r5"), encoding!($f_, [giving] "r8"),
                          encoding!($g_, [giving] "r9"), encoding!($h_, [giving] "r12"),)+
                        at = inout(reg) &raw const *self => _,
                        out("r1") _, out("r2") _, out("r3") _, out("r4") _,
                        out("r5") _, out("r8") _, out("r9") _, out("r12") _,
                        options(nostack, preserves_flags, readonly)
                    );
                }
            }
        }
    };
}

pl1_state! {
    [ttbr0 = "ttbr0_el1", ttbr1 = "ttbr1_el1", par = "par_el1", cntv_cval = "cntv_cval_el0"]
    [cpacr = "cpacr_el1", dacr = "dacr32_el2", mair0 = "mair0_el1", mair1 = "mair1_el1",
     amair0 = "amair0_el1", amair1 = "amair1_el1", vbar = "vbar_el1", contextidr = "contextidr_el1"]
    [dfsr = "esr_el1", ifsr = "ifsr32_el2", adfsr = "afsr0_el1", aifsr = "afsr1_el1",
     dfar = "dfar_el1", ifar = "ifar_el1", csselr = "csselr_el1", cntkctl = "cntkctl_el1"]
    [spsr_svc = "spsr_svc", spsr_abt = "spsr_abt", spsr_und = "spsr_und", spsr_irq = "spsr_irq",
     spsr_fiq = "spsr_fiq", tpidrurw = "tpidr_el0", tpidruro = "tpidrro_el0", tpidrprw = "tpidr_el1"]
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
        self.save_groups();
        self.cntv_ctl = read!("cntv_ctl_el0") as u32;
        self.fcseidr = read!("fcseidr") as u32;
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
    /// place, stage 1 is on, so that no address is translated flat, and its walks are off, as in the
    /// 64-bit backend.
    pub fn load(&self, vttbr: u64, thumbee: bool) {
        let closed = if self.tcr & LONG != 0 {
            NO_LONG_WALKS
        } else {
            NO_SHORT_WALKS
        };
        write!("tcr_el1", u64::from(self.tcr | closed));
        hanok_arm_common::sysreg::isb();
        write!("sctlr_el1", u64::from(self.sctlr | STAGE_1));
        hanok_arm_common::sysreg::isb();
        // SAFETY: the stage 2 of the VM whose vCPU this is, under the VMID that is its alone.
        unsafe { write_own!("vttbr_el2", vttbr) };
        // The timer is off while its compare value changes, so that it does not fire in between.
        write!("cntv_ctl_el0", 0);
        self.load_groups();
        write!("vmpidr_el2", self.vmpidr.into());
        write!("fcseidr", self.fcseidr.into());
        write!("cntv_ctl_el0", self.cntv_ctl.into());
        if thumbee {
            write!("teecr32_el1", self.thumbee.0.into());
            write!("teehbr32_el1", self.thumbee.1.into());
        }
        hanok_arm_common::sysreg::isb();
        write!("sctlr_el1", self.sctlr.into());
        hanok_arm_common::sysreg::isb();
        write!("tcr_el1", self.tcr.into());
    }
}
