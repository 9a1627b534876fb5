//! FP and SIMD registers, switched when a guest first touches them.
//!
//! HCPTR.TCP10 and TCP11 trap the first access after a vCPU came to a CPU; the handler loads its
//! registers and opens the trap. They stay in the CPU when their vCPU makes room for another, and
//! are saved only when that one touches them, too. The hypervisor itself is built for a
//! soft-float target and never touches them outside this file.
//!
//! FPEXC is among them: a guest that turned its FPU off must find it off, and while it is off,
//! the other registers cannot be reached in any mode (DDI 0406C, B1.11.3).

use crate::{read, write};

/// Q0 to Q15 (D0 to D31) with their control and status.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct FpState {
    q: [u128; 16],
    fpscr: u32,
    fpexc: u32,
}

core::arch::global_asm!(
    r#"
    .section .text.fp, "ax"
    .arm
    .fpu    neon-vfpv4
    // r0: the state; r1: not zero where there are D16 to D31.
    .global hanok_fp_save
hanok_fp_save:
    vmrs    r2, fpexc
    str     r2, [r0, #{fpexc}]
    mov     r2, #(1 << 30)          // FPEXC.EN
    vmsr    fpexc, r2
    vmrs    r2, fpscr
    str     r2, [r0, #{fpscr}]
    vstmia  r0!, {{d0-d15}}
    cmp     r1, #0
    bxeq    lr
    vstmia  r0!, {{d16-d31}}
    bx      lr
    .global hanok_fp_load
hanok_fp_load:
    mov     r2, #(1 << 30)
    vmsr    fpexc, r2
    ldr     r2, [r0, #{fpscr}]
    vmsr    fpscr, r2
    ldr     r2, [r0, #{fpexc}]
    vldmia  r0!, {{d0-d15}}
    cmp     r1, #0
    vldmiane r0!, {{d16-d31}}
    vmsr    fpexc, r2
    bx      lr
    .global hanok_fp_features
hanok_fp_features:
    cmp     r0, #0
    vmrseq  r0, mvfr0
    vmrsne  r0, mvfr1
    bx      lr
"#,
    fpscr = const core::mem::offset_of!(FpState, fpscr),
    fpexc = const core::mem::offset_of!(FpState, fpexc),
);

unsafe extern "C" {
    fn hanok_fp_save(state: *mut FpState, upper: u32);
    fn hanok_fp_load(state: *const FpState, upper: u32);
    fn hanok_fp_features(which: u32) -> u32;
}

/// HCPTR (DDI 0406C, B4.1.49): RES1 bits, among them the traps of all coprocessors that are not
/// there (13, 12, 9 to 0); trace (TTA) always traps.
const CPTR_ALWAYS: u64 = 0x33ff | 1 << 20;
/// TCP10 and TCP11.
const CPTR_TFP: u64 = 3 << 10;

/// Makes the guest's next access to FP or SIMD an exit.
pub fn close() {
    write!("cptr_el2", CPTR_ALWAYS | CPTR_TFP);
}

/// Lets Hyp mode and the guest reach the registers.
pub fn open() {
    write!("cptr_el2", CPTR_ALWAYS);
    crate::sysreg::isb();
}

/// MVFR0 or, where `second`, MVFR1, whatever the trap is.
pub fn feature_register(second: bool) -> u64 {
    let trap = read!("cptr_el2");
    open();
    // SAFETY: reads an ID register; the trap is open.
    let value = unsafe { hanok_fp_features(second.into()) };
    write!("cptr_el2", trap);
    crate::sysreg::isb();
    value.into()
}

/// Whether there are D16 to D31 (MVFR0.A_SIMD registers, 0b0010).
fn upper() -> u32 {
    // SAFETY: reads an ID register; the callers have opened the trap.
    u32::from(unsafe { hanok_fp_features(0) } & 0xf == 2)
}

impl FpState {
    /// A copy of what is in the CPU; `None` while the trap is closed, as the registers are
    /// nobody's then.
    pub fn of_this_cpu() -> Option<Self> {
        if read!("cptr_el2") & CPTR_TFP != 0 {
            return None;
        }
        let mut state = Self::default();
        state.save();
        // Saving turned the FPU on: it is the guest's to say.
        state.load();
        Some(state)
    }

    /// Q register `index`; `None` from 16 on.
    pub fn vector(&self, index: u8) -> Option<u128> {
        self.q.get(usize::from(index)).copied()
    }

    /// Sets Q register `index`; nothing from 16 on.
    pub fn set_vector(&mut self, index: u8, value: u128) {
        if let Some(register) = self.q.get_mut(usize::from(index)) {
            *register = value;
        }
    }

    /// Takes the registers out of the CPU; the trap must be open.
    pub fn save(&mut self) {
        // SAFETY: stores within `self`, whose layout the assembly follows.
        unsafe { hanok_fp_save(self, upper()) };
    }

    /// Puts the registers into the CPU; the trap must be open.
    pub fn load(&self) {
        // SAFETY: loads within `self`; the hypervisor keeps nothing in FP registers.
        unsafe { hanok_fp_load(self, upper()) };
    }
}
