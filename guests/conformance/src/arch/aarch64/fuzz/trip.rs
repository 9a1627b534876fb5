//! A trip: all registers chosen, an exception return to anywhere, and back with the next
//! exception, of whatever kind, with all registers as they were then.
//!
//! The way back leans on as little as can be, since a trip may leave anything behind: the
//! vectors use no stack, find the CPU's record by MPIDR_EL1, and put the translation back in
//! order before they touch memory. What they need is that VBAR_EL1 is ours, and that our code
//! can be fetched: with the MMU off, or through our own tables.

use super::space;
use crate::fuzz::Call;
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;

/// How many CPUs travel at most: the vectors find the record by Aff0 alone.
const MAX_CPUS: usize = 8;

/// What a trip begins with.
#[derive(Clone)]
#[repr(C)]
pub struct Start {
    /// X0 to X30.
    pub x: [u64; 31],
    /// The address to go to.
    pub pc: u64,
    /// SPSR_EL1: the processor state at that address.
    pub pstate: u64,
    /// SP_EL0.
    pub sp: u64,
    /// SCTLR_EL1.
    pub sctlr: u64,
}

/// The state with which a trip ended.
#[derive(Clone)]
#[repr(C)]
pub struct End {
    /// X0 to X30.
    pub x: [u64; 31],
    /// ELR_EL1.
    pub pc: u64,
    /// SPSR_EL1.
    pub pstate: u64,
    /// SP_EL0.
    pub sp: u64,
    /// ESR_EL1.
    pub esr: u64,
    /// FAR_EL1.
    pub far: u64,
    /// The entry of the vector table that was taken.
    pub vector: u64,
}

impl core::fmt::Debug for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (kind, esr, far, pc) = (self.kind(), self.esr, self.far, self.pc);
        write!(f, "{kind:?}, ESR {esr:#x}, FAR {far:#x}, ELR {pc:#x}")
    }
}

/// What kind of exception ended a trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A synchronous one, of this class (ESR_EL1.EC).
    Synchronous(u8),
    /// IRQ.
    Irq,
    /// FIQ.
    Fiq,
    /// SError.
    SystemError,
}

impl End {
    /// The kind of exception that ended the trip.
    pub fn kind(&self) -> Kind {
        match self.vector & 3 {
            0 => Kind::Synchronous(self.class()),
            1 => Kind::Irq,
            2 => Kind::Fiq,
            _ => Kind::SystemError,
        }
    }

    fn class(&self) -> u8 {
        (self.esr >> 26 & 0x3f) as u8
    }

    /// Returns whether the trip reached its own end: the SVC with the immediate of a trip's end.
    pub fn arrived(&self) -> bool {
        self.vector & 3 == 0 && matches!(self.class(), 0x15 | 0x11) && self.esr & 0xffff == ARRIVED
    }

    /// The fault status code of an abort (DDI 0487, ESR_EL1, ISS of an abort).
    pub fn status(&self) -> u64 {
        self.esr & 0x3f
    }

    /// Returns whether this is the exception that the call must cause in a VM without EL3.
    pub fn is_answer_to(&self, way: Call) -> bool {
        match way {
            Call::Hypervisor => self.arrived(),
            Call::Monitor => self.kind() == Kind::Synchronous(0),
            Call::Supervisor => self.kind() == Kind::Synchronous(0x15),
            Call::Breakpoint => self.kind() == Kind::Synchronous(0x3c),
        }
    }

    /// Returns whether the exception is an abort, by its class.
    pub fn is_abort(&self) -> bool {
        self.vector & 3 == 0 && matches!(self.class(), 0x20 | 0x21 | 0x24 | 0x25)
    }
}

/// Exceptions that the guest itself takes, each of which a run must have seen: their class and a
/// name (DDI 0487, ESR_EL1.EC).
pub const WANTED: &[(u8, &str)] = &[
    (0x00, "undefined"),
    (0x11, "SVC of AArch32"),
    (0x15, "SVC"),
    (0x18, "register trapped"),
    (0x20, "fetch abort of EL0"),
    (0x21, "fetch abort"),
    (0x22, "PC misaligned"),
    (0x24, "data abort of EL0"),
    (0x25, "data abort"),
];

/// The immediate of the SVC that ends a trip.
pub const ARRIVED: u64 = 0x7ea;
/// The class and immediate of that SVC, as ESR_EL1 reports it.
pub const SVC: u32 = 0xd400_0001 | (ARRIVED as u32) << 5;

