//! The registers that MRC, MRRC, VMRS and MRS (banked) read and MCR, MCRR, VMSR and MSR write, for
//! [`crate::crossing`].

use super::fp;
use super::fuzz::{registers as encodings, space, trip};
use crate::crossing::{Action, Layout, Run, Special};
use crate::fuzz::memory::{CODE, put_code};
use core::arch::global_asm;
use core::mem::offset_of;
use hanok_guest_runtime::arch::mmu;

/// How many encodings there are to try: those of coprocessors 14 and 15, those of VMRS, and those
/// of MRS (banked register) in its two halves.
pub const CANDIDATES: usize = encodings::ENCODINGS + FLOATING + BANKED;
const FLOATING: usize = 16;
const BANKED: usize = 64;
/// The candidate number of the first encoding of each kind.
const FIRST_FLOATING: u32 = encodings::ENCODINGS as u32;
const FIRST_BANKED: u32 = FIRST_FLOATING + FLOATING as u32;

/// A register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Register(u32);

#[derive(Clone, Copy)]
enum Kind {
    /// Coprocessor, opc1, CRn, CRm, opc2.
    Single(u32, u32, u32, u32, u32),
    /// Coprocessor, opc1, CRm.
    Pair(u32, u32, u32),
    /// The number of VMRS.
    Floating(u32),
    /// SYSm, and whether it is a saved status.
    Banked(u32, bool),
}

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.kind() {
            Kind::Single(cp, opc1, crn, crm, opc2) => {
                write!(f, "p{cp}, {opc1}, c{crn}, c{crm}, {opc2}")
            }
            Kind::Pair(cp, opc1, crm) => write!(f, "p{cp}, {opc1}, c{crm} (64 bits)"),
            Kind::Floating(number) => write!(f, "VMRS {number}"),
            Kind::Banked(mode, status) => write!(f, "banked {mode:#x}, SPSR {status}"),
        }
    }
}

/// Returns whether the CPU is of Armv8 or later: it has SEVL (ID_ISAR5).
fn is_armv8() -> bool {
    read_sysreg!("id_isar5_el1") & 0xf != 0
}

impl Register {
    /// The register with candidate number `index`.
    pub fn candidate(index: usize) -> Self {
        Self(index as u32)
    }

    /// The inverse of [`Register::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// A number that identifies the register, below 2^24.
    pub fn bits(self) -> u32 {
        self.0
    }

    fn kind(self) -> Kind {
        if let Some(banked) = self.0.checked_sub(FIRST_BANKED) {
            return Kind::Banked(banked & 31, banked >= 32);
        }
        if let Some(floating) = self.0.checked_sub(FIRST_FLOATING) {
            return Kind::Floating(floating);
        }
        match encodings::fields(self.0 as usize) {
            encodings::Fields::Single(cp, opc1, crn, crm, opc2) => {
                Kind::Single(cp, opc1, crn, crm, opc2)
            }
            encodings::Fields::Pair(cp, opc1, crm) => Kind::Pair(cp, opc1, crm),
        }
    }

    /// How the fuzzer has to treat the register.
    pub fn special(self) -> Special {
        match self.kind() {
            // Operations on caches, TLBs and translations; PAR is one of their neighbours.
            Kind::Single(15, 0, 7, 4, 0) => Special::None,
            Kind::Single(15, _, 7 | 8, ..) => Special::Acts,
            // CNTP_TVAL and CNTV_TVAL: other views of the compare values.
            Kind::Single(15, 0, 14, 2 | 3, 0) => Special::Acts,
            // ICC_EOIR0, ICC_DIR, ICC_EOIR1.
            Kind::Single(15, 0, 12, 8, 1)
            | Kind::Single(15, 0, 12, 11, 1)
            | Kind::Single(15, 0, 12, 12, 1) => Special::Acts,
            // ICC_SGI1R, ICC_ASGI1R, ICC_SGI0R.
            Kind::Pair(15, _, 12) => Special::Acts,
            // The counters.
            Kind::Pair(15, 0 | 1 | 8 | 9, 14) => Special::Moves,
            // DISR, of FEAT_RAS: a guest does not have the feature, and nothing traps the register.
            Kind::Single(15, 0, 12, 1, 1) => Special::Forgotten,
            // SCTLR, CPACR, VBAR and the Supervisor's stack pointer.
            Kind::Single(15, 0, 1, 0, 0 | 2)
            | Kind::Single(15, 0, 12, 0, 0)
            | Kind::Banked(SP_SVC, false) => Special::Last,
            // The registers of User mode are System mode's, and their own encodings are
            // UNPREDICTABLE (DDI 0406C, B9.2.3): they are left out, as encodings without a register
            // are.
            Kind::Banked(number, false) if !is_banked(number) => Special::Acts,
            Kind::Banked(number, true) if !has_saved_status(number) => Special::Acts,
            _ => Special::None,
        }
    }

