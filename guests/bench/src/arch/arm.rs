//! A32. HVC is written by its encoding: the target's baseline has no virtualization extensions.

use core::arch::asm;
use hanok_guest_runtime::psci;

/// A function that makes `rounds` rounds of a call with R0 and R12. With an empty instruction it is
/// the loop without the call, for comparison.
macro_rules! rounds {
    ($(#[$about:meta])* $name:ident, $call:literal) => {
        $(#[$about])*
        pub fn $name(rounds: u64, r0: u64, r12: u64) {
            // SAFETY: a call that is known to do nothing but answer; it may change R0 to R3
            // (DEN 0028, 2.6), and Xen's R12. The counter is in none of them.
            unsafe {
                asm!(
                    "2:",
                    "mov r0, {r0}",
                    "mov r12, {r12}",
                    $call,
                    "subs {rounds}, {rounds}, #1",
                    "bne 2b",
                    rounds = inout(reg) rounds as u32 => _,
                    r0 = in(reg) r0 as u32,
                    r12 = in(reg) r12 as u32,
                    out("r0") _, inout("r1") 0_u32 => _, inout("r2") 0_u32 => _,
                    inout("r3") 0_u32 => _, out("r12") _,
                );
            }
        }
    };
}

rounds!(
    /// Calls by the SMC calling convention: HVC #0.
    hvc,
    ".inst 0xe1400070"
);
rounds!(
    /// Calls by Xen's convention: HVC #0xea1.
    xen_hvc,
    ".inst 0xe140ea71"
);
rounds!(
    /// The same loop without a call.
    nothing,
    ""
);

/// Whether an SMCCC call is implemented: HVC is not UNDEFINED, and the answer is not that of an
/// unknown function (DEN 0028, 5.2).
pub fn understood(function: u64) -> bool {
    let mut r0 = function as u32;
    // SAFETY: the caller asks for functions that change nothing; they may change R0 to R3.
    let result = unsafe {
        probe!(".inst 0xe1400070";
            inout("r0") r0, inout("r1") 0_u32 => _, inout("r2") 0_u32 => _,
            inout("r3") 0_u32 => _, out("r12") _,
        )
    };
    result.is_ok() && psci::status(r0.into()) != psci::NOT_SUPPORTED
}

/// Makes `rounds` loads from a device register.
pub fn reads(rounds: u64, address: u64) {
    // SAFETY: the caller names a device register that is read without a side effect.
    unsafe {
        asm!(
            "2:",
            "ldr {value}, [{address}]",
            "subs {rounds}, {rounds}, #1",
            "bne 2b",
            rounds = inout(reg) rounds as u32 => _,
            value = out(reg) _,
            address = in(reg) address as u32,
        );
    }
}

/// Counts to `turns`, with two instructions a turn.
pub fn count(turns: u64) {
    // SAFETY: counts.
    unsafe { asm!("2:", "subs {0}, {0}, #1", "bne 2b", inout(reg) turns as u32 => _) };
}
