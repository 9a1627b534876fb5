//! A vCPU's stage 1 translation, by the CPU's AT instructions.

use crate::caught::caught;
use crate::{read, write};
use hanok_arm_common::aborts::Untranslated;
use hanok_decode::Psr;
use hanok_types::Ipa;

/// The intermediate physical address that stage 1 of the vCPU in this CPU gives for a read of `at`
/// (ATS1CPR or ATS1CUR; in Hyp mode PAR has the long format, B4.1.112), or why there is none. `psr` is
/// the vCPU's PSTATE.
///
/// As in the 64-bit backend, the walk reads RAM alone (HCR.PTW), what stage 2 refuses of it is
/// reported in PAR, and an external abort on the walk (DDI 0406C, B3.12.7) is caught.
pub fn translate(psr: Psr, at: u64) -> Result<Ipa, Untranslated> {
    let saved = (read!("par_el1"), read!("far_el2"));
    let address = at as u32;
    // They change PAR alone, which is put back; the guest's ELR and SPSR are in its vCPU by now.
    let failed = if psr.mode() == hanok_decode::mode::USER {
        caught!("mcr p15, 0, {at}, c7, c8, 2", address)
    } else {
        caught!("mcr p15, 0, {at}, c7, c8, 0", address)
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