/// The instruction at a trip's end.
pub const ARRIVE: u32 = SVC;

/// The type of a general register's contents.
pub type Word = u64;

/// As 64 bits.
pub fn wide(word: Word) -> u64 {
    word
}

/// SPSR: EL1 with its own stack pointer, all interrupts masked.
pub const EL1_MASKED: u64 = 0x3c5;
/// SPSR: EL1 with its own stack pointer, interrupts unmasked.
pub const EL1_OPEN: u64 = 0x205;
/// The same, by the name that both architectures use.
pub const MASKED: Word = EL1_MASKED;
/// The same.
pub const OPEN: Word = EL1_OPEN;
/// SPSR: EL1 on SP_EL0, all interrupts masked.
pub const EL1_ON_SP0: u64 = 0x3c4;
/// SPSR: EL0, interrupts unmasked.
pub const EL0_OPEN: u64 = 0x200;
/// SPSR: EL0 in AArch32, interrupts unmasked.
pub const EL0_32_OPEN: u64 = 0x10;
/// PSTATE.T of an SPSR from AArch32.
pub const THUMB: u64 = 1 << 5;

#[repr(C, align(4096))]
struct Record {
    start: Start,
    end: End,
    /// The saved X19 to X30 and SP, and whether a trip is under way.
    host: [u64; 14],
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
            x: [0; 31],
            pc: 0,
            pstate: 0,
            sp: 0,
            esr: 0,
            far: 0,
            vector: 0,
        },
        host: [0; 14],
    };
}

impl Start {
    /// A trip to address 0 with all registers zero.
    pub const NOWHERE: Self = Self {
        x: [0; 31],
        pc: 0,
        pstate: EL1_MASKED,
        sp: 0,
        sctlr: space::SCTLR,
    };
}

const RECORD_BITS: u32 = size_of::<Record>().trailing_zeros();
const _: () = assert!(size_of::<Record>() == 1 << RECORD_BITS);

unsafe extern "C" {
    fn fuzz_enter(record: *mut Record);
    fn fuzz_vectors();
    fn fuzz_spin();
}

/// The address of the trip's exception vectors.
pub fn vectors() -> u64 {
    fuzz_vectors as *const () as u64
}

