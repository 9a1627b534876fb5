//! A trip: all registers chosen, an exception return to System or User mode anywhere, and back
//! with the next exception, of whatever kind, with all registers as they were then.
//!
//! The way back leans on as little as can be, since a trip may leave anything behind: the
//! exceptions' modes have the CPU's record as their stack pointer, which neither System nor User
//! mode can change, and the vectors put the endianness and the translation in order before they
//! touch memory. What they need is that VBAR is ours, and that our code can be fetched: with the
//! MMU off, or through our own tables.

use super::space;
use crate::fuzz::Call;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use hanok_guest_runtime::arch::{mmu, short};

/// How many CPUs travel at most: the vectors find the record by Aff0 alone.
const MAX_CPUS: usize = 8;

/// What a general register holds.
pub type Word = u32;

/// As 64 bits.
pub fn wide(word: Word) -> u64 {
    word.into()
}

/// The state with which a trip begins.
#[derive(Clone)]
#[repr(C)]
pub struct Start {
    /// R0 to R12, SP, LR.
    pub x: [u32; 15],
    /// The address to go to.
    pub pc: u32,
    /// CPSR at that address: System or User mode.
    pub pstate: u32,
    /// SCTLR.
    pub sctlr: u32,
}

/// The state with which a trip ended.
#[derive(Clone)]
#[repr(C)]
pub struct End {
    /// R0 to R12, SP, LR.
    pub x: [u32; 15],
    /// LR of the mode that took the exception.
    link: u32,
    /// SPSR of that mode.
    pub pstate: u32,
    /// DFSR, DFAR, IFSR, IFAR.
    faults: [u32; 4],
    /// The entry of the vector table that was taken.
    pub vector: u32,
}

/// What kind of exception ended a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A synchronous one, of the class that AArch64 gives it (DDI 0487, ESR_EL1.EC).
    Synchronous(u8),
    /// IRQ.
    Irq,
    /// FIQ.
    Fiq,
    /// An asynchronous abort.
    SystemError,
}

/// UNDEFINED.
pub const UNDEFINED: u8 = 0x00;
/// SVC.
pub const SVC_CLASS: u8 = 0x11;
/// A prefetch abort of User mode.
pub const FETCH_USER: u8 = 0x20;
/// A prefetch abort.
pub const FETCH: u8 = 0x21;
/// A data abort of User mode.
pub const DATA_USER: u8 = 0x24;
/// A data abort.
pub const DATA: u8 = 0x25;
/// A vector that no exception of PL1 leads to.
const NEVER: u8 = 0x3f;

/// Exceptions that the guest itself takes, each of which a run must have seen: their class and a
/// name.
pub const WANTED: &[(u8, &str)] = &[
    (UNDEFINED, "undefined"),
    (SVC_CLASS, "SVC"),
    (FETCH_USER, "prefetch abort of User mode"),
    (FETCH, "prefetch abort"),
    (DATA_USER, "data abort of User mode"),
    (DATA, "data abort"),
];

/// CPSR.T.
pub const THUMB: u32 = 1 << 5;
/// CPSR.M.
const MODE: u32 = 0x1f;
/// The fault status codes with long descriptors (DDI 0406C, B3.13.3), which those of short ones become.
const STATUS: u32 = 0x3f;
/// No code of either format.
const NO_STATUS: u32 = 0;
const ASYNCHRONOUS: u32 = 0x11;
const DEBUG_EVENT: u32 = 0x22;

impl End {
    /// Returns whether the exception came from User mode.
    pub fn was_user(&self) -> bool {
        self.pstate & MODE == USER_OPEN
    }

    fn thumb(&self) -> bool {
        self.pstate & THUMB != 0
    }

    /// The address of the instruction; B1.8.3 says how far behind it the link register is.
    pub fn pc(&self) -> u32 {
        let behind = match self.vector {
            1 | 2 if self.thumb() => 2,
            4 => 8,
            _ => 4,
        };
        self.link.wrapping_sub(behind)
    }

    /// The kind of exception that ended the trip.
    pub fn kind(&self) -> Kind {
        let of =
            |user, privileged| Kind::Synchronous(if self.was_user() { user } else { privileged });
        match self.vector {
            1 => Kind::Synchronous(UNDEFINED),
            2 => Kind::Synchronous(SVC_CLASS),
            3 => of(FETCH_USER, FETCH),
            4 if self.status() == ASYNCHRONOUS => Kind::SystemError,
            4 => of(DATA_USER, DATA),
            6 => Kind::Irq,
            7 => Kind::Fiq,
            _ => Kind::Synchronous(NEVER),
        }
    }

