//! Registers of real devices, which the hypervisor accesses for a guest.
//!
//! A device may answer with an external abort, and the guest chooses the register. So an abort is caught, as in
//! `stage1.rs`; one that comes late is met by the guest that is entered next, which is the same one.

use crate::{read, write};
use core::arch::asm;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_types::{Hpa, Width};

/// A load or store of `$data` at `$at`; says whether it ended in an abort. See [`access`].
macro_rules! caught {
    ($instruction:literal, $at:ident, $data:ident) => {{
        let failed: u32;
        // SAFETY: by the contract of `access` it changes no memory. A data abort while the stack pointer is zero
        // (`vectors.rs`, `hyp_expected`; `supervisor.rs`, `pl1_expected`) changes R0 and goes on at R1. The stack is not
        // used meanwhile, and its pointer is as it was at the end.
        unsafe {
            asm!(
                "adr r1, 2f",
                "mov r3, sp",
                "mov sp, {zero}",
                concat!($instruction, " r2, [r4]"),
                "2:",
                "mov sp, r3",
                in("r4") $at,
                inout("r0") 0_u32 => failed,
                out("r1") _,
                inout("r2") $data,
                out("r3") _,
                zero = in(reg) 0,
                options(nostack)
            );
        }
        failed
    }};
}

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
        (Width::Byte, false) => caught!("ldrb", at, data),
        (Width::Byte, true) => caught!("strb", at, data),
        (Width::Half, false) => caught!("ldrh", at, data),
        (Width::Half, true) => caught!("strh", at, data),
        (Width::Word, false) => caught!("ldr", at, data),
        (Width::Word, true) => caught!("str", at, data),
        (Width::Double, _) => return None,
    };
    if hyp {
        write!("far_el2", saved);
    }
    (failed == 0).then_some(data.into())
}
