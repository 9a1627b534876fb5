//! Fuzzes every encoding of a system register or system instruction, by a read and a write.

use super::space;
use super::trip::{self, End, Kind, SVC, Start};
use crate::fuzz::coverage::Completeness;
use crate::fuzz::memory::SCRATCH;
use crate::fuzz::places::{REACH, limit};
use crate::fuzz::random::Random;
use crate::fuzz::{Fuzzer, repair};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// How many rows of system registers there are: op0, op1, CRn and CRm.
pub const ROWS: u64 = 1 << 13;
/// How many encodings there are: op0, op1, CRn, CRm and op2.
const ENCODINGS: usize = 1 << 16;
/// How many instructions: a read and a write of each encoding.
const ALL: usize = 2 * ENCODINGS;

/// Words of code for each instruction: the MSR or MRS, the restoring of our vectors, the end of the
/// trip.
static STUBS: [[AtomicU32; 4]; ALL] = [const { [const { AtomicU32::new(0) }; 4] }; ALL];
/// The outcome of each instruction; 0: not executed yet.
static OUTCOMES: [AtomicU8; ALL] = [const { AtomicU8::new(0) }; ALL];
/// How often each instruction was executed.
static VISITS: [AtomicU16; ALL] = [const { AtomicU16::new(0) }; ALL];
/// What each identification register returned first; bit 0 of the second word says that the first
/// is valid.
static IDENTITY: [[AtomicU64; 2]; 64] = [const { [const { AtomicU64::new(0) }; 2] }; 64];

const ARRIVED: u8 = 0xff;

/// An encoding, and whether it is read or written.
#[derive(Clone, Copy)]
pub struct Register {
    bits: u16,
    read: bool,
}

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let way = if self.read { "read" } else { "write" };
        let (op0, op1, crn, crm, op2) = self.fields();
        write!(f, "{way} S{op0}_{op1}_C{crn}_C{crm}_{op2}")
    }
}

impl Register {
    fn fields(self) -> (u16, u16, u16, u16, u16) {
        let bits = self.bits;
        (
            bits >> 14,
            bits >> 11 & 7,
            bits >> 7 & 15,
            bits >> 3 & 15,
            bits & 7,
        )
    }

    fn index(self) -> usize {
        usize::from(self.read) << 16 | usize::from(self.bits)
    }

    /// The instruction, with X0; with the zero register where only that is allocated (hints,
    /// barriers, PSTATE fields: C5.2 and C6.2 of DDI 0487).
    fn instruction(self) -> u32 {
        let (op0, _, crn, ..) = self.fields();
        let operand = if op0 == 0 && !self.read && crn != 1 {
            31
        } else {
            0
        };
        0xd500_0000 | u32::from(self.read) << 21 | u32::from(self.bits) << 5 | operand
    }

    /// WFE, WFI, and those with a timeout.
    fn waits(self) -> bool {
        !self.read && matches!(self.fields(), (0, 3, 2, 0, 2 | 3) | (0, 3, 1, 0, _))
    }

    /// The register controls the translation of our own code.
    fn translates(self) -> bool {
        !self.read && matches!(self.fields(), (3, 0, 2, 0, _) | (3, 0, 10, 2, _))
    }

    /// A register of EL2 or EL3, or one of EL1 by its name for EL2: never a guest's (DDI 0487,
    /// D24.1).
    fn is_above(self) -> bool {
        matches!(self.fields(), (3, 4..=7, ..))
    }

    /// Registers that the instruction may change besides its operand: hints that sign pointers.
    fn may_change(self, number: usize, end: &End) -> bool {
        let (op0, _, crn, ..) = self.fields();
        match number {
            0 => self.read && end.arrived(),
            16 | 17 | 30 => op0 == 0 && crn == 2,
            _ => false,
        }
    }

    /// The index in the table of identification registers: op0 3, op1 0, CRn 0, CRm 0 to 7.
    fn identity(self) -> Option<usize> {
        let (op0, op1, crn, crm, op2) = self.fields();
        let there = self.read && (op0, op1, crn) == (3, 0, 0) && crm < 8;
        there.then_some(usize::from(crm * 8 + op2))
    }
}

