//! A vCPU's own translation, asked of the CPU.

use crate::vcpu::Vcpu;
use crate::{maintain, read, write};
use hanok_types::Ipa;

/// The intermediate physical address of `at` for a read, through the vCPU's own stage 1
/// (ATS1CPR or ATS1CUR; in Hyp mode PAR has the long format, B4.1.112).
pub fn translate(vcpu: &Vcpu, at: u64) -> Option<Ipa> {
    let saved = read!("par_el1");
    if vcpu.psr().mode() == hanok_decode::mode::USER {
        maintain!(0 7 8 2, at as u32);
    } else {
        maintain!(0 7 8 0, at as u32);
    }
    crate::sysreg::isb();
    let par = read!("par_el1");
    write!("par_el1", saved);
    (par & 1 == 0).then(|| Ipa::new(par & 0xff_ffff_f000 | at & 0xfff))
}

/// The virtual address of the fetch that exited (HIFAR, DDI 0406C, B4.1.57).
pub fn fetch_address() -> u64 {
    read!("ifar_el2")
}
