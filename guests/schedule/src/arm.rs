//! HVC on AArch32. An encoding instead of a name: the target's baseline has no extensions.

use core::arch::asm;

/// Calls `function`: what R0, R1 and R2 answer.
pub fn hvc(function: u32, arguments: [usize; 4]) -> [u32; 3] {
    let [first, second, third, fourth] = arguments;
    let [status, low, high]: [u32; 3];
    // SAFETY: these functions use no memory of the caller's; the callee may change R0 to R3, R4 where it answers
    // there, and R12 (DEN 0028, 2.6). The instruction is HVC #0.
    unsafe {
        asm!(
            ".inst 0xe1400070",
            inlateout("r0") function => status,
            inlateout("r1") first => low,
            inlateout("r2") second => high,
            inlateout("r3") third => _,
            inlateout("r4") fourth => _,
            out("r12") _,
            options(nostack),
        );
    }
    [status, low, high]
}
