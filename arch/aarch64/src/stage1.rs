//! A vCPU's own translation, asked of the CPU.

use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_types::Ipa;

/// The intermediate physical address of `at` for a read, through the vCPU's own stage 1.
pub fn translate(vcpu: &Vcpu, at: u64) -> Option<Ipa> {
    let saved = read!("par_el1");
    // SAFETY: address translation changes PAR_EL1 alone, which is put back.
    unsafe {
        // EL0t, or User mode.
        if vcpu.regs.pstate & 0xf == 0 {
            core::arch::asm!("at s1e0r, {}", "isb", in(reg) at, options(nostack, preserves_flags));
        } else {
            core::arch::asm!("at s1e1r, {}", "isb", in(reg) at, options(nostack, preserves_flags));
        }
    }
    let par = read!("par_el1");
    write!("par_el1", saved);
    (par & 1 == 0).then(|| Ipa::new(par & 0xf_ffff_ffff_f000 | at & 0xfff))
}

/// The virtual address of the fetch that exited (FAR_EL2).
pub fn fetch_address() -> u64 {
    read!("far_el2")
}