    /// Returns whether the trip reached its own end: the SVC at a trip's end, in our own code.
    pub fn arrived(&self) -> bool {
        let pc = self.pc();
        let ours = crate::boot::image().contains(pc.into()) || space::is_user_code(pc);
        if self.vector != 2 || !ours {
            return false;
        }
        // SAFETY: the CPU has just run the instruction there, in memory that PL1 reads, too; a half
        // of it is aligned in either state.
        let halves = [0, 2].map(|half| unsafe { ((pc + half) as *const u16).read_volatile() });
        if self.thumb() {
            halves[0] == ARRIVE_THUMB
        } else {
            u32::from(halves[1]) << 16 | u32::from(halves[0]) == ARRIVE
        }
    }

    /// The fault status code of an abort.
    pub fn status(&self) -> u32 {
        let register = match self.vector {
            3 => self.faults[2],
            _ => self.faults[0],
        };
        if !mmu::is_short() {
            return register & STATUS;
        }
        let short = register & 0xf | (register & 1 << 10) >> 6;
        short::long_status(short.into()).map_or(NO_STATUS, |status| status as u32)
    }

    /// The address of an abort: DFAR, or IFAR.
    pub fn fault_address(&self) -> u32 {
        self.faults[if self.vector == 3 { 3 } else { 1 }]
    }

    /// Returns whether a data abort was a store's: DFSR.WnR.
    pub fn is_write(&self) -> bool {
        self.faults[0] >> 11 & 1 != 0
    }

    /// Returns whether the exception is a synchronous abort.
    pub fn is_abort(&self) -> bool {
        matches!(self.vector, 3 | 4) && self.kind() != Kind::SystemError
    }

    /// Returns whether this is the exception that the call must cause in a VM without Monitor mode.
    pub fn is_answer_to(&self, way: Call) -> bool {
        match way {
            Call::Hypervisor => self.arrived(),
            Call::Monitor => self.vector == 1,
            Call::Supervisor => self.vector == 2,
            Call::Breakpoint => self.vector == 3 && self.status() == DEBUG_EVENT,
        }
    }
}

impl core::fmt::Debug for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (kind, pc, cpsr) = (self.kind(), self.pc(), self.pstate);
        let [dfsr, dfar, ifsr, ifar] = self.faults;
        write!(
            f,
            "{kind:?}, PC {pc:#x}, CPSR {cpsr:#x}, DFSR {dfsr:#x}, DFAR {dfar:#x}, IFSR {ifsr:#x}, \
             IFAR {ifar:#x}"
        )
    }
}

/// The instruction at a trip's end: SVC, with an immediate that no step chooses.
pub const ARRIVE: u32 = 0xefff_dfea;
/// As T32 its upper and lower halfword are the same instruction, for code that works in both
/// states.
pub const ARRIVE_THUMB: u16 = 0xdfea;

/// CPSR: System mode, all interrupts masked.
pub const MASKED: Word = 0x1df;
/// CPSR: System mode, interrupts unmasked.
pub const OPEN: Word = 0x11f;
/// CPSR: User mode, interrupts unmasked.
pub const USER_OPEN: Word = 0x10;
/// CPSR: User mode, all interrupts masked.
pub const USER_MASKED: Word = 0x1d0;

#[repr(C, align(512))]
struct Record {
    end: End,
    start: Start,
    /// The saved R4 to R11, SP and LR, whether a trip is under way, and TPIDRPRW.
    host: [u32; 12],
}

#[repr(C)]
struct Records(UnsafeCell<[Record; MAX_CPUS]>);

// SAFETY: each CPU uses its own record alone.
unsafe impl Sync for Records {}

static RECORDS: Records = Records(UnsafeCell::new([const { Record::NEW }; MAX_CPUS]));

impl Record {
    const NEW: Self = Self {
        start: Start::NOWHERE,
        end: End {
            x: [0; 15],
            link: 0,
            pstate: 0,
            faults: [0; 4],
            vector: 0,
        },
        host: [0; 12],
    };
}

