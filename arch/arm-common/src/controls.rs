//! The registers that decide what exits, and the bits of them that are the same for guests of both
//! architectures.

use bitflags::bitflags;

bitflags! {
    /// HCR_EL2 (DDI 0487, D24.2.47): the bits that are used here. Those before the first that says
    /// otherwise are HCR's, too (DDI 0406C, B4.1.65).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hcr: u64 {
        /// Stage 2 translation.
        const VM = 1 << 0;
        /// Set/way invalidation also cleans, so that it loses no data of others.
        const SWIO = 1 << 1;
        /// A walk of the guest's tables to an address that stage 2 maps as a device is a permission fault:
        /// a walk reads RAM alone, so that no table of a guest's can make the CPU read a device, which
        /// might answer with an abort.
        const PTW = 1 << 2;
        /// Physical FIQs come to EL2, virtual ones go to the guest.
        const FMO = 1 << 3;
        /// The same for IRQs.
        const IMO = 1 << 4;
        /// The same for SErrors, or asynchronous aborts.
        const AMO = 1 << 5;
        /// A virtual SError, or asynchronous abort, is pending (HCR.VA).
        const VSE = 1 << 8;
        /// A guest's TLB and instruction cache operations reach the inner shareable domain,
        /// since it may run on another CPU next.
        const FB = 1 << 9;
        /// Its barriers are at least inner shareable (BSU).
        const BSU_INNER = 1 << 10;
        /// WFI exits.
        const TWI = 1 << 13;
        /// ID registers of group 3 exit.
        const TID3 = 1 << 18;
        /// SMC exits.
        const TSC = 1 << 19;
        /// Implementation-defined registers exit.
        const TIDCP = 1 << 20;
        /// ACTLR_EL1 exits (HCR.TAC).
        const TACR = 1 << 21;
        /// EL1 is AArch64; it is AArch32 without. This and the following are HCR_EL2's alone.
        const RW = 1 << 31;
        /// LORegion registers exit.
        const TLOR = 1 << 35;
        /// RAS error records exit.
        const TERR = 1 << 36;
        /// Pointer authentication keys do not exit.
        const APK = 1 << 40;
        /// Pointer authentication instructions do not exit.
        const API = 1 << 41;
        /// SCXTNUM does not exit.
        const EN_SCXT = 1 << 53;
        /// GMID_EL1 exits.
        const TID5 = 1 << 58;
    }

    /// MDCR_EL2 (DDI 0487, D24.3.17): the bits that are used here. Those before the first that says
    /// otherwise are HDCR's, too (DDI 0406C, B4.1.66).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mdcr: u64 {
        /// PMCR exits.
        const TPMCR = 1 << 5;
        /// PMU registers exit.
        const TPM = 1 << 6;
        /// The hypervisor's own event counters count.
        const HPME = 1 << 7;
        /// Breakpoint, watchpoint and other debug registers exit.
        const TDA = 1 << 9;
        /// OS lock and power-down registers exit.
        const TDOSA = 1 << 10;
        /// Debug ROM registers exit.
        const TDRA = 1 << 11;
        /// Statistical profiling registers exit. This and the following are MDCR_EL2's alone.
        const TPMS = 1 << 14;
        /// Trace filter registers exit.
        const TTRF = 1 << 19;
    }
}

impl Hcr {
    /// The value for every guest. `shared`: other vCPUs have the same pCPU, and may run while this one
    /// waits. A vCPU that has its pCPU alone waits in the CPU itself, without an exit.
    pub fn of_guest(shared: bool) -> Self {
        let hcr = Self::VM
            | Self::SWIO
            | Self::PTW
            | Self::FMO
            | Self::IMO
            | Self::AMO
            | Self::FB
            | Self::BSU_INNER
            | Self::TID3
            | Self::TSC
            | Self::TIDCP
            | Self::TACR;
        if shared { hcr | Self::TWI } else { hcr }
    }
}

impl Mdcr {
    /// The value for every guest: accesses to the PMU, which guests do not have, exit, and so do those to
    /// all debug registers. The core emulates the debug registers that are switched with the vCPU.
    pub const DENIED: Self = Self::TPMCR
        .union(Self::TPM)
        .union(Self::TDA)
        .union(Self::TDOSA)
        .union(Self::TDRA);
}