/// Writes the code of all instructions.
pub fn prepare() {
    const SET_VECTORS: u32 = 0xd518_c000 | 28;
    for (index, stub) in STUBS.iter().enumerate() {
        let register = Register {
            bits: index as u16,
            read: index >= ENCODINGS,
        };
        let words = [register.instruction(), SET_VECTORS, SVC, SVC];
        for (cell, word) in stub.iter().zip(words) {
            cell.store(word, Relaxed);
        }
    }
    super::code::synchronize_all();
}

/// The code for this encoding, with X0, and the end of its trip; X28 holds the vectors' address.
pub fn stub(bits: u16, read: bool) -> u64 {
    core::ptr::from_ref(&STUBS[Register { bits, read }.index()]) as u64
}

/// Runs a row of eight encodings, each read and written.
pub fn row(fuzzer: &mut Fuzzer<'_>, row: u64, random: &mut Random) {
    for op2 in 0..8 {
        for read in [true, false] {
            let bits = (row << 3 | op2) as u16;
            one(fuzzer, Register { bits, read }, random);
        }
    }
}

fn one(fuzzer: &mut Fuzzer<'_>, register: Register, random: &mut Random) {
    let start = begin(register, random);
    if register.waits() {
        repair::wakeable();
        repair::alarm(20);
    }
    // SAFETY: the module's rules on values and on the MMU keep our translation and memory; the
    // next instruction puts VBAR_EL1 back.
    let end = unsafe { fuzzer.travel(&start) };
    VISITS[register.index()].fetch_add(1, Relaxed);
    restore(fuzzer, register, end);
    judge(fuzzer, register, &start, end);
}

fn begin(register: Register, random: &mut Random) -> Start {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next());
    start.x[28] = trip::vectors();
    start.pc = core::ptr::from_ref(&STUBS[register.index()]) as u64;
    start.sp = random.next();
    let (op0, op1, crn, crm, op2) = register.fields();
    start.x[0] = match (op0, op1, crn, crm, op2) {
        (1, ..) => operand(random),
        (3, 0, 1, 0, 0) => control(random.value()),
        _ => random.value(),
    };
    if register.translates() || op0 == 3 && !register.read && random.once_in(8) {
        start.sctlr = space::SCTLR & !1;
    }
    start
}

/// The bits of SCTLR_EL1 that may change while the step's code runs.
fn control(value: u64) -> u64 {
    const M: u64 = 1;
    const EE_AND_WXN: u64 = 1 << 25 | 1 << 19;
    if value & M != 0 {
        value & !EE_AND_WXN
    } else {
        value
    }
}

/// Restores what the fuzzer itself needs.
fn restore(fuzzer: &Fuzzer<'_>, register: Register, end: &End) {
    if !matches!(end.kind(), Kind::Synchronous(_)) {
        repair::drain();
    }
    if register.waits() {
        repair::timers();
    }
    let (op0, op1, crn, crm, op2) = register.fields();
    let interface = matches!(
        (op0, op1, crn, crm),
        (3, 0, 4, 6, ..) | (3, 0, 12, 8..=12, ..)
    );
    if !end.arrived() || register.read && !interface {
        return;
    }
    match (op0, op1, crn, crm, op2) {
        _ if interface => {
            if register.read && end.x[0] < 1020 {
                finish(end.x[0]);
            }
            repair::interface();
        }
        (3, 0, 1, ..) => write_sysreg!("cpacr_el1", 3 << 20),
        (3, 0, 13, ..) => write_sysreg!("tpidr_el1", fuzzer.this),
        (3, 0 | 3, 14, ..) => {
            repair::timers();
            write_sysreg!("cntkctl_el1", 3);
        }
        (2, 0, ..) => write_sysreg!("mdscr_el1", 0),
        _ => {}
    }
}

/// Ends an interrupt that the step may have acknowledged.
fn finish(id: u64) {
    if id < 32 {
        crate::gic::set_bit(crate::gic::ICACTIVER, id as u32);
    } else {
        crate::gic::end(id);
    }
}