impl Start {
    /// A trip to address 0 with all registers zero.
    pub const NOWHERE: Self = Self {
        x: [0; 15],
        pc: 0,
        pstate: MASKED,
        sctlr: space::SCTLR,
    };
}

unsafe extern "C" {
    fn fuzz_enter(record: *mut Record);
    fn fuzz_vectors();
    fn fuzz_vectors_short();
    fn fuzz_spin();
}

/// The address of the trip's exception vectors: those that put the translation by the descriptors in use in
/// order.
pub fn vectors() -> u64 {
    if mmu::is_short() {
        fuzz_vectors_short as *const () as u64
    } else {
        fuzz_vectors as *const () as u64
    }
}

/// Code that counts R0 down and then ends the trip.
pub fn spin() -> u32 {
    fuzz_spin as *const () as u32
}

/// Makes the trip and returns how it ended.
pub unsafe fn travel(start: &Start) -> &'static End {
    let own = read_sysreg!("mpidr_el1") as usize & 0xff;
    // SAFETY: this CPU's own record; the last trip's end is not looked at any more once the next
    // one begins (one caller, which keeps no reference that long); the entry code saves what the
    // compiler relies on, and the vectors bring it back.
    unsafe {
        let record = RECORDS.0.get().cast::<Record>().add(own % MAX_CPUS);
        (*record).start = start.clone();
        fuzz_enter(record);
        &(*record).end
    }
}

/// Reports an exception outside a trip: the fuzzer's own fault, or its memory was changed from
/// outside.
extern "C" fn lost(record: *const Record) -> ! {
    // SAFETY: the record of this CPU, which the vectors have just filled.
    let end = unsafe { &(*record).end };
    let offset = u64::from(end.pc()).wrapping_sub(crate::boot::load_address());
    println!("FAIL fuzz: an exception of its own: {end:?} (+{offset:#x})");
    crate::psci::system_off()
}