    /// The value to write: as near to `pattern` as the payload can run with.
    pub fn bearable(self, pattern: u64) -> u64 {
        /// MMU.
        const M: u64 = 1;
        /// FPEXC: VFP is on; it has no state of an exception.
        const ENABLED: u64 = 1 << 30;
        match self.kind() {
            Kind::Single(15, 0, 1, 0, 0) => pattern & !M,
            Kind::Floating(8) => ENABLED,
            // QEMU takes values below the least one (IHI 0069H, 12.4.6), until VMCR is written.
            Kind::Single(15, 0, 12, 8, 3) | Kind::Single(15, 0, 12, 12, 3) => pattern | 4,
            Kind::Single(..) | Kind::Floating(_) | Kind::Banked(..) => pattern & 0xffff_ffff,
            Kind::Pair(..) => pattern,
        }
    }

    /// Bits that the payload itself has set, or whose value out of reset is not zero.
    pub fn excused(self) -> u64 {
        match self.kind() {
            // Registers that the runtime and the fuzzer need: translation, vectors, floating point,
            // timers for User mode; and those that a trip uses itself.
            Kind::Single(15, 0, 1, 0, _) | Kind::Single(15, 0, 2, 0, _) => u64::MAX,
            Kind::Single(15, 0, 10, 2, _) | Kind::Single(15, 0, 12, 0, 0) => u64::MAX,
            Kind::Single(15, 0, 13, 0, 2..=4) | Kind::Single(15, 0, 14, 1, 0) => u64::MAX,
            Kind::Pair(15, 0, 2) | Kind::Floating(8) => u64::MAX,
            Kind::Banked(SP_IRQ | LR_SVC | SP_SVC | SP_ABT | LR_UND | SP_UND | SP_FIQ, false) => {
                u64::MAX
            }
            Kind::Banked(SPSR_SVC | SPSR_UND, true) => u64::MAX,
            // FCSEIDR of an Armv8 CPU, which QEMU stores and no hypervisor in AArch64 can access
            // (docs/differences.md).
            Kind::Single(15, 0, 13, 0, 0) if is_armv8() => u64::MAX,
            // The interrupt controller's CPU interface.
            Kind::Single(15, 0, 4, 6, 0) | Kind::Single(15, 0, 12, 8.., _) => u64::MAX,
            // CCSIDR describes the cache that CSSELR names.
            Kind::Single(15, 1, 0, 0, 0) => u64::MAX,
            _ => 0,
        }
    }

    /// What a read of the register returns; `None` where the read causes an exception.
    pub fn probe_read(self) -> Option<u64> {
        let end = self.travel(true, 0);
        let high = match self.kind() {
            Kind::Pair(..) => u64::from(end.x[1]),
            _ => 0,
        };
        end.arrived().then(|| high << 32 | u64::from(end.x[0]))
    }

    /// Returns whether a write of this value, which was just read from the register, runs without
    /// an exception.
    pub fn probe_write(self, value: u64) -> bool {
        self.travel(false, value).arrived()
    }

