//! Instructions encoded at run time, because an assembler would refuse them.

use crate::cpu::{self, MAX_CPUS};
use crate::probe::Fault;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many words the buffer holds, the return included.
const WORDS: usize = 16;
/// UDF: permanently undefined (DDI 0406C, A8.8.247).
pub const UNDEFINED: u32 = 0xe7f0_00f0;
/// LDRD R2, R3, [R0].
pub const LOAD_PAIR: u32 = 0xe1c0_20d0;
/// BX LR, in A32 and in T32.
const RETURN: u32 = 0xe12f_ff1e;
const RETURN_THUMB: u16 = 0x4770;

#[repr(C, align(64))]
struct Buffer([AtomicU32; WORDS]);

static BUFFERS: [Buffer; MAX_CPUS] =
    [const { Buffer([const { AtomicU32::new(0) }; WORDS]) }; MAX_CPUS];

/// A register of a coprocessor (DDI 0406C, A8.8.98 and A8.8.99).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// The coprocessor.
    pub coprocessor: u32,
    /// opc1.
    pub opc1: u32,
    /// CRn.
    pub crn: u32,
    /// CRm.
    pub crm: u32,
    /// opc2.
    pub opc2: u32,
}

impl Register {
    /// MRC to R0.
    pub fn read(self) -> u32 {
        self.write() | 1 << 20
    }

    /// MCR of R0.
    pub fn write(self) -> u32 {
        0xee00_0010
            | self.opc1 << 21
            | self.crn << 16
            | self.coprocessor << 8
            | self.opc2 << 5
            | self.crm
    }
}

/// A register of the system control coprocessor.
pub const fn cp15(opc1: u32, crn: u32, crm: u32, opc2: u32) -> Register {
    Register {
        coprocessor: 15,
        opc1,
        crn,
        crm,
        opc2,
    }
}

/// A register of the debug, trace and Jazelle coprocessor.
pub const fn cp14(opc1: u32, crn: u32, crm: u32, opc2: u32) -> Register {
    Register {
        coprocessor: 14,
        ..cp15(opc1, crn, crm, opc2)
    }
}

/// MRRC of R0 and R1, from coprocessor 15.
pub fn mrrc(opc1: u32, crm: u32) -> u32 {
    0xec51_0f00 | opc1 << 4 | crm
}

/// MCRR of R0 and R1, to coprocessor 15.
pub fn mcrr(opc1: u32, crm: u32) -> u32 {
    mrrc(opc1, crm) & !(1 << 20)
}

/// Runs `words` with `r0` in R0, and returns R0 afterwards.
pub unsafe fn execute(words: &[u32], r0: u32) -> Result<u32, Fault> {
    prepare(words);
    let buffer = &BUFFERS[cpu::this().index()];
    // SAFETY: the caller vouches for the instructions; a return follows them.
    unsafe { run(buffer, 0, r0) }
}

/// Writes `words` and a return to the code buffer and returns their address.
pub fn prepare(words: &[u32]) -> u64 {
    let buffer = &BUFFERS[cpu::this().index()];
    for (cell, word) in buffer.0.iter().zip(words.iter().chain(&[RETURN])) {
        cell.store(*word, Relaxed);
    }
    synchronize(address() as u32);
    address()
}

/// Calls the code at `at`, with `argument` in R0.
pub unsafe fn call(at: u64, argument: u64) -> Result<(), Fault> {
    // SAFETY: by this function's contract; an abort is caught.
    unsafe {
        probe!("blx {at}"; at = in(reg) at as u32, inout("r0") argument as u32 => _, out("r1") _,
            out("r2") _, out("r3") _, out("lr") _)
    }
}

/// The same for instructions of T32, given as halfwords.
pub unsafe fn execute_thumb(halves: &[u16], r0: u32) -> Result<u32, Fault> {
    let buffer = &BUFFERS[cpu::this().index()];
    let mut halves = halves.iter().chain(&[RETURN_THUMB, RETURN_THUMB]);
    for cell in &buffer.0 {
        let mut next = || u32::from(*halves.next().unwrap_or(&RETURN_THUMB));
        cell.store(next() | next() << 16, Relaxed);
    }
    // SAFETY: as above.
    unsafe { run(buffer, 1, r0) }
}

/// This CPU's code buffer.
pub fn address() -> u64 {
    core::ptr::from_ref(&BUFFERS[cpu::this().index()]).addr() as u64
}

/// `state` is the lowest bit of the address: 1 for T32, 0 for A32.
unsafe fn run(buffer: &Buffer, state: u32, r0: u32) -> Result<u32, Fault> {
    let address = core::ptr::from_ref(buffer).addr() as u32;
    synchronize(address);
    let mut result = r0;
    // SAFETY: the caller vouches for the instructions.
    let end = unsafe {
        probe!("blx {code}";
            code = in(reg) address | state, inout("r0") result,
            out("r1") _, out("r2") _, out("r3") _, out("r12") _, out("lr") _,
        )
    };
    end.map(|()| result)
}

/// Makes new instructions at `address` visible to instruction fetches (DDI 0406C, A3.9.3): DCCMVAU,
/// ICIMVAU, BPIALL.
pub fn synchronize(address: u32) {
    // SAFETY: cache maintenance of a line of ours.
    unsafe {
        core::arch::asm!(
            "mcr p15, 0, {0}, c7, c11, 1",
            "dsb",
            "mcr p15, 0, {0}, c7, c5, 1",
            "mcr p15, 0, {0}, c7, c5, 6",
            "dsb",
            "isb",
            in(reg) address
        );
    }
}
