//! HVC and SMC, with their arguments in X0 on.

use core::arch::asm;

/// The bit in the number of PSCI functions that take addresses: SMC64 (DEN 0028, 2.5).
pub const NATIVE: u64 = 1 << 30;

macro_rules! conduit {
    ($name:ident, $instruction:literal) => {
        /// The call with X0 to X7, which come back as the callee left them.
        pub fn $name(x: &mut [u64; 8]) {
            let [x0, x1, x2, x3, x4, x5, x6, x7] = x;
            // SAFETY: the callee may change X0 to X17 (DEN 0028, 2.6), and no memory of ours.
            unsafe {
                asm!(
                    $instruction,
                    inout("x0") *x0, inout("x1") *x1, inout("x2") *x2, inout("x3") *x3,
                    inout("x4") *x4, inout("x5") *x5, inout("x6") *x6, inout("x7") *x7,
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
                    out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
                );
            }
        }
    };
}

conduit!(hvc, "hvc #0");
conduit!(smc, "smc #0");

/// Xen's hypercall `number`, by its own convention; gives X0 back.
///
/// # Safety
///
/// What the arguments point to is memory that Xen may use as the hypercall does.
pub unsafe fn xen(number: u64, arguments: [u64; 3]) -> u64 {
    let [mut x0, x1, x2] = arguments;
    // SAFETY: the caller vouches for the memory; Xen keeps all registers but X0 and X16.
    unsafe {
        asm!(
            "hvc #0xea1",
            inout("x0") x0, inout("x1") x1 => _, inout("x2") x2 => _,
            inout("x16") number => _, out("x3") _, out("x4") _,
        );
    }
    x0
}
