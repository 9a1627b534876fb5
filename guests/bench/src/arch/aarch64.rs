//! A64.

use core::arch::asm;
use hanok_guest_runtime::psci;

/// A function that makes `rounds` rounds of a call with X0 and X16. With an empty instruction it is
/// the loop without the call, for comparison.
macro_rules! rounds {
    ($(#[$about:meta])* $name:ident, $call:literal) => {
        $(#[$about])*
        pub fn $name(rounds: u64, x0: u64, x16: u64) {
            // SAFETY: a call that is known to do nothing but answer; it may change X0 to X17
            // (DEN 0028, 2.6). The counter is in none of them.
            unsafe {
                asm!(
                    "2:",
                    "mov x0, {x0}",
                    "mov x16, {x16}",
                    $call,
                    "subs {rounds}, {rounds}, #1",
                    "b.ne 2b",
                    rounds = inout(reg) rounds => _,
                    x0 = in(reg) x0,
                    x16 = in(reg) x16,
                    out("x0") _, inout("x1") 0_u64 => _, inout("x2") 0_u64 => _,
                    inout("x3") 0_u64 => _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
                    out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
                );
            }
        }
    };
}

rounds!(
    /// Calls by the SMC calling convention.
    hvc,
    "hvc #0"
);
rounds!(
    /// Calls by Xen's convention.
    xen_hvc,
    "hvc #0xea1"
);
rounds!(
    /// The same loop without a call.
    nothing,
    ""
);

/// Whether an SMCCC call is implemented: HVC is not UNDEFINED, and the answer is not that of an
/// unknown function (DEN 0028, 5.2).
pub fn understood(function: u64) -> bool {
    let mut x0 = function;
    // SAFETY: the caller asks for functions that change nothing; they may change X0 to X17.
    let result = unsafe {
        probe!("hvc #0";
            inout("x0") x0, inout("x1") 0_u64 => _, inout("x2") 0_u64 => _,
            inout("x3") 0_u64 => _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
            out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
        )
    };
    result.is_ok() && psci::status(x0) != psci::NOT_SUPPORTED
}

/// Makes `rounds` loads from a device register.
pub fn reads(rounds: u64, address: u64) {
    // SAFETY: the caller names a device register that is read without a side effect.
    unsafe {
        asm!(
            "2:",
            "ldr {value:w}, [{address}]",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            rounds = inout(reg) rounds => _,
            value = out(reg) _,
            address = in(reg) address,
        );
    }
}

/// Counts to `turns`, with two instructions a turn.
pub fn count(turns: u64) {
    // SAFETY: counts.
    unsafe { asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) turns => _) };
}
