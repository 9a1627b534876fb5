//! The system registers that MRS reads and MSR writes, for [`crate::crossing`].

use super::fp;
use super::fuzz::{registers as encodings, space, trip};
use crate::crossing::{Action, Layout, Run, Special};
use core::arch::global_asm;
use core::mem::offset_of;

/// An encoding of a register: op0, op1, CRn, CRm and op2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Register(u16);

/// How many encodings there are to try: those whose op0 is 2 or 3.
pub const CANDIDATES: usize = 1 << 15;

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (op0, op1, crn, crm, op2) = self.fields();
        write!(f, "S{op0}_{op1}_C{crn}_C{crm}_{op2}")
    }
}

const fn number(op0: u16, op1: u16, crn: u16, crm: u16, op2: u16) -> u16 {
    op0 << 14 | op1 << 11 | crn << 7 | crm << 3 | op2
}

const CLAIM_CLEAR: u16 = number(2, 0, 7, 9, 6);
const SCTLR: u16 = number(3, 0, 1, 0, 0);
const CPACR: u16 = number(3, 0, 1, 0, 2);
const VBAR: u16 = number(3, 0, 12, 0, 0);
const STACK_SELECT: u16 = number(3, 0, 4, 2, 0);
const BINARY_POINT_0: u16 = number(3, 0, 12, 8, 3);
const BINARY_POINT_1: u16 = number(3, 0, 12, 12, 3);
const DAIF: u16 = number(3, 3, 4, 2, 1);
const NZCV: u16 = number(3, 3, 4, 2, 0);

impl Register {
    /// The register with candidate number `index`.
    pub fn candidate(index: usize) -> Self {
        Self(index as u16 | 1 << 15)
    }

