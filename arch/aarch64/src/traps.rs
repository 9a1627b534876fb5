//! What exits: the values of the registers that decide which guest action comes to EL2.

use crate::{pmu, read, write};
use bitflags::bitflags;
use hanok_paging::{Geometry, PaRange, vtcr_el2};

bitflags! {
    /// HCR_EL2 (DDI 0487, D24.2.47), the bits used here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Hcr: u64 {
        /// Stage 2 translation.
        const VM = 1 << 0;
        /// Set/way invalidation also cleans, so that it harms no one else.
        const SWIO = 1 << 1;
        /// Physical FIQs come to EL2, virtual ones go to the guest.
        const FMO = 1 << 3;
        /// The same for IRQs.
        const IMO = 1 << 4;
        /// The same for SErrors.
        const AMO = 1 << 5;
        /// A virtual SError is pending.
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
        /// ACTLR_EL1 exits.
        const TACR = 1 << 21;
        /// EL1 is AArch64; it is AArch32 without.
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

    /// MDCR_EL2 (DDI 0487, D24.3.17), the bits used here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Mdcr: u64 {
        /// PMCR exits.
        const TPMCR = 1 << 5;
        /// PMU registers exit.
        const TPM = 1 << 6;
        /// EL2's own event counters count.
        const HPME = 1 << 7;
        /// Breakpoint, watchpoint and MDSCR registers exit.
        const TDA = 1 << 9;
        /// OS lock and power-down registers exit.
        const TDOSA = 1 << 10;
        /// Debug ROM registers exit.
        const TDRA = 1 << 11;
        /// Statistical profiling registers exit.
        const TPMS = 1 << 14;
        /// Trace filter registers exit.
        const TTRF = 1 << 19;
    }
}

/// The CPU's optional features that the hypervisor must know of, read once.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// FEAT_PAuth: the guest has it, and its keys are switched.
    pub pointer_authentication: bool,
    /// MDCR_EL2 of a guest that was given the debug registers.
    mdcr: Mdcr,
}

impl Features {
    /// From this CPU's ID registers.
    pub fn detect() -> Self {
        let isar1 = read!("id_aa64isar1_el1");
        let isar2 = read!("s3_0_c0_c6_2");
        // APA, API, GPA, GPI; APA3, GPA3.
        let pointer_authentication = isar1 & 0xff00_0ff0 != 0 || isar2 & 0xff00 != 0;
        Self {
            pointer_authentication,
            mdcr: guest_mdcr(),
        }
    }

    /// MDCR_EL2 of a guest that runs; `debug` where it was given the debug registers.
    #[inline]
    pub fn mdcr(&self, debug: bool) -> u64 {
        let denied = if debug { Mdcr::empty() } else { Mdcr::TDA };
        (self.mdcr | denied).bits()
    }
}

/// All that every guest is denied. HPMN keeps all event counters but EL2's own one on the
/// guest's side of a fence that TPM closes, and HPME lets that one count.
fn guest_mdcr() -> Mdcr {
    let mdcr = Mdcr::TPMCR | Mdcr::TPM | Mdcr::TDOSA | Mdcr::TDRA | Mdcr::TPMS | Mdcr::TTRF;
    match pmu::event_counters() {
        0 => mdcr,
        // HPMN zero is reserved (without FEAT_HPMN0): a CPU with one counter gives it away.
        1 => mdcr | Mdcr::from_bits_retain(1),
        count => mdcr | Mdcr::HPME | Mdcr::from_bits_retain(count - 1),
    }
}

/// HCR_EL2 of a guest that runs; `shared` where another vCPU may want its pCPU while it
/// waits. One that is alone waits in the CPU itself, without an exit.
pub fn guest_hcr(features: Features, shared: bool) -> Hcr {
    let mut hcr = Hcr::VM
        | Hcr::SWIO
        | Hcr::FMO
        | Hcr::IMO
        | Hcr::AMO
        | Hcr::FB
        | Hcr::BSU_INNER
        | Hcr::TID3
        | Hcr::TSC
        | Hcr::TIDCP
        | Hcr::TACR
        | Hcr::RW
        | Hcr::TLOR
        | Hcr::TERR
        | Hcr::TID5;
    if shared {
        hcr |= Hcr::TWI;
    }
    if features.pointer_authentication {
        hcr |= Hcr::APK | Hcr::API;
    }
    hcr
}

/// CNTHCTL_EL2: EL1 reads the physical counter (EL1PCTEN), its physical timer exits.
const CNTHCTL: u64 = 1;

