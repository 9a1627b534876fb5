//! Registers of real devices, which the hypervisor accesses for a guest.
//!
//! A device may answer with an external abort, and the guest chooses the register. So an abort is caught, as in
//! `stage1.rs`; one that comes late is met by the guest that is entered next, which is the same one.

use crate::{read, write};
use core::arch::asm;
use hanok_types::{Hpa, Width};

/// A load or store of `$value` at `$at`; says whether it ended in an abort. See [`access`].
macro_rules! caught {
    ($instruction:literal, $at:ident, $value:ident) => {{
        let failed: u64;
        // SAFETY: by the contract of `access` it changes no memory. An exception of it is taken to the vector of
        // SP_EL0 (`vectors.rs`, `expected`), which changes X16 and X17 and goes on behind it. The stack pointer
        // is not used meanwhile, and is EL2's own again at the end.
        unsafe {
            asm!(
                "adr x16, 2f",
                "msr spsel, #0",
                concat!($instruction, ", [{at}]"),
                "2:",
                "msr spsel, #1",
                at = in(reg) $at,
                value = inout(reg) $value,
                inout("x17") 0_u64 => failed,
                out("x16") _,
                options(nostack, preserves_flags)
            );
        }
        failed
    }};
}

/// Loads from the register at `at`, or stores `value` there; `None` if the device does not answer.
///
/// # Safety
/// `at` is in a device's registers, which are mapped in place and are the guest's to use, and a multiple of the
/// width.
#[cold]
#[inline(never)]
pub unsafe fn access(at: Hpa, width: Width, value: Option<u64>) -> Option<u64> {
    let at = at.get();
    let mut data = value.unwrap_or_default();
    // FAR_EL2 of the guest's exit, which an abort here would overwrite.
    let saved = read!("far_el2");
    let failed = match (width, value.is_some()) {
        (Width::Byte, false) => caught!("ldrb {value:w}", at, data),
        (Width::Byte, true) => caught!("strb {value:w}", at, data),
        (Width::Half, false) => caught!("ldrh {value:w}", at, data),
        (Width::Half, true) => caught!("strh {value:w}", at, data),
        (Width::Word, false) => caught!("ldr {value:w}", at, data),
        (Width::Word, true) => caught!("str {value:w}", at, data),
        (Width::Double, false) => caught!("ldr {value}", at, data),
        (Width::Double, true) => caught!("str {value}", at, data),
    };
    write!("far_el2", saved);
    (failed == 0).then_some(data)
}