/// Checks what must hold whatever the encoding means.
fn judge(fuzzer: &mut Fuzzer<'_>, register: Register, start: &Start, end: &End) {
    for (number, (before, after)) in start.x.iter().zip(&end.x).enumerate() {
        if before != after && !register.may_change(number, end) {
            fuzzer.wrong(format_args!(
                "{register}: X{number} was {before:#x}, is {after:#x}"
            ));
        }
    }
    let (op0, _, crn, ..) = register.fields();
    let known = match end.kind() {
        _ if end.arrived() => true,
        // The exceptions allowed: UNDEFINED; FP, SVE and SME disabled; 64-byte accesses disabled.
        Kind::Synchronous(0x00 | 0x07 | 0x19 | 0x1d | 0x0a) => true,
        Kind::Synchronous(0x25) => op0 == 1,
        // FEAT_IDST: an identification register that is not there is trapped, not undefined.
        Kind::Synchronous(0x18) => (op0, crn) == (3, 0),
        Kind::Irq | Kind::Fiq => register.waits() || op0 == 0 || op0 == 3,
        _ => false,
    };
    let here = end.arrived() || !matches!(end.kind(), Kind::Synchronous(_)) || end.pc == start.pc;
    if !known || !here {
        let (kind, esr, pc) = (end.kind(), end.esr, end.pc.wrapping_sub(start.pc));
        fuzzer.wrong(format_args!(
            "{register}: {kind:?}, ESR {esr:#x}, PC +{pc:#x}"
        ));
    }
    if register.is_above() && end.kind() != Kind::Synchronous(0) {
        fuzzer.wrong(format_args!(
            "{register}: a higher level's, and {:?}",
            end.kind()
        ));
    }
    stays(fuzzer, register, end);
    if let Some(index) = register.identity().filter(|_| end.arrived()) {
        same(fuzzer, register, index, end.x[0]);
    }
}

/// A register that exists keeps existing, and one that does not exist never appears.
fn stays(fuzzer: &mut Fuzzer<'_>, register: Register, end: &End) {
    let outcome = match end.kind() {
        _ if end.arrived() => ARRIVED,
        Kind::Synchronous(class) => class + 1,
        _ => return,
    };
    let (op0, ..) = register.fields();
    let first = OUTCOMES[register.index()].swap(outcome, Relaxed);
    if op0 != 1 && first != 0 && first != outcome {
        fuzzer.wrong(format_args!(
            "{register}: outcome {outcome:#x}, formerly {first:#x}"
        ));
    }
}

/// An identification register reads the same each time.
fn same(fuzzer: &mut Fuzzer<'_>, register: Register, index: usize, value: u64) {
    let [first, known] = &IDENTITY[index];
    if known.swap(1, Relaxed) == 0 {
        first.store(value, Relaxed);
    } else if first.load(Relaxed) != value {
        let first = first.load(Relaxed);
        fuzzer.wrong(format_args!("{register}: {value:#x}, formerly {first:#x}"));
    }
}

/// Prints how often the encodings were executed. The coverage is complete if each was executed at least `least`
/// times.
pub fn print(least: u16) -> Completeness {
    let (reads, writes) = (&VISITS[ENCODINGS..], &VISITS[..ENCODINGS]);
    let lowest = |visits: &[AtomicU16]| visits.iter().map(|count| count.load(Relaxed)).min();
    let (fewest_reads, fewest_writes) = (lowest(reads), lowest(writes));
    let there = |outcomes: &[AtomicU8]| {
        let arrived = |outcome: &&AtomicU8| outcome.load(Relaxed) == ARRIVED;
        outcomes.iter().filter(arrived).count()
    };
    println!(
        "fuzz: encodings {ENCODINGS}, each read {} times or more ({} answer), written {} times or \
         more ({} answer)",
        fewest_reads.unwrap_or(0),
        there(&OUTCOMES[ENCODINGS..]),
        fewest_writes.unwrap_or(0),
        there(&OUTCOMES[..ENCODINGS]),
    );
    Completeness::of(fewest_reads.min(fewest_writes) >= Some(least))
}

/// A virtual address for an instruction that may clear the memory there.
fn operand(random: &mut Random) -> u64 {
    let value = match random.below(4) {
        0 => SCRATCH.middle(),
        1 => space::everywhere(random.next() % limit()),
        2 => random.below(0x4000_0000),
        _ => random.value(),
    };
    spare(value)
}

/// The address given, or an address of free memory where the one given is memory.
fn spare(address: u64) -> u64 {
    const SCRATCHED: u64 = REACH;
    let physical = address % limit();
    let middle = SCRATCH.middle();
    let ours = (0x4000_0000..0x40_0000_0000).contains(&physical);
    let ours = ours || (space::USER_CODE..space::USER_DEVICES).contains(&physical);
    if !ours || (middle - SCRATCHED / 2..middle + SCRATCHED / 2).contains(&address) {
        return address;
    }
    middle
}
