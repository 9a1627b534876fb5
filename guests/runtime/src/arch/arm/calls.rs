//! HVC and SMC, with their arguments in R0 on. Encodings instead of names: the target's baseline has
//! no extensions.

use core::arch::asm;

/// The bit in the number of PSCI functions that take addresses: none, as these are SMC32 (DEN 0028,
/// 2.5).
pub const NATIVE: u64 = 0;

macro_rules! conduit {
    ($name:ident, $instruction:literal) => {
        /// The call with R0 to R7, which come back as the callee left them; upper halves are zero.
        pub fn $name(x: &mut [u64; 8]) {
            let mut r = x.map(|x| x as u32);
            // SAFETY: the callee may change R0 to R3, R4 to R7 where it answers there, and R12
            // (DEN 0028, 2.6). R6 and R7 the compiler may use for itself, so they are saved.
            unsafe {
                asm!(
                    "push {{r4-r11, r12}}",
                    "push {{r0}}",
                    "mov r12, r0",
                    "ldm r12, {{r0-r7}}",
                    $instruction,
                    "pop {{r12}}",
                    "stm r12, {{r0-r7}}",
                    "pop {{r4-r11, r12}}",
                    inout("r0") r.as_mut_ptr() => _,
                    out("r1") _, out("r2") _, out("r3") _, out("r12") _,
                );
            }
            *x = r.map(u64::from);
        }
    };
}

// HVC #0 and SMC #0.
conduit!(hvc, ".inst 0xe1400070");
conduit!(smc, ".inst 0xe1600070");

/// Xen's hypercall `number`, by its own convention; gives R0 back.
///
/// # Safety
///
/// What the arguments point to is memory that Xen may use as the hypercall does.
pub unsafe fn xen(number: u64, arguments: [u64; 3]) -> u64 {
    let [mut r0, r1, r2] = arguments.map(|argument| argument as u32);
    // SAFETY: the caller vouches for the memory; Xen keeps all registers but R0 and R12. The
    // instruction is HVC #0xea1.
    unsafe {
        asm!(
            ".inst 0xe140ea71",
            inout("r0") r0, inout("r1") r1 => _, inout("r2") r2 => _,
            inout("r12") number as u32 => _, out("r3") _,
        );
    }
    r0.into()
}
