//! Fuzzes every encoding of a register of coprocessors 14 and 15, by a read and a write.

use super::space;
use super::trip::{self, ARRIVE, DATA, End, Kind, Start, UNDEFINED};
use crate::fuzz::coverage::Completeness;
use crate::fuzz::memory::SCRATCH;
use crate::fuzz::random::Random;
use crate::fuzz::{Fuzzer, repair};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
use hanok_guest_runtime::arch::mmu;

/// Encodings of 32 bits: coprocessor, opc1, CRn, CRm and opc2; behind them those of 64 bits:
/// coprocessor, opc1 and CRm.
const SINGLE: usize = 1 << 15;
const PAIRS: usize = 1 << 9;
/// How many encodings there are.
pub const ENCODINGS: usize = SINGLE + PAIRS;
/// How many instructions: a read and a write of each encoding.
const ALL: usize = 2 * ENCODINGS;
/// How many rows of eight encodings there are.
pub const ROWS: u64 = (ENCODINGS / 8) as u64;

/// Words of code for each instruction: the instruction, the restoring of our vectors, the end of
/// the trip.
static STUBS: [[AtomicU32; 4]; ALL] = [const { [const { AtomicU32::new(0) }; 4] }; ALL];
/// The outcome of each instruction; 0: not executed yet.
static OUTCOMES: [AtomicU8; ALL] = [const { AtomicU8::new(0) }; ALL];
/// How often each instruction was executed.
static VISITS: [AtomicU16; ALL] = [const { AtomicU16::new(0) }; ALL];
/// What each identification register returned first; bit 0 of the second word says that the first
/// is valid.
static IDENTITY: [[AtomicU32; 2]; 64] = [const { [const { AtomicU32::new(0) }; 2] }; 64];

const ARRIVED: u8 = 0xff;

/// An encoding, and whether it is read or written.
#[derive(Clone, Copy)]
pub struct Register {
    number: usize,
    read: bool,
}

/// The fields of an encoding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// Coprocessor, opc1, CRn, CRm, opc2.
    Single(u32, u32, u32, u32, u32),
    /// Coprocessor, opc1, CRm.
    Pair(u32, u32, u32),
}

impl core::fmt::Display for Register {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let way = if self.read { "read" } else { "write" };
        match self.fields() {
            Fields::Single(coprocessor, opc1, crn, crm, opc2) => {
                write!(f, "{way} p{coprocessor}, {opc1}, c{crn}, c{crm}, {opc2}")
            }
            Fields::Pair(coprocessor, opc1, crm) => {
                write!(f, "{way} p{coprocessor}, {opc1}, c{crm} (64 bits)")
            }
        }
    }
}

impl Register {
    fn fields(self) -> Fields {
        let bits = self.number as u32;
        if self.number < SINGLE {
            let coprocessor = 14 + (bits >> 14 & 1);
            let (opc1, crn) = (bits >> 11 & 7, bits >> 7 & 15);
            return Fields::Single(coprocessor, opc1, crn, bits >> 3 & 15, bits & 7);
        }
        Fields::Pair(14 + (bits >> 8 & 1), bits >> 4 & 15, bits & 15)
    }

    fn index(self) -> usize {
        usize::from(self.read) * ENCODINGS + self.number
    }

    /// The instruction, with R0, and R1 where it takes two.
    fn instruction(self) -> u32 {
        let read = u32::from(self.read) << 20;
        read | match self.fields() {
            Fields::Single(coprocessor, opc1, crn, crm, opc2) => {
                0xee00_0010 | opc1 << 21 | crn << 16 | coprocessor << 8 | opc2 << 5 | crm
            }
            Fields::Pair(coprocessor, opc1, crm) => {
                0xec41_0000 | coprocessor << 8 | opc1 << 4 | crm
            }
        }
    }

    /// The register controls the translation of our own code.
    fn translates(self) -> bool {
        !self.read
            && matches!(
                self.fields(),
                Fields::Single(15, 0, 2, ..)
                    | Fields::Single(15, _, 3, ..)
                    | Fields::Single(15, 0, 10, 2, _)
                    | Fields::Single(15, 0, 13, 0, 0)
                    | Fields::Pair(15, 0, 2)
            )
    }