    /// The inverse of [`Register::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits as u16)
    }

    /// A number that identifies the register, below 2^24.
    pub fn bits(self) -> u32 {
        self.0.into()
    }

    fn fields(self) -> (u16, u16, u16, u16, u16) {
        let bits = self.0;
        (
            bits >> 14,
            bits >> 11 & 7,
            bits >> 7 & 15,
            bits >> 3 & 15,
            bits & 7,
        )
    }

    /// How the fuzzer has to treat the register.
    pub fn special(self) -> Special {
        match self.fields() {
            // The counters.
            (3, 3, 14, 0, 1 | 2 | 5 | 6) => Special::Moves,
            // CNTP_TVAL and CNTV_TVAL: other views of the compare values.
            (3, 3, 14, 2 | 3, 0) => Special::Acts,
            // DISR_EL1, of FEAT_RAS: a guest does not have the feature, and nothing traps the
            // register.
            (3, 0, 12, 1, 1) => Special::Forgotten,
            // RNDR and RNDRRS.
            (3, 3, 2, 4, 0 | 1) => Special::Moves,
            // Registers whose writes have an effect and are not stored: ICC_EOIR0, ICC_DIR,
            // ICC_SGI1R, ICC_ASGI1R, ICC_SGI0R, ICC_EOIR1.
            (3, 0, 12, 8, 1) | (3, 0, 12, 11, 1 | 5..=7) | (3, 0, 12, 12, 1) => Special::Acts,
            // The flags change while the program waits.
            _ if self.0 == NZCV => Special::Moves,
            // The register decides whether other registers can be accessed.
            _ if self.0 == CPACR || self.0 == VBAR => Special::Last,
            _ => Special::None,
        }
    }

    /// The value to write: as near to `pattern` as the payload can run with.
    pub fn bearable(self, pattern: u64) -> u64 {
        /// Bits that stay as they are: MMU; the byte order of data.
        const M_AND_EE: u64 = 1 | 1 << 25;
        match self.0 {
            SCTLR => pattern & !M_AND_EE,
            STACK_SELECT => pattern | 1,
            DAIF => pattern | 0xf << 6,
            // QEMU takes values below the least one (IHI 0069H, 12.4.6), until VMCR is written.
            BINARY_POINT_0 | BINARY_POINT_1 => pattern | 4,
            // Claim bits are set by another register, so each run begins with none set.
            CLAIM_CLEAR => u64::MAX,
            _ => pattern,
        }
    }

    /// Bits that the payload itself has set, or whose value out of reset is not zero.
    pub fn excused(self) -> u64 {
        match (self.0, self.fields()) {
            // Registers that the runtime and the fuzzer need: translation, stack, vectors, floating
            // point, timers for EL0; and those that a trip uses itself.
            (SCTLR | CPACR | VBAR | STACK_SELECT | DAIF, _) => u64::MAX,
            (_, (3, 0, 2, 0, 0 | 2) | (3, 0, 10, 2, 0) | (3, 0, 14, 1, 0)) => u64::MAX,
            (_, (3, 0, 13, 0, 4) | (3, 3, 13, 0, 2 | 3)) => u64::MAX,
            (_, (3, 0, 4, 0, 0 | 1) | (3, 0, 4, 1, 0)) => u64::MAX,
            (_, (3, 0, 5, 2, 0) | (3, 0, 6, 0, 0)) => u64::MAX,
            // The interrupt controller's CPU interface.
            (_, (3, 0, 4, 6, 0) | (3, 0, 12, 8.., _)) => u64::MAX,
            // CCSIDR_EL1 describes the cache that CSSELR_EL1 names.
            (_, (3, 1, 0, 0, 0)) => u64::MAX,
            // OSLSR_EL1: the OS lock is locked out of reset (DDI 0487, D24.3).
            (_, (2, 0, 1, 1, 4)) => u64::MAX,
            _ => 0,
        }
    }

    /// What MRS of the register returns; `None` where MRS causes an exception.
    pub fn probe_read(self) -> Option<u64> {
        // SAFETY: a read, and the way back restores what the payload needs.
        let end = unsafe { trip::travel(&self.start(true)) };
        end.arrived().then(|| end.x[0])
    }

    /// Returns whether MSR of the register, with the value just read from it, runs without an
    /// exception.
    pub fn probe_write(self, value: u64) -> bool {
        let mut start = self.start(false);
        start.x[0] = value;
        // SAFETY: writes what was there.
        let end = unsafe { trip::travel(&start) };
        end.arrived()
    }

    fn start(self, read: bool) -> trip::Start {
        let mut start = trip::Start::NOWHERE;
        start.x[28] = trip::vectors();
        start.pc = encodings::stub(self.0, read);
        start
    }

    /// MSR from entry `at` of the array of values.
    pub fn write(self, at: usize, put: &mut dyn FnMut(u32)) {
        put(0xf940_0000 | (at as u32) << 10 | 1 << 5); // LDR X0, [X1, #8 * at]
        put(0xd500_0000 | u32::from(self.0) << 5); // MSR
    }

    /// MRS to entry `at` of the array of values.
    pub fn read(self, at: usize, put: &mut dyn FnMut(u32)) {
        put(0xd520_0000 | u32::from(self.0) << 5); // MRS
        put(0xf900_0000 | (at as u32) << 10 | 2 << 5); // STR X0, [X2, #8 * at]
    }
}

/// Instructions that make all registers accessible again: ISB, CPACR_EL1.FPEN.
pub const REACHABLE: &[u32] = &[0xd2a0_0600, 0xd518_1040, 0xd503_3fdf];
/// ISB; RET.
pub const RETURN: &[u32] = &[0xd503_3fdf, 0xd65f_03c0];

