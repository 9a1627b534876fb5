//! Registers of real devices, which the hypervisor accesses for a guest.
//!
//! A device may answer with an external abort, and the guest chooses the register. So an abort is caught, as in
//! `stage1.rs`; one that comes late is met by the guest that is entered next, which is the same one.

use crate::{read, write};
use core::arch::asm;
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
    let form = width as u32 * 2 + u32::from(value.is_some());
    if form > 5 {
        return None;
    }
    let failed: u32;
    // SAFETY: by this function's contract it changes no memory. A data abort while the stack pointer is zero
    // (`vectors.rs`, `hyp_expected`; `supervisor.rs`, `pl1_expected`) changes R0 and goes on at R1. The stack is not
    // used meanwhile, and its pointer is as it was at the end. There are six forms, each of two instructions of
    // T32, of which the table has the distances in halfwords.
    unsafe {
        asm!(
            "adr r1, 2f",
            "mov r3, sp",
            "mov sp, {zero}",
            "tbb [pc, r5]",
            "3: .byte 3, 5, 7, 9, 11, 13",
            "ldrb r2, [r4]",
            "b.n 2f",
            "strb r2, [r4]",
            "b.n 2f",
            "ldrh r2, [r4]",
            "b.n 2f",
            "strh r2, [r4]",
            "b.n 2f",
            "ldr r2, [r4]",
            "b.n 2f",
            "str r2, [r4]",
            "2:",
            "mov sp, r3",
            in("r5") form,
            in("r4") at,
            inout("r0") 0_u32 => failed,
            out("r1") _,
            inout("r2") data,
            out("r3") _,
            zero = in(reg) 0,
            options(nostack)
        );
    }
    if hyp {
        write!("far_el2", saved);
    }
    (failed == 0).then_some(data.into())
}
