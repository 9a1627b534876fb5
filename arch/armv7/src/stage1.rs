//! A vCPU's stage 1 translation, by the CPU's AT instructions.

use crate::{read, write};
use core::arch::asm;
use hanok_arm_common::aborts::Untranslated;
use hanok_decode::Psr;
use hanok_types::Ipa;

/// ATS1CPR or ATS1CUR, by its last operand, for `$at`; says whether it ended in an abort, which is caught.
/// See [`translate`].
macro_rules! caught {
    ($opc2:literal, $at:ident) => {{
        let failed: u32;
        // SAFETY: the operation changes PAR alone, which the caller puts back. A data abort of
        // Hyp mode while its stack pointer is zero (`vectors.rs`, `hyp_expected`) changes R0 and
        // goes on behind it; the guest's ELR and SPSR are in its vCPU by now. The stack is not used
        // meanwhile, and its pointer is as it was at the end.
        unsafe {
            asm!(
                "adr r1, 2f",
                "mov r3, sp",
                "mov sp, {zero}",
                concat!("mcr p15, 0, {at}, c7, c8, ", $opc2),
                "isb",
                "2:",
                "mov sp, r3",
                at = in(reg) $at,
                inout("r0") 0_u32 => failed,
                out("r1") _,
                out("r3") _,
                zero = in(reg) 0,
                options(nostack)
            );
        }
        failed
    }};
}

/// The intermediate physical address that stage 1 of the vCPU in this CPU gives for a read of `at`
/// (ATS1CPR or ATS1CUR; in Hyp mode PAR has the long format, B4.1.112), or why there is none. `psr` is
/// the vCPU's PSTATE.
///
/// As in the 64-bit backend, the walk reads RAM alone (HCR.PTW), what stage 2 refuses of it is
/// reported in PAR, and an external abort on the walk (DDI 0406C, B3.12.7) is caught.
pub fn translate(psr: Psr, at: u64) -> Result<Ipa, Untranslated> {
    let saved = (read!("par_el1"), read!("far_el2"));
    let address = at as u32;
    let failed = if psr.mode() == hanok_decode::mode::USER {
        caught!(2, address)
    } else {
        caught!(0, address)
    };
    let par = read!("par_el1");
    write!("par_el1", saved.0);
    // HDFAR of the guest's exit, which an abort here would have overwritten.
    write!("far_el2", saved.1);
    if failed != 0 {
        return Err(Untranslated::NoMapping);
    }
    Untranslated::or_page(par, 0xff_ffff_f000).map(|page| Ipa::new(page | at & 0xfff))
}

/// The virtual address of the fetch that exited (HIFAR, DDI 0406C, B4.1.57).
pub fn fetch_address() -> u64 {
    read!("ifar_el2")
}