global_asm!(
    r#"
    .arm
    .macro fuzz_entry kind, arrive
    setend  le
    mcr     p15, 0, r0, c13, c0, 3  // TPIDRURO
    mcr     p15, 0, r1, c13, c0, 2  // TPIDRURW
    mcr     p15, 0, lr, c13, c0, 4  // TPIDRPRW, which is put back
    mov     r0, #\kind
    b       \arrive
    .endm

    .macro fuzz_table name, arrive
    .balign 32
    .global \name
\name:
    b       0f
    b       1f
    b       2f
    b       3f
    b       4f
    b       5f
    b       6f
    b       7f
0:  fuzz_entry 0, \arrive
1:  fuzz_entry 1, \arrive
2:  fuzz_entry 2, \arrive
3:  fuzz_entry 3, \arrive
4:  fuzz_entry 4, \arrive
5:  fuzz_entry 5, \arrive
6:  fuzz_entry 6, \arrive
7:  fuzz_entry 7, \arrive
    .endm

    // Runs in the exception's mode, whose stack pointer points to the record, with the vector's number
    // in r0. No memory is accessed until the translation is ours again, as \mend makes it.
    .macro fuzz_arrive name, mend
\name:
    mrc     p15, 0, r1, c1, c0, 0   // SCTLR
    movw    lr, #{sctlr_low}
    movt    lr, #{sctlr_high}
    eors    r1, r1, lr
    beq     fuzz_store
    b       \mend
    .endm

    .section .text.fuzz, "ax"
    fuzz_table fuzz_vectors, fuzz_arrive_long
    fuzz_table fuzz_vectors_short, fuzz_arrive_short
    fuzz_arrive fuzz_arrive_long, fuzz_mend
    fuzz_arrive fuzz_arrive_short, fuzz_mend_short

fuzz_store:
    mrc     p15, 0, r1, c13, c0, 2
    str     r0, [sp, #{vector}]
    mrc     p15, 0, r0, c13, c0, 3
    stmia   sp, {{r0-r14}}^         // of User mode
    nop
    mrc     p15, 0, r0, c13, c0, 4  // the link register
    str     r0, [sp, #{link}]
    mrs     r0, spsr
    str     r0, [sp, #{pstate}]
    mrc     p15, 0, r0, c5, c0, 0   // DFSR
    mrc     p15, 0, r1, c6, c0, 0   // DFAR
    mrc     p15, 0, r2, c5, c0, 1   // IFSR
    mrc     p15, 0, r3, c6, c0, 2   // IFAR
    add     r4, sp, #{faults}
    stmia   r4, {{r0-r3}}
    mov     r0, sp
    cps     #0x1f
    clrex
    add     r1, r0, #{host}
    ldmia   r1, {{r4-r11}}
    ldr     sp, [r1, #32]
    ldr     lr, [r1, #36]
    ldr     r2, [r1, #44]
    mcr     p15, 0, r2, c13, c0, 4
    ldr     r2, [r1, #40]
    mov     r3, #0
    str     r3, [r1, #40]
    cmp     r2, #0
    beq     {lost}
    bx      lr

fuzz_mend:
    movw    r1, #{tcr_low}
    movt    r1, #{tcr_high}
    mcr     p15, 0, r1, c2, c0, 2   // TTBCR
    movw    r1, #{mair}
    mcr     p15, 0, r1, c10, c2, 0  // MAIR0
    mov     r1, #0
    mcr     p15, 0, r1, c10, c2, 1  // MAIR1
    mcr     p15, 0, r1, c13, c0, 0  // FCSEIDR, where there is one
    movw    lr, #:lower16:{root}
    movt    lr, #:upper16:{root}
    mcrr    p15, 0, lr, r1, c2      // TTBR0
    isb
fuzz_mended:
    mcr     p15, 0, r1, c8, c7, 0   // TLBIALL
    dsb
    isb
    movw    lr, #{sctlr_low}
    movt    lr, #{sctlr_high}
    mcr     p15, 0, lr, c1, c0, 0
    isb
    b       fuzz_store

fuzz_mend_short:
    mov     r1, #{domains}
    mcr     p15, 0, r1, c3, c0, 0   // DACR
    mov     r1, #0
    mcr     p15, 0, r1, c2, c0, 2   // TTBCR
    mcr     p15, 0, r1, c13, c0, 0  // FCSEIDR, where there is one
    movw    lr, #:lower16:{root_short}
    movt    lr, #:upper16:{root_short}
    orr     lr, lr, #{walks}
    mcr     p15, 0, lr, c2, c0, 0   // TTBR0
    isb
    b       fuzz_mended

    .macro own_stack mode
    cps     #\mode
    mov     sp, r0
    .endm

    .global fuzz_enter
fuzz_enter:
    add     r1, r0, #{host}
    stmia   r1, {{r4-r11}}
    str     sp, [r1, #32]
    str     lr, [r1, #36]
    mov     r2, #1
    str     r2, [r1, #40]
    mrc     p15, 0, r2, c13, c0, 4
    str     r2, [r1, #44]
    own_stack 0x11
    own_stack 0x12
    own_stack 0x17
    own_stack 0x1b
    own_stack 0x13
    add     lr, r0, #{start}
    ldr     r1, [lr, #68]           // SCTLR
    mrc     p15, 0, r2, c1, c0, 0
    cmp     r1, r2
    beq     2f
    mcr     p15, 0, r1, c1, c0, 0
    isb
2:  ldr     r1, [lr, #64]
    msr     spsr_cxsf, r1
    ldmia   lr, {{r0-r14}}^         // of User mode
    nop
    ldr     lr, [lr, #60]
    movs    pc, lr

    .global fuzz_spin
fuzz_spin:
2:  cmp     r0, #0
    subne   r0, r0, #1
    bne     2b
    .word   {arrive}
    "#,
    sctlr_low = const space::SCTLR & 0xffff,
    sctlr_high = const space::SCTLR >> 16,
    tcr_low = const space::long::TCR & 0xffff,
    tcr_high = const space::long::TCR >> 16,
    mair = const crate::mmu::MAIR,
    root = sym space::long::ROOT,
    root_short = sym space::short::ROOT,
    domains = const space::short::DOMAINS,
    walks = const space::short::WALKS,
    vector = const offset_of!(End, vector),
    link = const offset_of!(End, link),
    pstate = const offset_of!(End, pstate),
    faults = const offset_of!(End, faults),
    start = const offset_of!(Record, start),
    host = const offset_of!(Record, host),
    arrive = const ARRIVE,
    lost = sym lost,
);

const _: () = assert!(offset_of!(Record, end) == 0 && offset_of!(End, x) == 0);
const _: () = assert!(offset_of!(Start, pc) == 60 && offset_of!(Start, sctlr) == 68);
const _: () = assert!(crate::mmu::MAIR >> 16 == 0 && size_of::<Record>() == 512);
