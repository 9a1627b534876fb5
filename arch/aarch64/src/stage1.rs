//! A vCPU's stage 1 translation, by the CPU's AT instructions.

use crate::{read, write};
use core::arch::asm;
use hanok_arm_common::aborts::Untranslated;
use hanok_types::{Ipa, Regs};

/// An AT instruction for `$at`; says whether it ended in an exception, which is caught. See [`translate`].
macro_rules! caught {
    ($operation:literal, $at:ident) => {{
        let failed: u64;
        // SAFETY: AT changes PAR_EL1 alone, which the caller puts back. An exception of it is
        // taken to the vector of SP_EL0 (`vectors.rs`, `expected`), which changes X16 and X17 and
        // goes on behind it; the guest's ELR and SPSR are in its vCPU by now. The stack pointer is
        // not used meanwhile, and is EL2's own again at the end.
        unsafe {
            asm!(
                "adr x16, 2f",
                "msr spsel, #0",
                concat!("at ", $operation, ", {at}"),
                "isb",
                "2:",
                "msr spsel, #1",
                at = in(reg) $at,
                inout("x17") 0_u64 => failed,
                out("x16") _,
                options(nostack, preserves_flags)
            );
        }
        failed
    }};
}

/// The intermediate physical address that stage 1 of the vCPU in this CPU gives for a read of `at`, or why
/// there is none. `regs` are the vCPU's registers.
///
/// The CPU walks tables that the guest wrote, and may change at any moment. What stage 2 refuses
/// of such a walk is reported in PAR_EL1 (DDI 0487, D8.15 "Address translation instructions"); with
/// HCR_EL2.PTW set, that is every address that is not RAM. An external abort on the walk, with which
/// broken memory may still answer, is taken to EL2 as an exception, and is caught. Rejected: walking the
/// tables in software, which would be a second walker of every format that a guest may choose.
pub fn translate(regs: &Regs, at: u64) -> Result<Ipa, Untranslated> {
    let saved = (read!("par_el1"), read!("far_el2"));
    // EL0t, or User mode.
    let failed = if regs.pstate & 0xf == 0 {
        caught!("s1e0r", at)
    } else {
        caught!("s1e1r", at)
    };
    let par = read!("par_el1");
    write!("par_el1", saved.0);
    // FAR_EL2 of the guest's exit, which an exception here would have overwritten.
    write!("far_el2", saved.1);
    if failed != 0 {
        return Err(Untranslated::NoMapping);
    }
    Untranslated::or_page(par, 0xf_ffff_ffff_f000).map(|page| Ipa::new(page | at & 0xfff))
}

/// The virtual address of the fetch that exited (FAR_EL2).
pub fn fetch_address() -> u64 {
    read!("far_el2")
}