    /// An operation on caches, TLBs or translations, by address.
    fn operates(self) -> bool {
        !self.read && matches!(self.fields(), Fields::Single(15, _, 7 | 8, ..))
    }

    /// A register of Hyp mode or Monitor mode: never a guest's (DDI 0406C, B3.17.1). They are
    /// listed by name, since emulators do not decode opc1 everywhere.
    fn is_above(self) -> bool {
        match self.fields() {
            // SCR, SDER, MVBAR.
            Fields::Single(15, 0, crn, crm, opc2) => {
                matches!((crn, crm, opc2), (1, 1, 0 | 1) | (12, 0, 1))
            }
            Fields::Single(15, 4, crn, crm, opc2) => matches!(
                (crn, crm, opc2),
                // VPIDR, VMPIDR; HSCTLR, HACTLR; HCR, HDCR, HCPTR, HSTR, HACR; HTCR, VTCR.
                (0, 0, 0 | 5) | (1, 0, 0 | 1) | (1, 1, 0..=3 | 7) | (2, 0 | 1, 2)
                    // HADFSR, HAIFSR, HSR; HDFAR, HIFAR, HPFAR; ATS1H; TLBs of Hyp mode.
                    | (5, 1, 0 | 1) | (5, 2, 0) | (6, 0, 0 | 2 | 4) | (7, 8, 0 | 1)
                    | (8, 3 | 7, 0 | 1 | 4)
                    // HMAIR, HAMAIR, HVBAR, HTPIDR, CNTHCTL, CNTHP_TVAL, CNTHP_CTL.
                    | (10, 2 | 3, 0 | 1) | (12, 0, 0) | (13, 0, 2) | (14, 1, 0) | (14, 2, 0 | 1)
            ),
            // HTTBR, VTTBR; CNTVOFF, CNTHP_CVAL.
            Fields::Pair(15, opc1, crm) => matches!((opc1, crm), (4 | 6, 2 | 14)),
            _ => false,
        }
    }

    /// The index in the table of identification registers: opc1 0, CRn 0, CRm 0 to 7.
    fn identity(self) -> Option<usize> {
        match self.fields() {
            Fields::Single(15, 0, 0, crm @ 0..=7, opc2) if self.read => {
                Some((crm * 8 + opc2) as usize)
            }
            _ => None,
        }
    }

    /// The registers that the instruction may change.
    fn may_change(self, number: usize, end: &End) -> bool {
        let pair = matches!(self.fields(), Fields::Pair(..));
        self.read && end.arrived() && (number == 0 || pair && number == 1)
    }
}

/// Writes the code of all instructions.
pub fn prepare() {
    /// MCR of R8 to VBAR.
    const SET_VECTORS: u32 = 0xee0c_8f10;
    for (index, stub) in STUBS.iter().enumerate() {
        let register = Register {
            number: index % ENCODINGS,
            read: index >= ENCODINGS,
        };
        let words = [register.instruction(), SET_VECTORS, ARRIVE, ARRIVE];
        for (cell, word) in stub.iter().zip(words) {
            cell.store(word, Relaxed);
        }
    }
    super::code::synchronize_all();
}

/// The fields of encoding `number`.
pub fn fields(number: usize) -> Fields {
    Register { number, read: true }.fields()
}

/// The instruction of the encoding, with R0, and R1 where it takes two.
pub fn instruction(number: usize, read: bool) -> u32 {
    Register { number, read }.instruction()
}

/// That instruction and the end of its trip; R8 holds the vectors' address.
pub fn stub(number: usize, read: bool) -> u32 {
    core::ptr::from_ref(&STUBS[Register { number, read }.index()]).addr() as u32
}

/// Runs a row of eight encodings, each read and written.
pub fn row(fuzzer: &mut Fuzzer<'_>, row: u64, random: &mut Random) {
    for low in 0..8 {
        for read in [true, false] {
            let number = row as usize * 8 + low;
            one(fuzzer, Register { number, read }, random);
        }
    }
}

