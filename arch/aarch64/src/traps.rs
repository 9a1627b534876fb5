//! The values of the registers that decide which actions of a guest exit to EL2.

use crate::{read, write, write_own};
use hanok_arm_common::controls::{Hcr, Mdcr};
use hanok_arm_common::pmu;
use hanok_decode::has_mpam;
use hanok_paging::{Geometry, PaRange, vtcr_el2};

/// The CPU's optional features that the hypervisor must know of, read once.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// FEAT_PAuth: the guest has it, and its keys are switched.
    pub pointer_authentication: bool,
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
            mdcr: Mdcr::DENIED | Mdcr::TPMS | Mdcr::TTRF | pmu::fence(),
        }
    }

    /// MDCR_EL2 of every guest.
    fn mdcr(&self) -> u64 {
        self.mdcr.bits()
    }
}

/// HCR_EL2 of a guest that runs; `shared` if other vCPUs have the same pCPU.
pub fn guest_hcr(features: Features, shared: bool) -> Hcr {
    let mut hcr = Hcr::of_guest(shared) | Hcr::RW | Hcr::TLOR | Hcr::TERR | Hcr::TID5;
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
    if has_mpam(pfr0, read!("id_aa64pfr1_el1")) {
        close_mpam();
    }
    if field(read!("id_aa64dfr0_el1"), 40) != 0 {
        write!("s3_4_c1_c2_1", 0); // TRFCR_EL2: no trace of EL2
    }
}

/// EL0's and EL1's accesses to memory partitioning exit, and partition 0 is all there is (DDI 0598,
/// 9.5): MPAM2_EL2.TRAPMPAM0EL1, TRAPMPAM1EL1 and, of MPAMIDR_EL1, TIDR; where there is
/// MPAMHCR_EL2 (MPAMIDR_EL1.HAS_HCR), its TRAP_MPAMIDR_EL1 instead of TIDR.
#[cold]
fn close_mpam() {
    write!("s3_4_c10_c5_0", 3 << 48 | 1 << 58);
    if read!("s3_0_c10_c4_4") >> 17 & 1 != 0 {
        write!("s3_4_c10_c4_0", 1 << 31);
    }
}

/// Clears the state that errors of the former vCPU left in this CPU: a deferred SError and its syndrome.
pub fn forget_errors() {
    // FEAT_RAS.
    if field(read!("id_aa64pfr0_el1"), 28) != 0 {
        write!("s3_4_c5_c2_3", 0); // VSESR_EL2
        write!("s3_4_c12_c1_1", 0); // VDISR_EL2
    }
}

/// Sets the registers that are the same for every guest on this CPU; HCR_EL2 is set with each vCPU. `vtcr`
/// is the same for all, and `empty_space` the VTTBR_EL2 while there is no guest.
pub fn install(vtcr: u64, empty_space: u64, features: Features) {
    // SAFETY: no guest runs here yet; it is of the geometry that every stage 2 is made with.
    unsafe { write_own!("vtcr_el2", vtcr) };
    // SAFETY: the stage 2 that maps nothing, under the VMID that no VM has.
    unsafe { write_own!("vttbr_el2", empty_space) };
    // Software that ran here before may have left translations under VMIDs that are now used again. SAFETY:
    // TLB maintenance changes no translation.
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
    write!("mdcr_el2", features.mdcr());
    write!("vpidr_el2", read!("midr_el1"));
    close_extensions();
    // The OS lock, which is set at a cold reset, would suppress every debug event of a guest; the core
    // emulates the guest's own lock.
    write!("oslar_el1", 0);
    crate::fp::close();
    pmu::start();
    hanok_arm_common::sysreg::isb();
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
