//! Hypercalls of Xen (public/arch-arm.h of its interface): HVC with this immediate, the number in
//! X16, arguments from X0 on.

use core::arch::asm;

/// The hypercall that answers with Xen's version: the cheapest there is.
pub const XEN_VERSION: u64 = 17;
const CONSOLE_IO: u64 = 18;
/// XENVER_version.
pub const VERSION: u64 = 0;
const CONSOLE_WRITE: u64 = 0;

/// Calls hypercall `number`; gives X0 back.
///
/// # Safety
///
/// What the arguments point to is memory that Xen may use as the hypercall does.
pub unsafe fn hypercall(number: u64, arguments: [u64; 3]) -> u64 {
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

/// Puts `text` on Xen's console.
pub fn console_write(text: &str) {
    // SAFETY: Xen reads the text alone.
    unsafe {
        hypercall(
            CONSOLE_IO,
            [CONSOLE_WRITE, text.len() as u64, text.as_ptr() as u64],
        )
    };
}