fn one(fuzzer: &mut Fuzzer<'_>, register: Register, random: &mut Random) {
    let start = begin(register, random);
    // SAFETY: the module's rules on values and on the MMU keep our translation and memory; the
    // next instruction puts VBAR back.
    let end = unsafe { fuzzer.travel(&start) };
    VISITS[register.index()].fetch_add(1, Relaxed);
    restore(fuzzer, register, end);
    judge(fuzzer, register, &start, end);
}

fn begin(register: Register, random: &mut Random) -> Start {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    start.x[8] = trip::vectors() as u32;
    start.pc = core::ptr::from_ref(&STUBS[register.index()]).addr() as u32;
    start.x[0] = match register.fields() {
        Fields::Single(15, 0, 1, 0, 0) => control(random.value() as u32),
        _ if register.operates() => operand(random),
        _ => random.value() as u32,
    };
    if register.translates() || !register.operates() && random.once_in(8) {
        start.sctlr = space::SCTLR & !1;
    }
    start
}

/// The bits of SCTLR that may change while the step's code runs.
fn control(value: u32) -> u32 {
    const M: u32 = 1;
    const V_AND_TE: u32 = 1 << 13 | 1 << 30;
    const EE_WXN_AND_UWXN: u32 = 1 << 25 | 3 << 19;
    let value = value & !V_AND_TE;
    if value & M != 0 {
        value & !EE_WXN_AND_UWXN
    } else {
        value
    }
}

/// An address for an operation by address: it may invalidate what was written there, and nothing
/// else.
fn operand(random: &mut Random) -> u32 {
    match random.below(4) {
        0 => SCRATCH.middle() as u32,
        1 => random.below(0x4000_0000) as u32,
        2 => space::USER_CODE + random.next() as u32 % (1 << 31),
        _ => random.below(1 << 16) as u32,
    }
}

/// Restores what the fuzzer itself needs.
fn restore(fuzzer: &Fuzzer<'_>, register: Register, end: &End) {
    if !end.arrived() {
        return;
    }
    match register.fields() {
        Fields::Single(15, 0, 1 | 13, ..) => space::own_registers(trip::vectors(), fuzzer.this),
        Fields::Single(15, _, 14, ..) | Fields::Pair(15, _, 14) => {
            repair::timers();
            write_sysreg!("cntkctl_el1", 3);
        }
        Fields::Single(15, 0, 4 | 12, ..) => repair::interface(),
        Fields::Pair(15, 1, 2) if !register.read && !mmu::is_short() => {
            write_sysreg!("ttbr1_el1", 0)
        }
        _ => {}
    }
}

/// Checks what must hold whatever the encoding means.
fn judge(fuzzer: &mut Fuzzer<'_>, register: Register, start: &Start, end: &End) {
    for (number, (before, after)) in start.x.iter().zip(&end.x).enumerate() {
        if before != after && !register.may_change(number, end) {
            fuzzer.wrong(format_args!(
                "{register}: R{number} was {before:#x}, is {after:#x}"
            ));
        }
    }
    let known = match end.kind() {
        _ if end.arrived() => true,
        Kind::Synchronous(UNDEFINED) => end.pc() == start.pc,
        Kind::Synchronous(DATA) => register.operates() && end.pc() == start.pc,
        _ => false,
    };
    if !known {
        let from = start.pc;
        fuzzer.wrong(format_args!("{register} at {from:#x}: {end:?}"));
    }
    if register.is_above() && end.kind() != Kind::Synchronous(UNDEFINED) {
        fuzzer.wrong(format_args!("{register}: a higher level's, and {end:?}"));
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
    let first = OUTCOMES[register.index()].swap(outcome, Relaxed);
    if !register.operates() && first != 0 && first != outcome {
        fuzzer.wrong(format_args!(
            "{register}: outcome {outcome:#x}, formerly {first:#x}"
        ));
    }
}

/// An identification register reads the same each time.
fn same(fuzzer: &mut Fuzzer<'_>, register: Register, index: usize, value: u32) {
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
    let (writes, reads) = VISITS.split_at(ENCODINGS);
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
