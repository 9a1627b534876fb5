//! Instructions encoded at run time, because an assembler would refuse them.

use crate::cpu::{self, MAX_CPUS};
use crate::probe::Fault;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many instructions the buffer holds, the return included.
const WORDS: usize = 16;
/// UDF: permanently undefined (DDI 0487, C6.2).
pub const UNDEFINED: u32 = 0x0000_ffff;
/// LDP X1, X2, [X0].
pub const LOAD_PAIR: u32 = 0xa940_0801;
const RET: u32 = 0xd65f_03c0;

#[repr(C, align(64))]
struct Buffer([AtomicU32; WORDS]);

static BUFFERS: [Buffer; MAX_CPUS] =
    [const { Buffer([const { AtomicU32::new(0) }; WORDS]) }; MAX_CPUS];

/// MRS X0, the system register with this encoding.
pub fn mrs(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    0xd530_0000 | (op0 & 1) << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5
}

/// MSR of X0 to the system register with this encoding.
pub fn msr(op0: u32, op1: u32, crn: u32, crm: u32, op2: u32) -> u32 {
    mrs(op0, op1, crn, crm, op2) & !(1 << 21)
}

/// Writes `words` and a return to the code buffer and returns their address.
pub fn prepare(words: &[u32]) -> u64 {
    let buffer = &BUFFERS[cpu::this().index()];
    for (cell, word) in buffer.0.iter().zip(words.iter().chain(&[RET])) {
        cell.store(*word, Relaxed);
    }
    let address = core::ptr::from_ref(buffer) as u64;
    synchronize(address);
    address
}

/// Calls the code at `at`, with `argument` in X0.
pub unsafe fn call(at: u64, argument: u64) -> Result<(), Fault> {
    // SAFETY: by this function's contract; an exception is caught.
    unsafe {
        probe!("blr {at}"; at = in(reg) at, inout("x0") argument => _, out("x1") _, out("x2") _,
            out("x30") _)
    }
}

/// Runs `words` with `x0` in X0, and returns X0 afterwards.
pub unsafe fn execute(words: &[u32], x0: u64) -> Result<u64, Fault> {
    let address = prepare(words);
    let result: u64;
    // SAFETY: the caller vouches for the instructions; a return follows them.
    let end = unsafe {
        probe!("blr {code}";
            code = in(reg) address, inout("x0") x0 => result,
            out("x1") _, out("x2") _, out("x3") _, out("x4") _, out("x5") _, out("x6") _,
            out("x7") _, out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
            out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _, out("x30") _,
        )
    };
    end.map(|()| result)
}

/// Makes new instructions at `address` visible to instruction fetches (DDI 0487, B2.4.4).
fn synchronize(address: u64) {
    // SAFETY: cache maintenance of a line of ours.
    unsafe {
        core::arch::asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) address);
    }
}