/// Code that counts X0 down and then ends the trip.
pub fn spin() -> u64 {
    fuzz_spin as *const () as u64
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
extern "C" fn lost() -> ! {
    println!(
        "FAIL fuzz: an exception of its own: esr {:#x}, far {:#x}, elr {:#x} (+{:#x})",
        read_sysreg!("esr_el1"),
        read_sysreg!("far_el1"),
        read_sysreg!("elr_el1"),
        read_sysreg!("elr_el1").wrapping_sub(crate::boot::load_address()),
    );
    crate::psci::system_off()
}

global_asm!(
    r#"
    .macro fuzz_vector kind
    .balign 0x80
    msr     tpidrro_el0, x0
    msr     tpidr_el0, x1
    movz    x1, #{sctlr_low}
    movk    x1, #{sctlr_high}, lsl #16
    mrs     x0, sctlr_el1
    cmp     x0, x1
    b.eq    1f
    movz    x0, #{tcr_0}
    movk    x0, #{tcr_1}, lsl #16
    movk    x0, #{tcr_2}, lsl #32
    msr     tcr_el1, x0
    movz    x0, #{mair}
    msr     mair_el1, x0
    adrp    x0, {root}
    add     x0, x0, :lo12:{root}
    msr     ttbr0_el1, x0
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    msr     sctlr_el1, x1
    isb
1:  mrs     x0, mpidr_el1
    and     x0, x0, #7
    adrp    x1, {records}
    add     x1, x1, :lo12:{records}
    add     x0, x1, x0, lsl #{record_bits}
    str     x2, [x0, #{end} + 0x10]
    mov     x2, #\kind
    b       fuzz_arrive
    .endm

    .section .text.fuzz, "ax"
    .balign 0x800
    .global fuzz_vectors
fuzz_vectors:
    .irp kind, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    fuzz_vector \kind
    .endr

    .balign 0x80
fuzz_arrive:
    add     x1, x0, #{end}
    str     x3, [x1, #0x18]
    stp     x4, x5, [x1, #0x20]
    stp     x6, x7, [x1, #0x30]
    stp     x8, x9, [x1, #0x40]
    stp     x10, x11, [x1, #0x50]
    stp     x12, x13, [x1, #0x60]
    stp     x14, x15, [x1, #0x70]
    stp     x16, x17, [x1, #0x80]
    stp     x18, x19, [x1, #0x90]
    stp     x20, x21, [x1, #0xa0]
    stp     x22, x23, [x1, #0xb0]
    stp     x24, x25, [x1, #0xc0]
    stp     x26, x27, [x1, #0xd0]
    stp     x28, x29, [x1, #0xe0]
    mrs     x3, elr_el1
    stp     x30, x3, [x1, #0xf0]
    mrs     x3, spsr_el1
    mrs     x4, sp_el0
    stp     x3, x4, [x1, #0x100]
    mrs     x3, esr_el1
    mrs     x4, far_el1
    stp     x3, x4, [x1, #0x110]
    str     x2, [x1, #0x120]
    mrs     x3, tpidrro_el0
    mrs     x4, tpidr_el0
    stp     x3, x4, [x1]
    add     x1, x0, #{host}
    ldp     x19, x20, [x1]
    ldp     x21, x22, [x1, #0x10]
    ldp     x23, x24, [x1, #0x20]
    ldp     x25, x26, [x1, #0x30]
    ldp     x27, x28, [x1, #0x40]
    ldp     x29, x30, [x1, #0x50]
    ldp     x2, x3, [x1, #0x60]
    str     xzr, [x1, #0x68]
    mov     sp, x2
    cbz     x3, {lost}
    ret

    .global fuzz_enter
fuzz_enter:
    add     x1, x0, #{host}
    stp     x19, x20, [x1]
    stp     x21, x22, [x1, #0x10]
    stp     x23, x24, [x1, #0x20]
    stp     x25, x26, [x1, #0x30]
    stp     x27, x28, [x1, #0x40]
    stp     x29, x30, [x1, #0x50]
    mov     x2, sp
    mov     x3, #1
    stp     x2, x3, [x1, #0x60]
    ldp     x2, x3, [x0, #0xf8]
    msr     elr_el1, x2
    msr     spsr_el1, x3
    ldp     x2, x3, [x0, #0x108]
    msr     sp_el0, x2
    mrs     x2, sctlr_el1
    cmp     x2, x3
    b.eq    1f
    msr     sctlr_el1, x3
    isb
1:  ldp     x2, x3, [x0, #0x10]
    ldp     x4, x5, [x0, #0x20]
    ldp     x6, x7, [x0, #0x30]
    ldp     x8, x9, [x0, #0x40]
    ldp     x10, x11, [x0, #0x50]
    ldp     x12, x13, [x0, #0x60]
    ldp     x14, x15, [x0, #0x70]
    ldp     x16, x17, [x0, #0x80]
    ldp     x18, x19, [x0, #0x90]
    ldp     x20, x21, [x0, #0xa0]
    ldp     x22, x23, [x0, #0xb0]
    ldp     x24, x25, [x0, #0xc0]
    ldp     x26, x27, [x0, #0xd0]
    ldp     x28, x29, [x0, #0xe0]
    ldr     x30, [x0, #0xf0]
    ldp     x0, x1, [x0]
    eret

    .global fuzz_spin
fuzz_spin:
2:  cbz     x0, 3f
    sub     x0, x0, #1
    b       2b
3:  svc     #{arrived}
    "#,
    sctlr_low = const space::SCTLR & 0xffff,
    sctlr_high = const space::SCTLR >> 16,
    tcr_0 = const space::TCR & 0xffff,
    tcr_1 = const space::TCR >> 16 & 0xffff,
    tcr_2 = const space::TCR >> 32 & 0xffff,
    mair = const space::MEMORY_KINDS,
    root = sym space::ROOT,
    records = sym RECORDS,
    record_bits = const RECORD_BITS,
    end = const offset_of!(Record, end),
    host = const offset_of!(Record, host),
    arrived = const ARRIVED,
    lost = sym lost,
);

const _: () = assert!(offset_of!(Record, start) == 0);
const _: () = assert!(offset_of!(Start, pc) == 0xf8 && offset_of!(Start, sctlr) == 0x110);
const _: () = assert!(offset_of!(End, pc) == 0xf8 && offset_of!(End, vector) == 0x120);
const _: () = assert!(space::SCTLR >> 32 == 0 && space::TCR >> 48 == 0);
const _: () = assert!(space::MEMORY_KINDS >> 16 == 0);
