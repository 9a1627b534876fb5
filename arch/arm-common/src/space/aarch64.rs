//! EL2's address space (39 bits), and the instructions that keep TLBs consistent with it and with stage 2
//! (DDI 0487, D8.17 "TLB maintenance").

use core::arch::asm;
use hanok_paging::Geometry;
use hanok_types::Ipa;

/// The address at which the image is linked, where no board has RAM.
pub const IMAGE_BASE: u64 = 0x7f_c000_0000;
/// The start of the stacks.
pub const STACKS: u64 = 0x7f_8000_0000;
/// An address at which nothing is ever mapped, for a test.
pub const HOLE: u64 = 0x7f_0000_0000;
/// The first physical address that is not mapped one to one.
pub const REACH: u64 = HOLE;
/// The size of the address space.
pub const GEOMETRY: Geometry = Geometry::BITS_39;

macro_rules! maintain {
    ($($instruction:literal),*) => {
        // SAFETY: TLB maintenance changes no translation.
        unsafe { asm!($($instruction),*, options(nostack, preserves_flags)) }
    };
}

/// The bits of TCR_EL1 by which a TLB miss is a fault, not a walk: EPD0 and EPD1, and the bits that are PD0
/// and PD1 in an AArch32 guest's TTBCR with short descriptors.
pub const fn no_walks(_tcr: u64) -> u64 {
    1 << 7 | 1 << 23 | 3 << 4
}

/// Invalidates the entries of EL2's translation in this CPU's TLBs.
pub fn forget_own_here() {
    maintain!("tlbi alle2", "dsb nsh", "isb");
}

/// Invalidates a page of EL2's translation on all CPUs. The caller must execute the barrier.
pub fn forget_own_page(page: u64) {
    // SAFETY: TLB maintenance changes no translation.
    unsafe { asm!("tlbi vae2is, {}", in(reg) page >> 12, options(nostack, preserves_flags)) };
}

/// Invalidates the entries of the VMID in VTTBR_EL2 on all CPUs.
pub fn forget_current_vmid() {
    maintain!("tlbi vmalls12e1is", "dsb ish", "isb");
}

/// Invalidates a page of stage 2 of the VMID in VTTBR_EL2 on all CPUs, and all entries of both stages
/// combined: IPAS2E1IS does not invalidate those, while VMALLE1IS does, once the first is complete (DDI
/// 0487, D8.17.5; C5.5, "TLBI IPAS2E1IS").
pub fn forget_guest_page(page: Ipa) {
    // SAFETY: TLB maintenance changes no translation.
    unsafe {
        asm!(
            "tlbi ipas2e1is, {}",
            "dsb ish",
            "tlbi vmalle1is",
            "dsb ish",
            "isb",
            in(reg) page.get() >> 12,
            options(nostack, preserves_flags)
        );
    }
}

/// Invalidates the stage 1 entries of the VMID in VTTBR_EL2 on this CPU alone.
pub fn forget_current_vmid_here() {
    maintain!("tlbi vmalle1", "dsb nsh", "isb");
}

/// Invalidates all guests' entries on all CPUs.
pub fn forget_every_vmid() {
    maintain!("tlbi alle1is", "dsb ish", "isb");
}
