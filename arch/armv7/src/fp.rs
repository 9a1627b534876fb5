//! FP and SIMD registers, switched when a guest first touches them.
//!
//! HCPTR.TCP10 and TCP11 trap the first access after a vCPU came to a CPU; the handler loads its
//! registers and opens the trap. They stay in the CPU when their vCPU makes room for another, and
//! are saved only when that one touches them, too. The hypervisor itself is built for a
//! soft-float target and never touches them outside this file.
//!
//! FPEXC is one of these registers: a guest that turned its FPU off must find it off. But its value is
//! never left in the CPU while the trap is closed (accesses trap). With FPEXC.EN clear an FP instruction at
//! PL1 is undefined, and a CPU may find that before it finds the trap (DDI 0406C, "Enabling Advanced SIMD
//! and floating-point support", and the pseudocode CheckAdvSIMDOrVFPEnabled): a vCPU would then see that a
//! former owner, perhaps of another VM, had its FPU off. So when the trap is closed, FPEXC is saved and EN
//! is set, which leaves each FP instruction, VMRS and VMSR of FPEXC among them, to the trap. FPEXC is
//! restored when the trap is opened, with the other registers or, if they have stayed in the CPU, alone.
//!
//! At PL1 there is no such trap yet, and no guest whose access could be one: there only [`install`] and
//! [`feature_register`] are called.
//!
//! | trap | FPEXC in the CPU | the owner's FPEXC |
//! |---|---|---|
//! | closed | EN and nothing else | in its [`FpState`] |
//! | open | the owner's, who runs | there |

use crate::{read, write, write_own};
use hanok_arm_common::privilege::is_deprivileged;
use hanok_hal::FpGiven;

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
    .type   hanok_fp_save, %function
