//! What exits: the values of the registers that decide which guest action comes to Hyp mode.

use crate::{maintain, pmu, read, write};
use bitflags::bitflags;
use hanok_paging::Geometry;

bitflags! {
    /// HCR (DDI 0406C, B4.1.65), the bits used here, at the places of HCR_EL2's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hcr: u64 {
        /// Stage 2 translation.
        const VM = 1 << 0;
        /// Set/way invalidation also cleans, so that it harms no one else.
        const SWIO = 1 << 1;
        /// Physical FIQs come to Hyp mode, virtual ones go to the guest.
        const FMO = 1 << 3;
        /// The same for IRQs.
        const IMO = 1 << 4;
        /// The same for asynchronous aborts.
        const AMO = 1 << 5;
        /// A virtual asynchronous abort is pending (VA).
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
        /// ACTLR exits.
        const TAC = 1 << 21;
    }

    /// HDCR (B4.1.66), the bits used here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mdcr: u64 {
        /// PMCR exits.
        const TPMCR = 1 << 5;
        /// PMU registers exit.
        const TPM = 1 << 6;
        /// Hyp mode's own event counters count.
        const HPME = 1 << 7;
        /// Debug registers exit.
        const TDA = 1 << 9;
        /// OS lock and power-down registers exit.
        const TDOSA = 1 << 10;
        /// Debug ROM registers exit.
        const TDRA = 1 << 11;
    }
}

/// HSTR (B4.1.73): what an implementation adds to coprocessor 15 at CRn 15 exits (T15), which
/// HCR.TIDCP leaves out: CBAR, the board's own, and contents and errors of caches that guests
/// share. Jazelle does not (TJDBX): with the virtualization extensions it is the trivial one
/// (A2.10), which has no state, and whose BXJ is BX.
const HSTR: u64 = 1 << 15;

/// What the hypervisor must know of the CPUs, read once.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// ThumbEE: the guest has it, and its registers are switched.
    pub thumbee: bool,
    mdcr: Mdcr,
}

impl Features {
    /// From this CPU's ID registers.
    pub fn detect() -> Self {
        Self {
            // ID_PFR0.State3.
            thumbee: read!("id_pfr0_el1") >> 12 & 0xf == 1,
            mdcr: guest_mdcr(pmu::event_counters()),
        }
    }

    /// HDCR of a guest.
    #[inline]
    pub fn mdcr(&self) -> u64 {
        self.mdcr.bits()
    }
}

/// All that every guest is denied. HPMN keeps all event counters but Hyp mode's own one on the
/// guest's side of a fence that TPM closes, and HPME lets that one count.
const fn guest_mdcr(counters: u64) -> Mdcr {
    let debug = Mdcr::TDOSA.union(Mdcr::TDRA).union(Mdcr::TDA);
    let mdcr = debug.union(Mdcr::TPMCR).union(Mdcr::TPM);
    match counters {
        0 => mdcr,
        // HPMN zero is reserved (B4.1.66): a CPU with one counter gives it away.
        1 => mdcr.union(Mdcr::from_bits_retain(1)),
        count => {
            let hpmn = Mdcr::from_bits_retain(count - 1);
            mdcr.union(Mdcr::HPME).union(hpmn)
        }
    }
}
const _: () = {
    const HPMN: u64 = 0x1f;
    assert!(guest_mdcr(1).bits() & HPMN == 1 && guest_mdcr(2).bits() & HPMN == 1);
    assert!(guest_mdcr(31).bits() & HPMN == 30 && guest_mdcr(31).contains(Mdcr::HPME));
};

/// HCR of a guest that runs; `shared` where another vCPU may want its pCPU while it waits. One
/// that is alone waits in the CPU itself, without an exit.
pub fn guest_hcr(_features: Features, shared: bool) -> Hcr {
    let hcr = Hcr::VM
        | Hcr::SWIO
        | Hcr::FMO
        | Hcr::IMO
        | Hcr::AMO
        | Hcr::FB
        | Hcr::BSU_INNER
        | Hcr::TID3
        | Hcr::TSC
        | Hcr::TIDCP
        | Hcr::TAC;
    if shared { hcr | Hcr::TWI } else { hcr }
}

/// CNTHCTL: PL1 reads the physical counter (PL1PCTEN), its physical timer exits.
const CNTHCTL: u64 = 1;

/// Sets what is the same for every guest on this CPU; HCR comes with each vCPU. `vtcr` is the
/// same for all, and `nobody` the VTTBR while there is no guest.
pub fn install(vtcr: u64, nobody: u64, features: Features) {
    write!("vtcr_el2", vtcr);
    write!("vttbr_el2", nobody);
    // Whatever ran here before left its translations under VMIDs that are given out anew:
    // TLBIALLNSNH.
    crate::sysreg::dsb_sy();
    maintain!(4 8 7 4, 0);
    crate::sysreg::dsb_sy();
    crate::sysreg::isb();
    write!("cnthctl_el2", CNTHCTL);
    write!("cntvoff_el2", 0);
    write!("hstr_el2", HSTR);
    write!("mdcr_el2", features.mdcr());
    write!("vpidr_el2", read!("midr_el1"));
    crate::fp::install();
    pmu::start();
    crate::sysreg::isb();
}

/// For a test: MIDR, which the CPU answers by itself, says something else from now on.
pub fn unsettle_ids() {
    write!("vpidr_el2", !read!("vpidr_el2"));
}

/// VTCR for stage 2 tables of this shape.
pub fn vtcr(geometry: &Geometry) -> u64 {
    hanok_paging::vtcr(geometry)
}

/// Why this CPU cannot run the hypervisor although it was started in Hyp mode: nothing.
pub fn unsuitable() -> Option<&'static str> {
    None
}