/// Reads at the start, before anything else, the registers that a trip uses itself.
pub fn first_look() -> [(&'static str, u64); 12] {
    macro_rules! all {
        ($($name:literal)*) => { [$(($name, read_sysreg!($name))),*] };
    }
    all!("tpidr_el0" "tpidrro_el0" "sp_el0" "elr_el1" "spsr_el1" "esr_el1" "far_el1" "par_el1"
        "contextidr_el1" "ttbr1_el1" "afsr0_el1" "mdscr_el1")
}

unsafe extern "C" {
    fn crossing_run();
    fn crossing_read();
    fn crossing_spin();
    fn crossing_spoil();
    fn crossing_call();
}

/// A trip that writes all registers, waits or calls, reads them, and restores all.
pub fn start(layout: &Layout, run: &mut Run) -> trip::Start {
    let mut start = alone(layout, crossing_run);
    start.x[20] = core::ptr::from_mut(run) as u64;
    (start.x[21], start.x[22], start.x[23], start.x[24]) = match run.action {
        Action::Wait(wait) if wait.spoil => (
            crossing_spoil as *const () as u64,
            wait.gap,
            wait.patience,
            wait.gaps,
        ),
        Action::Wait(wait) => (
            crossing_spin as *const () as u64,
            wait.gap,
            wait.patience,
            wait.gaps,
        ),
        Action::Call(function) => (crossing_call as *const () as u64, function, 0, 0),
    };
    start
}

/// A trip that reads all registers into `values`.
pub fn start_read(layout: &Layout, values: u64) -> trip::Start {
    let mut start = alone(layout, crossing_read);
    start.x[2] = values;
    start
}

fn alone(layout: &Layout, entry: unsafe extern "C" fn()) -> trip::Start {
    let mut start = trip::Start::NOWHERE;
    start.sctlr = space::SCTLR & !1;
    start.pc = entry as *const () as u64;
    start.x[17] = layout.write;
    start.x[18] = layout.write_last;
    start.x[19] = layout.read;
    start
}

global_asm!(
    r#"
    .section .text.crossing, "ax"
    // Arguments of the code. X17 and X18: code that writes all registers, and the last ones, from
    // the array at X1; X19: code that reads all into the array at X2; X20: the run's number; X21:
    // what to do between writing and reading, with X22 to X24 as its arguments.
    .global crossing_run
crossing_run:
    ldr     x1, [x20, #{values}]
    blr     x17
    add     x0, x20, #{fp}
    bl      fp_load
    ldr     x1, [x20, #{values}]
    blr     x18
    ldr     x2, [x20, #{first}]
    blr     x19
    add     x0, x20, #{fp_first}
    bl      fp_store
    ldr     x1, [x20, #{values}]
    blr     x18
    blr     x21
    str     x0, [x20, #{seen}]
    ldr     x2, [x20, #{second}]
    blr     x19
    add     x0, x20, #{fp_second}
    bl      fp_store
    ldr     x1, [x20, #{before}]
    blr     x17
    ldr     x1, [x20, #{before}]
    blr     x18
    svc     #{arrived}

    .global crossing_read
crossing_read:
    blr     x19
    svc     #{arrived}

    // As the function below, but also changes a register in between, which the check must find.
    .global crossing_spoil
crossing_spoil:
    mrs     x0, tpidrro_el0
    eor     x0, x0, #0x100
    msr     tpidrro_el0, x0

    // Waits until X24 gaps of X22 ticks or more were seen between two reads of the clock, or until
    // X23 ticks are over. Returns the number of gaps.
    .global crossing_spin
crossing_spin:
    mov     x0, xzr
    isb
    mrs     x3, cntvct_el0
    add     x4, x3, x23
1:  isb
    mrs     x5, cntvct_el0
    sub     x6, x5, x3
    mov     x3, x5
    cmp     x6, x22
    cinc    x0, x0, hs
    cmp     x0, x24
    b.hs    2f
    cmp     x5, x4
    b.lo    1b
2:  ret

    // HVC with the function of X22, which does not return.
    .global crossing_call
crossing_call:
    mov     x0, x22
    hvc     #0
    ret
    "#,
    values = const offset_of!(Run, values),
    before = const offset_of!(Run, before),
    first = const offset_of!(Run, first),
    second = const offset_of!(Run, second),
    seen = const offset_of!(Run, seen),
    fp = const offset_of!(Run, fp),
    fp_first = const offset_of!(Run, fp_first),
    fp_second = const offset_of!(Run, fp_second),
    arrived = const trip::ARRIVED,
);

const _: () = assert!(size_of::<fp::State>() == 528);