/// HSTR_EL2.T15: what an implementation adds to coprocessor 15 at CRn 15 exits, for AArch32 code,
/// which HCR_EL2.TIDCP leaves out: caches' contents, settings that guests share, and CBAR of CPUs
/// of Armv7, whose kernels look for it (DDI 0487, D24.2, HSTR_EL2).
const HSTR: u64 = 1 << 15;

/// A four-bit field of an ID register.
fn field(register: u64, at: u32) -> u64 {
    register >> at & 0xf
}

/// EL2's registers of later extensions come out of reset with unknown values, or as the
/// firmware left them. Zero closes what has to be opened, and traps nothing more.
fn close_extensions() {
    let pfr0 = read!("id_aa64pfr0_el1");
    let fine_grained = field(read!("id_aa64mmfr0_el1"), 56);
    if field(read!("id_aa64mmfr1_el1"), 40) != 0 {
        write!("s3_4_c1_c2_2", 0); // HCRX_EL2
    }
    if fine_grained >= 1 {
        write!("s3_4_c1_c1_4", 0); // HFGRTR_EL2
        write!("s3_4_c1_c1_5", 0); // HFGWTR_EL2
        write!("s3_4_c1_c1_6", 0); // HFGITR_EL2
        write!("s3_4_c3_c1_4", 0); // HDFGRTR_EL2
        write!("s3_4_c3_c1_5", 0); // HDFGWTR_EL2
        if field(pfr0, 44) != 0 {
            write!("s3_4_c3_c1_6", 0); // HAFGRTR_EL2
        }
    }
    if fine_grained >= 2 {
        write!("s3_4_c3_c1_0", 0); // HDFGRTR2_EL2
        write!("s3_4_c3_c1_1", 0); // HDFGWTR2_EL2
        write!("s3_4_c3_c1_2", 0); // HFGRTR2_EL2
        write!("s3_4_c3_c1_3", 0); // HFGWTR2_EL2
        write!("s3_4_c3_c1_7", 0); // HFGITR2_EL2
    }
    if field(pfr0, 40) != 0 {
        // MPAM2_EL2: EL0's and EL1's accesses exit, partition 0.
        write!("s3_4_c10_c5_0", 3 << 48);
    }
    if field(read!("id_aa64dfr0_el1"), 40) != 0 {
        write!("s3_4_c1_c2_1", 0); // TRFCR_EL2: no trace of EL2
    }
}

/// No error is deferred to, and no syndrome kept for, a vCPU that comes to this CPU.
pub fn forget_errors() {
    // FEAT_RAS.
    if field(read!("id_aa64pfr0_el1"), 28) != 0 {
        write!("s3_4_c5_c2_3", 0); // VSESR_EL2
        write!("s3_4_c12_c1_1", 0); // VDISR_EL2
    }
}

/// Sets what is the same for every guest on this CPU; HCR_EL2 comes with each vCPU. `vtcr`
/// is the same for all, and `nobody` the VTTBR_EL2 while there is no guest.
pub fn install(vtcr: u64, nobody: u64, features: Features) {
    write!("vtcr_el2", vtcr);
    write!("vttbr_el2", nobody);
    // Whatever ran here before left its translations under VMIDs that are given out anew.
    // SAFETY: TLB maintenance changes no translation.
    unsafe {
        core::arch::asm!(
            "tlbi alle1",
            "dsb nsh",
            "isb",
            options(nostack, preserves_flags)
        )
    };
    write!("cnthctl_el2", CNTHCTL);
    write!("cntvoff_el2", 0);
    write!("hstr_el2", HSTR);
    write!("mdcr_el2", features.mdcr(false));
    write!("vpidr_el2", read!("midr_el1"));
    close_extensions();
    // The OS lock, closed at a cold reset, would keep every debug event of a guest away; the
    // guest's own lock is the core's.
    write!("oslar_el1", 0);
    crate::fp::close();
    pmu::start();
    crate::sysreg::isb();
}

/// VTCR_EL2 for stage 2 tables of this shape on this CPU.
pub fn vtcr(geometry: &Geometry) -> u64 {
    vtcr_el2(geometry, PaRange::from_mmfr0(read!("id_aa64mmfr0_el1")))
}

/// Whether this CPU can run guests with AArch32 at EL1 (ID_AA64PFR0_EL1.EL1).
pub fn has_aarch32_guests() -> bool {
    field(read!("id_aa64pfr0_el1"), 4) == 2
}

/// Why this CPU cannot run the hypervisor although it was started at EL2, if so.
pub fn unsuitable() -> Option<&'static str> {
    (read!("hcr_el2") >> 34 & 1 != 0).then_some(
        "this CPU runs EL2 with virtualization host extensions alone (no FEAT_E2H0), which is \
         not supported",
    )
}
