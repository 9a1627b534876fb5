//! FP and SIMD registers, switched when a guest first touches them.
//!
//! CPTR_EL2.TFP traps the first access after a vCPU came to a CPU; the handler loads its
//! registers and opens the trap. They stay in the CPU when their vCPU makes room for
//! another, and are saved only when that one touches them, too, or when their vCPU moves to another pCPU. The
//! hypervisor itself is built for a soft-float target and never touches them (the gate scans the image for such
//! instructions outside of this file).

use crate::{read, write, write_own};

/// V0 to V31 with their control and status.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct FpState {
    v: [u128; 32],
    fpcr: u64,
    fpsr: u64,
}

core::arch::global_asm!(
    r#"
    .section .text.fp, "ax"
    .arch_extension fp
    .arch_extension simd
    .macro each_pair op
    \op     q0, q1, [x0, #0]
    \op     q2, q3, [x0, #32]
    \op     q4, q5, [x0, #64]
    \op     q6, q7, [x0, #96]
    \op     q8, q9, [x0, #128]
    \op     q10, q11, [x0, #160]
    \op     q12, q13, [x0, #192]
    \op     q14, q15, [x0, #224]
    \op     q16, q17, [x0, #256]
    \op     q18, q19, [x0, #288]
    \op     q20, q21, [x0, #320]
    \op     q22, q23, [x0, #352]
    \op     q24, q25, [x0, #384]
    \op     q26, q27, [x0, #416]
    \op     q28, q29, [x0, #448]
    \op     q30, q31, [x0, #480]
    .endm
hanok_fp_save:
    each_pair stp
    ret
hanok_fp_load:
    each_pair ldp
    ret
    .arch_extension nosimd
    .arch_extension nofp
"#
);

unsafe extern "C" {
    fn hanok_fp_save(state: *mut FpState);
    fn hanok_fp_load(state: *const FpState);
}

/// CPTR_EL2 without VHE: RES1 bits, traps of trace (TTA), SVE (TZ), SME (TSM) and activity
/// monitors (TAM) always on (DDI 0487, D24.2.35).
const CPTR_ALWAYS: u64 = 0x32ff | (1 << 20) | (1 << 8) | (1 << 12) | (1 << 30);
const CPTR_TFP: u64 = 1 << 10;

/// Makes the guest's next access to FP or SIMD an exit.
pub fn close() {
    // SAFETY: EL2 uses FP registers in this file alone, whose callers open the trap before.
    unsafe { write_own!("cptr_el2", CPTR_ALWAYS | CPTR_TFP) };
}

/// Lets EL2 and the guest access the registers.
pub fn open() {
    // SAFETY: fewer traps than before: EL2 uses what is open in this file alone.
    unsafe { write_own!("cptr_el2", CPTR_ALWAYS & !CPTR_TFP) };
    hanok_arm_common::sysreg::isb();
}

/// Register `index` of the vCPU in this CPU; `None` while accesses trap, as the registers are not that
/// vCPU's then, and for an index from 32 on.
pub fn vector(index: u8) -> Option<u128> {
    FpState::of_this_cpu()?.vector(index)
}

/// Sets register `index`; does nothing where [`vector`] gives `None`.
pub fn set_vector(index: u8, value: u128) {
    if let Some(mut state) = FpState::of_this_cpu() {
        state.set_vector(index, value);
        state.load();
    }
}

impl FpState {
    /// A copy of the registers in the CPU; `None` while accesses trap, since then the registers are not
    /// those of the vCPU in this CPU.
    fn of_this_cpu() -> Option<Self> {
        if read!("cptr_el2") & CPTR_TFP != 0 {
            return None;
        }
        let mut state = Self::default();
        state.save();
        Some(state)
    }

    /// Register `index`; `None` from 32 on.
    fn vector(&self, index: u8) -> Option<u128> {
        self.v.get(usize::from(index)).copied()
    }

    /// Sets register `index`; does nothing for an index from 32 on.
    fn set_vector(&mut self, index: u8, value: u128) {
        if let Some(register) = self.v.get_mut(usize::from(index)) {
            *register = value;
        }
    }

    /// Takes the registers out of the CPU; the trap must be open.
    pub fn save(&mut self) {
        // SAFETY: stores within `self`, whose layout the assembly follows.
        unsafe { hanok_fp_save(self) };
        self.fpcr = read!("s3_3_c4_c4_0");
        self.fpsr = read!("s3_3_c4_c4_1");
    }

    /// Puts the registers into the CPU; the trap must be open.
    pub fn load(&self) {
        // SAFETY: loads within `self`; the hypervisor keeps nothing in FP registers.
        unsafe { hanok_fp_load(self) };
        write!("s3_3_c4_c4_0", self.fpcr);
        write!("s3_3_c4_c4_1", self.fpsr);
    }
}
