//! Hypercalls of Xen (public/arch-arm.h of its interface): HVC with this immediate, the number in
//! X16 (R12), arguments from X0 (R0) on.

/// The hypercall that answers with Xen's version: the cheapest there is.
pub const XEN_VERSION: u64 = 17;
const CONSOLE_IO: u64 = 18;
/// XENVER_version.
pub const VERSION: u64 = 0;
const CONSOLE_WRITE: u64 = 0;

/// Calls hypercall `number`; returns the first register.
///
/// # Safety
///
/// What the arguments point to is memory that Xen may use as the hypercall does.
pub unsafe fn hypercall(number: u64, arguments: [u64; 3]) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { crate::arch::calls::xen(number, arguments) }
}

/// Puts `text` on Xen's console.
pub fn console_write(text: &str) {
    // SAFETY: Xen reads the text alone.
    unsafe {
        hypercall(
            CONSOLE_IO,
            [
                CONSOLE_WRITE,
                text.len() as u64,
                text.as_ptr().addr() as u64,
            ],
        )
    };
}
