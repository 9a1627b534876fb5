//! The FP/SIMD registers, which the compiler leaves alone: this build is soft-float.

use crate::probe::{Fault, class};
use core::arch::global_asm;

/// D0 to D31 and FPSCR.
#[repr(C, align(16))]
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    /// The registers.
    pub d: [u64; 32],
    /// The status and control register.
    pub fpscr: u32,
}

unsafe extern "C" {
    fn fp_load(state: *const State);
    fn fp_store(state: *mut State);
    fn fp_set_enable(fpexc: u32);
    fn fp_exception_register() -> u32;
    fn fp_use();
}

/// FPEXC.EN.
const ENABLE: u32 = 1 << 30;

impl State {
    /// All registers zero.
    pub const ZERO: Self = Self {
        d: [0; 32],
        fpscr: 0,
    };

    /// A different value in each register, a rounding mode and flags; `seed` selects the set of
    /// values.
    pub fn pattern(seed: u64) -> Self {
        let mut state = Self::ZERO;
        for (index, d) in (1..).zip(&mut state.d) {
            *d = (seed + index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        state.fpscr = (seed as u32 & 3) << 22 | seed as u32 & 0x1f;
        state
    }

    /// Loads this state into the registers.
    pub fn load(&self) {
        // SAFETY: the compiler uses no FP/SIMD register.
        unsafe { fp_load(self) };
    }

    /// The number of the first of D0 to D31 that differs in another state.
    pub fn first_difference(&self, other: &Self) -> Option<usize> {
        (0..32).find(|index| self.d[*index] != other.d[*index])
    }

    /// The state that the registers hold now.
    pub fn stored() -> Self {
        let mut state = Self::ZERO;
        // SAFETY: writes within `state` alone.
        unsafe { fp_store(&mut state) };
        state
    }
}

/// The exception that an FP/SIMD instruction causes while FP/SIMD is disabled (DDI 0406C, B1.11.3).
pub const DISABLED: u64 = class::UNDEFINED;

/// Changes an FP/SIMD register.
pub fn use_one() -> Result<(), Fault> {
    let code = fp_use as *const () as u32;
    // SAFETY: the compiler uses no FP/SIMD register.
    unsafe { probe!("blx {code}"; code = in(reg) code, out("lr") _) }
}

/// Enables FP/SIMD instructions (CPACR, then FPEXC), or lets them trap.
pub fn enable(on: bool) {
    if on {
        write_sysreg!("cpacr_el1", 0xf << 20);
        set_enabled(true);
    } else {
        write_sysreg!("cpacr_el1", 0);
    }
}

/// FPEXC.EN, which is accessible while CPACR allows it.
pub fn set_enabled(on: bool) {
    // SAFETY: the compiler uses no FP/SIMD register.
    unsafe { fp_set_enable(if on { ENABLE } else { 0 }) };
}

/// FPEXC.EN, as FPEXC reads.
pub fn is_enabled() -> bool {
    // SAFETY: a read.
    unsafe { fp_exception_register() & ENABLE != 0 }
}

global_asm!(
    r#"
    .arm
    .fpu    neon
    .section .text.fp, "ax"
    .global fp_load
fp_load:
    vldmia  r0!, {{d0-d15}}
    vldmia  r0!, {{d16-d31}}
    ldr     r1, [r0]
    vmsr    fpscr, r1
    bx      lr

    .global fp_store
fp_store:
    vstmia  r0!, {{d0-d15}}
    vstmia  r0!, {{d16-d31}}
    vmrs    r1, fpscr
    str     r1, [r0]
    bx      lr

    .global fp_set_enable
fp_set_enable:
    vmsr    fpexc, r0
    isb
    bx      lr

    .global fp_exception_register
fp_exception_register:
    vmrs    r0, fpexc
    bx      lr

    .global fp_use
fp_use:
    vmov.i32 d0, #0
    bx      lr
    "#
);
