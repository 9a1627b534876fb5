//! The values of the registers that decide which actions of a guest exit to Hyp mode.

use crate::host_id::has_generic_timer;
use crate::{maintain, read, write, write_own};
use hanok_arm_common::controls::{Hcr, Mdcr};
use hanok_arm_common::pmu;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::sysreg::{dsb_sy, isb};
use hanok_paging::Geometry;

/// HSTR (DDI 0406C, B4.1.73): what an implementation adds to coprocessor 15 at CRn 15 exits (T15),
/// which HCR.TIDCP leaves out: CBAR, the board's own, and contents and errors of caches that
/// guests share. Jazelle does not (TJDBX): with the virtualization extensions it is the trivial one
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
            mdcr: Mdcr::DENIED | pmu::fence(),
        }
    }

    /// HDCR of a guest.
    #[inline]
    pub fn mdcr(&self) -> u64 {
        self.mdcr.bits()
    }
}

/// HCR of a guest that runs; `shared` if another vCPU may need its pCPU meanwhile.
pub fn guest_hcr(_features: Features, shared: bool) -> Hcr {
    Hcr::of_guest(shared)
}

/// CNTHCTL: PL1 reads the physical counter (PL1PCTEN), its physical timer exits.
const CNTHCTL: u64 = 1;

/// Sets the registers that are the same for every guest on this CPU; HCR is set with each vCPU. `vtcr` is
/// the same for all, and `empty_space` the VTTBR while there is no guest.
pub fn install(vtcr: u64, empty_space: u64, features: Features) {
    if is_deprivileged() {
        return install_at_pl1();
    }
    // SAFETY: no guest runs here yet; it is of the geometry that every stage 2 is made with.
    unsafe { write_own!("vtcr_el2", vtcr) };
    // SAFETY: the stage 2 that maps nothing, under the VMID that no VM has.
    unsafe { write_own!("vttbr_el2", empty_space) };
    // Software that ran here before may have left translations under VMIDs that are now used again:
    // TLBIALLNSNH.
    dsb_sy();
    maintain!(4 8 7 4, 0);
    dsb_sy();
    isb();
    write!("cnthctl_el2", CNTHCTL);
    write!("cntvoff_el2", 0);
    write!("hstr_el2", HSTR);
    write!("mdcr_el2", features.mdcr());
    write!("vpidr_el2", read!("midr_el1"));
    crate::fp::install();
    pmu::start();
    isb();
}

/// The same at PL1: User mode reaches neither the timers (CNTKCTL) nor FP registers, nor what one VM could leave for another
/// there (TEEHBR), nor Jazelle state (JOSCR.CD), nor the performance monitors.
fn install_at_pl1() {
    const XED: u64 = 1;
    const CD: u64 = 1 << 1;
    // ID_PFR0.State3: ThumbEE.
    if read!("id_pfr0_el1") >> 12 & 0xf != 0 {
        write!("teehbr32_el1", 0);
        write!("teecr32_el1", XED);
    }
    write!("joscr", CD);
    if read!("id_dfr0_el1") >> 24 & 0xf != 0 {
        write!("pmuserenr_el0", 0);
    }
    if has_generic_timer() {
        write!("cntkctl_el1", 0);
        write!("cntv_ctl_el0", 0);
        write!("cntp_ctl_el0", 0);
    }
    crate::fp::install();
    isb();
}

/// For a test: changes MIDR, which the CPU answers by itself, from now on.
#[cfg(feature = "selftest")]
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