hanok_fp_save:
    vmrs    r2, fpscr
    str     r2, [r0, #{fpscr}]
    vstmia  r0!, {{d0-d15}}
    cmp     r1, #0
    bxeq    lr
    vstmia  r0!, {{d16-d31}}
    bx      lr
    .global hanok_fp_load
    .type   hanok_fp_load, %function
hanok_fp_load:
    ldr     r2, [r0, #{fpscr}]
    vmsr    fpscr, r2
    vldmia  r0!, {{d0-d15}}
    cmp     r1, #0
    vldmiane r0!, {{d16-d31}}
    bx      lr
    // r0: two double words in memory; r1: which Q register, which is two D registers. Each entry of
    // the tables is two words, and the PC reads as the one two words ahead.
    .global hanok_fp_store_one
    .type   hanok_fp_store_one, %function
hanok_fp_store_one:
    add     pc, pc, r1, lsl #3
    nop
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vstmia  r0, {{q\n}}
    bx      lr
    .endr
    .global hanok_fp_load_one
    .type   hanok_fp_load_one, %function
hanok_fp_load_one:
    add     pc, pc, r1, lsl #3
    nop
    .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    vldmia  r0, {{q\n}}
    bx      lr
    .endr
    .global hanok_fp_control
    .type   hanok_fp_control, %function
hanok_fp_control:
    vmrs    r0, fpexc
    bx      lr
    .global hanok_fp_set_control
    .type   hanok_fp_set_control, %function
hanok_fp_set_control:
    vmsr    fpexc, r0
    bx      lr
    .global hanok_fp_features
    .type   hanok_fp_features, %function
hanok_fp_features:
    cmp     r0, #0
    vmrseq  r0, mvfr0
    vmrsne  r0, mvfr1
    bx      lr
    .global hanok_fp_id
    .type   hanok_fp_id, %function
hanok_fp_id:
    vmrs    r0, fpsid
    bx      lr
"#,
    fpscr = const core::mem::offset_of!(FpState, fpscr),
);

unsafe extern "C" {
    fn hanok_fp_save(state: *mut FpState, upper: u32);
    fn hanok_fp_load(state: *const FpState, upper: u32);
    fn hanok_fp_store_one(to: *mut [u64; 2], register: u32);
    fn hanok_fp_load_one(from: *const [u64; 2], register: u32);
    fn hanok_fp_control() -> u32;
    fn hanok_fp_set_control(value: u32);
    fn hanok_fp_features(which: u32) -> u32;
    fn hanok_fp_id() -> u32;
}

/// HCPTR (DDI 0406C, B4.1.64): RES1 bits, among them the traps of all coprocessors that are not
/// there (13, 12, 9 to 0); trace (TTA) always traps.
const CPTR_ALWAYS: u64 = 0x33ff | 1 << 20;
/// TCP10 and TCP11.
const CPTR_TFP: u64 = 3 << 10;

/// FPEXC.EN (B4.1.57).
const ENABLE: u32 = 1 << 30;

/// Whether the trap is closed.
fn is_closed() -> bool {
    read!("cptr_el2") & CPTR_TFP != 0
}

/// Opens the trap: Hyp mode and the guest reach the registers. FPEXC stays as it was.
fn open_trap() {
    // SAFETY: fewer traps than before: what is open is used by this file alone.
    unsafe { write_own!("cptr_el2", CPTR_ALWAYS) };
    hanok_arm_common::sysreg::isb();
}

/// FPEXC. The trap must be open.
fn control() -> u32 {
    // SAFETY: reads a register of the guest's; the callers have opened the trap.
    unsafe { hanok_fp_control() }
}

/// Sets FPEXC. The trap must be open.
fn set_control(value: u32) {
    // SAFETY: turns on and off what Hyp mode uses in this file alone, and there after it was
    // turned on; the callers have opened the trap.
    unsafe { hanok_fp_set_control(value) };
}

/// Closes the trap on a CPU that starts. One without FP, or whose Secure side keeps it to itself
/// (NSACR), is closed for ever, and FPEXC cannot be reached (B4.1.64, HCPTR).
///
/// At PL1 the trap is FPEXC.EN, which is clear but where a guest runs whose registers are in the CPU.
pub fn install() {
    if is_deprivileged() {
        if has_fp_at_pl1() {
            set_control(0);
        }
        return;
    }
    open_trap();
    if !is_closed() {
        set_control(ENABLE);
    }
    // SAFETY: Hyp mode uses FP registers in this file alone, which opens the trap before.
    unsafe { write_own!("cptr_el2", CPTR_ALWAYS | CPTR_TFP) };
}

/// Closes the trap, so that the next guest's first access to FP or SIMD is an exit. The registers in the
/// CPU are lost; if a vCPU still needs them, [`FpState::close`] must be called instead.
pub fn close() {
    if !is_closed() {
        set_control(ENABLE);
        // SAFETY: Hyp mode uses FP registers in this file alone, which opens the trap before.
        unsafe { write_own!("cptr_el2", CPTR_ALWAYS | CPTR_TFP) };
    }
}

/// Gives the FP registers to `next`, whose first access since it came was trapped. `owner` is the vCPU
/// whose registers are in the CPU.
pub fn hand_over(owner: Option<&mut FpState>, next: &FpState) -> FpGiven {
    if is_deprivileged() {
        return hand_over_at_pl1(owner, next);
    }
    open_trap();
    if is_closed() {
        return FpGiven::Absent;
    }
    // On an emulator that finds the trap first, only this assertion shows a violation of the rule.
    assert!(control() & ENABLE != 0, "FP was closed with FPEXC.EN clear");
    if let Some(owner) = owner {
        owner.save();
    }
    next.load();
    FpGiven::Loaded
}

/// MVFR0 or, where `second`, MVFR1, whatever the trap is.
pub fn feature_register(second: bool) -> u64 {
    if is_deprivileged() {
        return feature_register_at_pl1(second);
    }
    let trap = read!("cptr_el2");
    open_trap();
    // SAFETY: reads an ID register; the trap is open.
    let value = unsafe { hanok_fp_features(second.into()) };
    // SAFETY: as it was before.
    unsafe { write_own!("cptr_el2", trap) };
    hanok_arm_common::sysreg::isb();
    value.into()
}

/// The same at PL1.
fn feature_register_at_pl1(second: bool) -> u64 {
    if !has_fp_at_pl1() {
        return 0;
    }
    // SAFETY: reads an ID register; CPACR lets PL1 do that.
    unsafe { hanok_fp_features(second.into()) }.into()
}

/// FPSID at PL1; zero if there are no FP registers.
pub fn identification_at_pl1() -> u32 {
    if !has_fp_at_pl1() {
        return 0;
    }
    // SAFETY: as above.
    unsafe { hanok_fp_id() }
}

/// Lets PL1 and User mode use FP registers, as far as FPEXC lets them. Answers whether there are any:
/// CPACR ignores writes for coprocessors that are not there (DDI 0406C, B4.1.40).
fn has_fp_at_pl1() -> bool {
    const FULL: u64 = 0b1111 << 20;
    write!("cpacr_el1", FULL);
    hanok_arm_common::sysreg::isb();
    read!("cpacr_el1") & FULL == FULL
}

/// [`hand_over`] at PL1. FPEXC is the guest's virtual CPU's.
fn hand_over_at_pl1(owner: Option<&mut FpState>, next: &FpState) -> FpGiven {
    if !has_fp_at_pl1() {
        return FpGiven::Absent;
    }
    set_control(ENABLE);
    if let Some(owner) = owner {
        owner.save();
    }
    // SAFETY: loads within `next`; the hypervisor keeps nothing in FP registers.
    unsafe { hanok_fp_load(next, upper()) };
    set_control(0);
    FpGiven::Loaded
}

/// Lets the guest that is about to be entered at PL1 use FP registers, or not.
pub fn enable_at_pl1(on: bool) {
    set_control(if on { ENABLE } else { 0 });
}

/// Whether there are D16 to D31 (MVFR0.A_SIMD registers, 0b0010).
fn upper() -> u32 {
    // SAFETY: reads an ID register; the callers have opened the trap.
    u32::from(unsafe { hanok_fp_features(0) } & 0xf == 2)
}

/// Q register `index` of the vCPU in this CPU; `None` while the trap is closed, as the registers are not
/// that vCPU's then, and for an index from 16 on.
pub fn vector(index: u8) -> Option<u128> {
    with_register(index, || {
        let mut halves = [0, 0];
        // SAFETY: stores two double words; `with_register` found that there is such a register.
        unsafe { hanok_fp_store_one(&raw mut halves, index.into()) };
        let [low, high] = halves;
        u128::from(high) << 64 | u128::from(low)
    })
}

/// Sets Q register `index`; does nothing where [`vector`] gives `None`.
pub fn set_vector(index: u8, value: u128) {
    let _ = with_register(index, || {
        let halves = [value as u64, (value >> 64) as u64];
        // SAFETY: loads two double words; `with_register` found that there is such a register, and
        // the hypervisor keeps nothing in it.
        unsafe { hanok_fp_load_one(&raw const halves, index.into()) };
        0
    });
}

/// Whether the registers in the CPU are those of the vCPU in it. At PL1 they are for as long as FPEXC
/// says so: an exit leaves it alone, and every entry sets it anew.
fn is_open() -> bool {
    if is_deprivileged() {
        has_fp_at_pl1() && control() & ENABLE != 0
    } else {
        !is_closed()
    }
}

/// The answer of `act`, which runs with the FPU on, if there is a Q register `index`; 0 for those that the
/// CPU does not have.
fn with_register(index: u8, act: impl FnOnce() -> u128) -> Option<u128> {
    if !is_open() || index >= 16 {
        return None;
    }
    if index >= 8 && upper() == 0 {
        return Some(0);
    }
    let former = control();
    // The guest may have its FPU off.
    set_control(ENABLE);
    let given = act();
    set_control(former);
    Some(given)
}

impl FpState {
    /// Takes FPEXC out of the CPU and closes the trap, where it is open: this is then the state of
    /// the vCPU that was in the CPU. Its other registers stay.
    pub fn close(&mut self) {
        if !is_closed() {
            self.fpexc = control();
            close();
        }
    }

    /// Opens the trap for the vCPU whose registers have stayed in the CPU, and gives it its FPEXC.
    pub fn open(&self) {
        open_trap();
        set_control(self.fpexc);
    }

    /// Takes all but FPEXC out of the CPU; the trap must be open, and the FPU on.
    fn save(&mut self) {
        // SAFETY: stores within `self`, whose layout the assembly follows.
        unsafe { hanok_fp_save(self, upper()) };
    }

    /// Puts the registers into the CPU; the trap must be open.
    pub fn load(&self) {
        set_control(ENABLE);
        // SAFETY: loads within `self`; the hypervisor keeps nothing in FP registers.
        unsafe { hanok_fp_load(self, upper()) };
        set_control(self.fpexc);
    }
}
