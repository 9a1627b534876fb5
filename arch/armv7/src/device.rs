//! Registers of real devices, which the hypervisor accesses for a guest.
//!
//! A device may answer with an external abort, and the guest chooses the register. So an abort is caught, as in
//! `stage1.rs`; one that comes late is met by the guest that is entered next, which is the same one.

use crate::caught::caught;
use crate::{read, write};
use hanok_arm_common::privilege::is_deprivileged;
use hanok_types::{Hpa, Width};

/// Loads from the register at `at`, or stores `value` there; `None` if the device does not answer, or a register
/// of this CPU is not as wide.
///
/// # Safety
/// `at` is in a device's registers, which are mapped in place and are the guest's to use, and a multiple of the
/// width.
#[cold]
#[inline(never)]
pub unsafe fn access(at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
    let at = at.get() as u32;
    let mut data = value.unwrap_or_default() as u32;
    // HDFAR of the guest's exit, which an abort of Hyp mode would overwrite.
    let hyp = !is_deprivileged();
    let saved = if hyp { read!("far_el2") } else { 0 };
    let failed = match (width, value.is_some()) {
        (Width::Byte, false) => caught!("ldrb {data}, [{at}]", at, data),
        (Width::Byte, true) => caught!("strb {data}, [{at}]", at, data),
        (Width::Half, false) => caught!("ldrh {data}, [{at}]", at, data),
        (Width::Half, true) => caught!("strh {data}, [{at}]", at, data),
        (Width::Word, false) => caught!("ldr {data}, [{at}]", at, data),
        (Width::Word, true) => caught!("str {data}, [{at}]", at, data),
        (Width::Double, _) => return None,
    };
    if hyp {
        write!("far_el2", saved);
    }
    (failed == 0).then_some(data.into())
}
