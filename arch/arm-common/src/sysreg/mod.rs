//! System registers by name, and the few instructions that have no name in Rust.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "arm")]
mod armv7;
mod instructions;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "arm")]
pub use armv7::*;
pub use instructions::*;

/// The hypervisor's own registers: a wrong value in one breaks what safe code relies on, at once or at the
/// next exit. They determine how EL2 translates its addresses, where its exceptions go, which data is this
/// pCPU's, and whether it may use FP registers; where the return to a guest goes; and which memory a guest
/// can access, and how it is kept out of EL2. The last three are those of a hypervisor at PL1 of a 32-bit CPU. All other
/// registers that are written govern the guest's own state, or an interrupt.
const OWN: [&str; 15] = [
    "sctlr_el2",
    "tcr_el2",
    "ttbr0_el2",
    "mair_el2",
    "vbar_el2",
    "tpidr_el2",
    "cptr_el2",
    "elr_el2",
    "spsr_el2",
    "hcr_el2",
    "vtcr_el2",
    "vttbr_el2",
    "ttbr0_pl1",
    "vbar_pl1",
    "tpidr_pl1",
];

/// Whether `register` is one of the hypervisor's own, which [`write!`](crate::write) refuses and
/// [`write_own!`](crate::write_own) is for.
#[doc(hidden)]
pub const fn is_own(register: &str) -> bool {
    let mut at = 0;
    while at < OWN.len() {
        if OWN[at].as_bytes().eq_ignore_ascii_case(register.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const _: () = assert!(is_own("vbar_el2") && is_own("VTTBR_EL2") && !is_own("cntvoff_el2"));