    fn travel(self, read: bool, value: u64) -> &'static trip::End {
        let mut start = trip::Start::NOWHERE;
        start.x[0] = value as u32;
        start.x[1] = (value >> 32) as u32;
        start.x[8] = trip::vectors() as u32;
        start.pc = match self.kind() {
            Kind::Single(..) | Kind::Pair(..) => encodings::stub(self.0 as usize, read),
            Kind::Floating(_) | Kind::Banked(..) => {
                let (words, count) = self.instructions(read, 0);
                put_code(words.into_iter().take(count));
                CODE.address() as u32
            }
        };
        // SAFETY: a read, or a write of what was there; the way back restores what is needed.
        unsafe { trip::travel(&start) }
    }

    /// The instructions, of R`register` and the next one, which are up to three, and their number. A CPU without the
    /// virtualization extensions reaches a banked register in its mode alone (DDI 0406C, B9.2.3).
    fn instructions(self, read: bool, register: u32) -> ([u32; 3], usize) {
        match self.kind() {
            Kind::Banked(number, status) if !has_banked_access() => {
                let inside = match (number, status) {
                    // MRS of SPSR, MSR SPSR_fsxc.
                    (_, true) if read => 0xe14f_0000 | register << 12,
                    (_, true) => 0xe16f_f000 | register,
                    // MOV from or to R8 to R14.
                    (number, false) if read => 0xe1a0_0000 | register << 12 | own_number(number),
                    (number, false) => 0xe1a0_0000 | own_number(number) << 12 | register,
                };
                (
                    [change_mode(mode_of(number)), inside, change_mode(SYSTEM)],
                    3,
                )
            }
            _ => ([self.instruction(read, register), 0, 0], 1),
        }
    }

    fn put(self, read: bool, register: u32, put: &mut dyn FnMut(u32)) {
        let (words, count) = self.instructions(read, register);
        words.into_iter().take(count).for_each(put);
    }

    /// The instruction, of R`register` and the next one.
    fn instruction(self, read: bool, register: u32) -> u32 {
        let is_read = u32::from(read) << 20;
        match self.kind() {
            Kind::Single(..) | Kind::Pair(..) => {
                let second = match self.kind() {
                    Kind::Pair(..) => register << 16,
                    _ => 0,
                };
                encodings::instruction(self.0 as usize, read) + (register << 12) + second
            }
            Kind::Floating(number) => 0xeee0_0a10 | is_read | number << 16 | register << 12,
            Kind::Banked(number, status) => {
                let place = (number & 0xf) << 16 | (number >> 4) << 8 | u32::from(status) << 22;
                if read {
                    0xe100_0200 | place | register << 12
                } else {
                    0xe120_f200 | place | register
                }
            }
        }
    }

    /// A write from entry `at` of the array of values.
    pub fn write(self, at: usize, put: &mut dyn FnMut(u32)) {
        put(place(at));
        put(0xe181_40dc); // LDRD R4, R5, [R1, R12]
        self.put(false, 4, put);
    }

    /// A read to entry `at` of the array of values.
    pub fn read(self, at: usize, put: &mut dyn FnMut(u32)) {
        put(place(at));
        if !matches!(self.kind(), Kind::Pair(..)) {
            put(0xe3a0_5000); // MOV R5, #0
        }
        self.put(true, 4, put);
        put(0xe182_40fc); // STRD R4, R5, [R2, R12]
    }
}

/// MOVW R12, #8 * at.
fn place(at: usize) -> u32 {
    let offset = 8 * at as u32;
    0xe300_c000 | (offset >> 12) << 16 | offset & 0xfff
}

// SYSm of MRS (banked register) (DDI 0406C, B9.2.3).
const SP_FIQ: u32 = 0x0d;
const SP_IRQ: u32 = 0x11;
const LR_SVC: u32 = 0x12;
const SP_SVC: u32 = 0x13;
const SP_ABT: u32 = 0x15;
const LR_UND: u32 = 0x16;
const SP_UND: u32 = 0x17;
const SPSR_SVC: u32 = 0x12;
const SPSR_UND: u32 = 0x16;

/// R8 to R14 of FIQ mode, LR and SP of IRQ, Supervisor, Abort and Undefined mode.
fn is_banked(number: u32) -> bool {
    matches!(number, 0x08..=0x0e | 0x10..=0x17)
}

/// Returns whether the CPU has MRS and MSR of banked registers (ID_PFR1, virtualization extensions).
fn has_banked_access() -> bool {
    read_sysreg!("id_pfr1_el1") >> 12 & 0xf != 0
}

/// CPSR.M of System mode, whose registers are User mode's.
const SYSTEM: u32 = 0x1f;

/// The mode that has the register with this SYSm (B9.2.3).
fn mode_of(number: u32) -> u32 {
    match number {
        0x08..=0x0e => 0x11,
        0x10 | 0x11 => 0x12,
        0x12 | 0x13 => 0x13,
        0x14 | 0x15 => 0x17,
        _ => 0x1b,
    }
}

/// The number of that register in its mode: R8 to R14 of FIQ mode, LR and SP of the others.
fn own_number(number: u32) -> u32 {
    match number {
        0x08..=0x0e => number,
        _ => 14 - (number & 1),
    }
}

/// CPS to this mode.
fn change_mode(mode: u32) -> u32 {
    0xf102_0000 | mode
}

fn has_saved_status(number: u32) -> bool {
    matches!(number, 0x0e | 0x10 | 0x12 | 0x14 | 0x16)
}

/// Instructions that make all registers accessible again: CPACR, ISB.
pub const REACHABLE: &[u32] = &[
    0xe3a0_460f, // MOV R4, #0xf00000
    0xee01_4f50, // MCR CPACR
    0xf57f_f06f, // ISB
];
/// ISB; BX LR.
pub const RETURN: &[u32] = &[0xf57f_f06f, 0xe12f_ff1e];

