//! A loop of known length, and calls of the kernel.

use core::arch::asm;

/// Goes `turns` times through a loop of two instructions.
pub fn spin(turns: usize) {
    // SAFETY: counts a register down to zero.
    unsafe {
        asm!("2:", "subs {0}, {0}, #1", "bhi 2b", inout(reg) turns => _, options(nomem, nostack))
    };
}

/// Calls the kernel, which may run other tasks before it returns.
pub fn call(number: usize, argument: usize, more: usize) {
    // SAFETY: the vectors keep all registers; the kernel touches no memory of the task's,
    // other tasks do as other threads would.
    unsafe { asm!("svc #0", in("r0") number, in("r1") argument, in("r2") more) };
}
