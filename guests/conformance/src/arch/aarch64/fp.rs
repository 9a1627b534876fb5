//! The FP/SIMD registers, which the compiler leaves alone: this build is soft-float.

use crate::probe::{Fault, class};
use core::arch::global_asm;

/// Q0 to Q31, FPCR and FPSR.
#[repr(C, align(16))]
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    /// Each register's halves, low first.
    pub q: [[u64; 2]; 32],
    /// The control register.
    pub fpcr: u64,
    /// The status register.
    pub fpsr: u64,
}

unsafe extern "C" {
    fn fp_load(state: *const State);
    fn fp_store(state: *mut State);
}

impl State {
    /// All registers zero.
    pub const ZERO: Self = Self {
        q: [[0; 2]; 32],
        fpcr: 0,
        fpsr: 0,
    };

    /// A different value in each half of each register; `seed` selects the set of values.
    pub fn pattern(seed: u64) -> Self {
        let mut state = Self::ZERO;
        for (index, q) in (1..).zip(&mut state.q) {
            let value = (seed + index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *q = [value, !value.rotate_left(17)];
        }
        state.fpcr = (seed & 3) << 22;
        state.fpsr = seed & 0x1f;
        state
    }

    /// Loads this state into the registers.
    pub fn load(&self) {
        // SAFETY: the compiler uses no FP/SIMD register.
        unsafe { fp_load(self) };
    }

    /// The number of the first of Q0 to Q31 that differs in another state.
    pub fn first_difference(&self, other: &Self) -> Option<usize> {
        (0..32).find(|index| self.q[*index] != other.q[*index])
    }

    /// The state that the registers hold now.
    pub fn stored() -> Self {
        let mut state = Self::ZERO;
        // SAFETY: writes within `state` alone.
        unsafe { fp_store(&mut state) };
        state
    }
}

/// The exception that an FP/SIMD instruction causes while FP/SIMD is disabled.
pub const DISABLED: u64 = class::FP_DISABLED;

/// Changes an FP/SIMD register.
pub fn use_one() -> Result<(), Fault> {
    // SAFETY: the compiler uses no FP/SIMD register.
    unsafe { probe!(".arch_extension fp", "fmov d0, xzr"; ) }
}

/// Enables FP/SIMD instructions (CPACR_EL1.FPEN), or lets them trap.
pub fn enable(on: bool) {
    write_sysreg!("cpacr_el1", if on { 3 << 20 } else { 0 });
}

global_asm!(
    r#"
    .section .text.fp, "ax"
    .arch_extension fp
    .arch_extension simd
    .altmacro
    .macro each op
    .set i, 0
    .rept 16
    each_pair \op, %i, %(i + 1), %(i * 16)
    .set i, i + 2
    .endr
    .endm
    .macro each_pair op, a, b, offset
    \op     q\a, q\b, [x0, #\offset]
    .endm

    .global fp_load
fp_load:
    each    ldp
    add     x0, x0, #512
    ldp     x1, x2, [x0]
    msr     fpcr, x1
    msr     fpsr, x2
    ret

    .global fp_store
fp_store:
    each    stp
    mrs     x1, fpcr
    mrs     x2, fpsr
    add     x0, x0, #512
    stp     x1, x2, [x0]
    ret
    .noaltmacro
    "#
);