/// Reads at the start, before anything else, the registers that a trip uses itself.
pub fn first_look() -> [(&'static str, u64); 10] {
    macro_rules! all {
        ($($name:tt)*) => { [$(($name, read_sysreg!($name))),*] };
    }
    if !mmu::has_long() {
        return all!("tpidr_el0" "tpidrro_el0" "esr_el1" "ifsr32_el2" "dfar_el1" "ifar_el1"
            "par_32" "contextidr_el1" "ttbr1_32" "dacr32_el2");
    }
    all!("tpidr_el0" "tpidrro_el0" "esr_el1" "ifsr32_el2" "dfar_el1" "ifar_el1" "par_el1"
        "contextidr_el1" "ttbr1_el1" "dacr32_el2")
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
    start.x[11] = core::ptr::from_mut(run).expose_provenance() as u32;
    let (action, arguments): (unsafe extern "C" fn(), _) = match run.action {
        Action::Wait(wait) if wait.spoil => (crossing_spoil, [wait.gap, wait.patience, wait.gaps]),
        Action::Wait(wait) => (crossing_spin, [wait.gap, wait.patience, wait.gaps]),
        Action::Call(function) => (crossing_call, [function, 0, 0]),
    };
    run.arguments = arguments;
    start.x[9] = action as *const () as u32;
    start
}

/// A trip that reads all registers into `values`.
pub fn start_read(layout: &Layout, values: u64) -> trip::Start {
    let mut start = alone(layout, crossing_read);
    start.x[2] = values as u32;
    start
}

fn alone(layout: &Layout, entry: unsafe extern "C" fn()) -> trip::Start {
    let mut start = trip::Start::NOWHERE;
    start.sctlr = space::SCTLR & !1;
    start.pc = entry as *const () as u32;
    start.x[6] = layout.write as u32;
    start.x[7] = layout.write_last as u32;
    start.x[8] = layout.read as u32;
    start
}

global_asm!(
    r#"
    .arm
    .section .text.crossing, "ax"
    // Arguments of the code. R6 and R7: code that writes all registers, and the last ones, from the
    // array at R1; R8: code that reads all into the array at R2; R11: the run's number; R9: what to
    // do between writing and reading. System mode's stack pointer stays Supervisor mode's, which the code at
    // the trip's end needs.
    .global crossing_run
crossing_run:
    cps     #0x13
    mov     r12, sp
    cps     #0x1f
    mov     sp, r12
    ldr     r1, [r11, #{values}]
    blx     r6
    add     r0, r11, #{fp}
    bl      fp_load
    ldr     r1, [r11, #{values}]
    blx     r7
    ldr     r2, [r11, #{first}]
    blx     r8
    add     r0, r11, #{fp_first}
    bl      fp_store
    ldr     r1, [r11, #{values}]
    blx     r7
    blx     r9
    str     r0, [r11, #{seen}]
    ldr     r2, [r11, #{second}]
    blx     r8
    add     r0, r11, #{fp_second}
    bl      fp_store
    ldr     r1, [r11, #{before}]
    blx     r6
    ldr     r1, [r11, #{before}]
    blx     r7
    mov     r12, sp
    cps     #0x13
    mov     sp, r12
    cps     #0x1f
    .word   {arrive}

    .global crossing_read
crossing_read:
    blx     r8
    .word   {arrive}

    // As the function below, but also changes a register in between, which the check must find.
    .global crossing_spoil
crossing_spoil:
    mrc     p15, 0, r0, c13, c0, 3
    eor     r0, r0, #0x100
    mcr     p15, 0, r0, c13, c0, 3

    // Waits until the third argument's number of gaps was seen between two reads of the clock, each
    // of as many ticks as the first argument says or more, or until the ticks of the second
    // argument are over. Returns the number of gaps.
    .global crossing_spin
crossing_spin:
    ldr     r1, [r11, #{arguments}]
    ldr     r2, [r11, #{arguments} + 8]
    ldr     r3, [r11, #{arguments} + 16]
    mov     r0, #0
    isb
    mrrc    p15, 1, r4, r5, c14
    add     r2, r2, r4
1:  isb
    mrrc    p15, 1, r10, r5, c14
    sub     r12, r10, r4
    mov     r4, r10
    cmp     r12, r1
    addhs   r0, r0, #1
    cmp     r0, r3
    bhs     2f
    subs    r12, r10, r2
    bmi     1b
2:  bx      lr

    // HVC with the function of the first argument, which does not return.
    .global crossing_call
crossing_call:
    ldr     r0, [r11, #{arguments}]
    .word   0xe1400070              // HVC #0
    bx      lr
    "#,
    values = const offset_of!(Run, values),
    before = const offset_of!(Run, before),
    first = const offset_of!(Run, first),
    second = const offset_of!(Run, second),
    seen = const offset_of!(Run, seen),
    arguments = const offset_of!(Run, arguments),
    fp = const offset_of!(Run, fp),
    fp_first = const offset_of!(Run, fp_first),
    fp_second = const offset_of!(Run, fp_second),
    arrive = const trip::ARRIVE,
);

const _: () = assert!(size_of::<fp::State>() == 272);
