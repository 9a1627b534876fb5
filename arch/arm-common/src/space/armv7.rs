//! The hypervisor's address space (32 bits), which is the same in Hyp mode and at PL1, and the operations that
//! keep TLBs consistent with it and with stage 2 (DDI 0406C, B3.10.5 and B4.2.2).
//!
//! RAM and devices of a board from [`STACKS`] on cannot be mapped, nor can those above 4 GiB.

use crate::maintain;
use crate::privilege::has_multiprocessing;
use crate::sysreg::{dsb_ish, dsb_sy, isb};
use hanok_paging::Geometry;
use hanok_types::Ipa;

/// The address at which the image is linked.
pub const IMAGE_BASE: u64 = 0xfe00_0000;
/// The start of the stacks.
pub const STACKS: u64 = 0xfd00_0000;
/// An address at which nothing is ever mapped, for a test.
pub const HOLE: u64 = 0xfff0_0000;
/// The first physical address that is not mapped one to one.
pub const REACH: u64 = STACKS;
/// The size of the address space.
pub const GEOMETRY: Geometry = Geometry::BITS_32;

/// The bits of TTBCR by which a TLB miss is a fault, not a walk: EPD0 and EPD1 with long descriptors
/// (EAE), PD0 and PD1 with short ones (DDI 0406C, B4.1.153).
pub const fn no_walks(tcr: u64) -> u64 {
    const EAE: u64 = 1 << 31;
    match tcr & EAE {
        0 => 3 << 4,
        _ => 1 << 7 | 1 << 23,
    }
}

/// Invalidates the entries of Hyp mode's translation in this CPU's TLBs (TLBIALLH).
pub fn forget_own_here() {
    maintain!(4 8 7 0, 0);
    dsb_sy();
    isb();
}

/// Invalidates a page of Hyp mode's translation on all CPUs (TLBIMVAHIS). The caller must execute the
/// barrier.
pub fn forget_own_page(page: u64) {
    maintain!(4 8 3 1, page as u32);
}

/// Invalidates the entries of the VMID in VTTBR on all CPUs: TLBIALLIS, which in Hyp mode concerns entries
/// of both stages.
pub fn forget_current_vmid() {
    maintain!(0 8 3 0, 0);
    dsb_ish();
    isb();
}

/// Invalidates a page of stage 2 of the VMID in VTTBR on all CPUs: ARMv7 has no operation by intermediate
/// physical address (DDI 0406C, B3.10.6, B4.2.2), so that all entries of the VMID are invalidated.
pub fn forget_guest_page(_page: Ipa) {
    forget_current_vmid();
}

/// The same on this CPU alone (TLBIALL).
pub fn forget_current_vmid_here() {
    maintain!(0 8 7 0, 0);
    dsb_sy();
    isb();
}

/// Invalidates all guests' entries on all CPUs (TLBIALLNSNHIS).
pub fn forget_every_vmid() {
    maintain!(4 8 3 4, 0);
    dsb_ish();
    isb();
}

/// The bits of TTBR0 at PL1 beside the address: walks are inner and outer write-back, write-allocate, and
/// shareable (IRGN, RGN and S with the Multiprocessing Extensions; DDI 0406C, B4.1.154).
pub const WALKS: u64 = 1 << 6 | 1 << 3 | 1 << 1;
/// The same without these extensions: C and RGN, not shareable.
const WALKS_ALONE: u64 = 1 | 1 << 3;

/// The bits of TTBR0 beside the address on this CPU.
pub fn walks() -> u64 {
    if has_multiprocessing() {
        WALKS
    } else {
        WALKS_ALONE
    }
}

/// At PL1: invalidates all entries in this CPU's TLBs (TLBIALL).
pub fn forget_pl1_here() {
    forget_current_vmid_here();
}

/// At PL1: invalidates all entries in the TLBs of all CPUs (TLBIALLIS), after what was stored before.
pub fn forget_pl1() {
    dsb_ish();
    if has_multiprocessing() {
        forget_current_vmid();
    } else {
        forget_current_vmid_here();
    }
}
