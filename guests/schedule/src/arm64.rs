//! HVC on AArch64.

use core::arch::asm;

/// Calls `function`: what W0, W1 and W2 answer.
pub fn hvc(function: u32, arguments: [usize; 4]) -> [u32; 3] {
    let [first, second, third, fourth] = arguments;
    let [status, low, high]: [u64; 3];
    // SAFETY: these functions use no memory of the caller's; the callee may change X0 to X17 (DEN 0028, 2.6).
    unsafe {
        asm!(
            "hvc #0",
            inlateout("x0") u64::from(function) => status,
            inlateout("x1") first => low,
            inlateout("x2") second => high,
            inlateout("x3") third => _,
            inlateout("x4") fourth => _,
            out("x5") _, out("x6") _, out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _,
            out("x12") _, out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
            options(nostack),
        );
    }
    [status as u32, low as u32, high as u32]
}
