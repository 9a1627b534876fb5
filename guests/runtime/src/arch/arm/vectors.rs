//! The exception vectors: expected exceptions are caught, interrupts are counted, and anything else
//! ends the run with the registers on the console.
//!
//! All exceptions are handled in System mode on its own stack, so that the other modes need none.
//! An exception is described as ESR_EL1 would describe it: with long descriptors the fault status
//! registers use the same codes (DDI 0406C, B3.13.3; DDI 0487, ESR_EL1), and those of short ones
//! have a counterpart each.

use super::short;
use crate::cpu;
use crate::gic;
use crate::probe::{Catch, class};
use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;

/// The registers that the entry code saves, in its order.
#[repr(C)]
pub struct Frame {
    r: [u32; 13],
    lr: u32,
    pc: u32,
    cpsr: u32,
}

const _: () = assert!(size_of::<Frame>() == 64);

/// CPSR: System mode.
const SYSTEM: u32 = 0x1f;
/// CPSR.A, I and F.
const MASKS: u32 = 7 << 6;
/// CPSR.T.
const THUMB: u32 = 1 << 5;
/// FSR: the fault status with long descriptors, and the bit that says that it has this format.
const STATUS: u64 = 0x3f;
const LONG: u64 = 1 << 9;
/// FSR: the fault status with short descriptors, in two parts.
const SHORT_LOW: u64 = 0xf;
const SHORT_HIGH: u64 = 1 << 10;
/// TTBCR.EAE: long descriptors are used.
const EXTENDED: u64 = 1 << 31;
/// DFSR: a cache maintenance operation or a write; bit 13 tells which.
const WRITE: u64 = 1 << 11;

unsafe extern "C" {
    /// `runtime_vectors` below, or the image's own table.
    fn guest_vectors();
}

/// Where the table that is used lies, for VBAR.
pub fn address() -> u64 {
    (guest_vectors as *const ()).addr() as u64
}

global_asm!(
    r#"
    .arm
    .macro vector kind, after
    .if \after
    sub     lr, lr, #\after         // LR is that much behind where to go on
    .endif
    srsdb   sp!, #0x1f
    cps     #0x1f
    push    {{r0-r12, lr}}
    mov     r1, #\kind
    b       save_and_handle
    .endm

    .section .text.vectors, "ax"
    .balign 32
    .global runtime_vectors
runtime_vectors:
    b       2f
    b       3f
    b       4f
    b       5f
    b       6f
    b       7f
    b       8f
    b       9f
2:  vector  0, 0                    // reset
3:  vector  1, 0                    // UNDEFINED
4:  vector  2, 0                    // SVC
5:  vector  3, 4                    // prefetch abort
6:  vector  4, 8                    // data abort
7:  vector  5, 0                    // reserved
8:  vector  6, 4                    // IRQ
9:  vector  7, 4                    // FIQ
    .purgem vector

save_and_handle:
    mov     r0, sp
    mov     r4, sp
    bic     sp, sp, #7              // as the procedure call standard has it
    bl      {handle}
    mov     sp, r4
    clrex
    pop     {{r0-r12, lr}}
    rfeia   sp!
    "#,
    handle = sym handle,
);

/// What happened, as ESR_EL1 and FAR_EL1 would describe it.
struct Syndrome {
    esr: u64,
    far: u64,
}

const fn classed(class: u64, rest: u64) -> u64 {
    class << 26 | 1 << 25 | rest
}

/// The abort that a fault status register describes: `class`, unless its format is not that of the
/// descriptors in use, or its code none of this format's; then it gets no class.
fn abort(class: u64, register: u64, rest: u64) -> u64 {
    let is_long = register & LONG != 0;
    let short = register & SHORT_LOW | (register & SHORT_HIGH) >> 6;
    let status = if is_long {
        Some(register & STATUS)
    } else {
        short::long_status(short)
    };
    match status {
        Some(status) if is_long == (read_sysreg!("tcr_el1") & EXTENDED != 0) => {
            classed(class, status | rest)
        }
        _ => classed(NO_CLASS, register & STATUS | rest),
    }
}

/// The exception of entry `kind` of the table; `None` for an interrupt.
fn syndrome(frame: &Frame, kind: u32) -> Option<Syndrome> {
    let no_address = |esr| Some(Syndrome { esr, far: 0 });
    match kind {
        1 => no_address(classed(class::UNDEFINED, 0)),
        2 => no_address(classed(SVC, immediate(frame))),
        3 => {
            let esr = abort(class::FETCH, read_sysreg!("ifsr32_el2"), 0);
            let far = read_sysreg!("ifar_el1");
            Some(Syndrome { esr, far })
        }
        4 => {
            let register = read_sysreg!("esr_el1");
            let write = (register & WRITE) >> 5;
            let esr = abort(class::DATA, register, write);
            let far = read_sysreg!("dfar_el1");
            Some(Syndrome { esr, far })
        }
        _ => None,
    }
}

/// SVC of AArch32 (ESR_EL1.EC).
pub const SVC: u64 = 0x11;
/// A value that is no exception class.
const NO_CLASS: u64 = 0x3f;

/// The immediate of the SVC before `frame`: 24 bits in A32, 8 in T32.
fn immediate(frame: &Frame) -> u64 {
    if frame.cpsr & THUMB != 0 {
        let at = frame.pc.wrapping_sub(2) as *const u16;
        // SAFETY: the CPU has just run the instruction there.
        return u64::from(unsafe { at.read_volatile() }) & 0xff;
    }
    let at = frame.pc.wrapping_sub(4) as *const u32;
    // SAFETY: as above.
    u64::from(unsafe { at.read_volatile() }) & 0xffff
}

/// The instruction that took the exception: after UNDEFINED the saved address is behind
/// it (DDI 0406C, B1.8.3).
fn instruction(frame: &Frame, kind: u32) -> u32 {
    match kind {
        1 if frame.cpsr & THUMB != 0 => frame.pc.wrapping_sub(2),
        1 => frame.pc.wrapping_sub(4),
        // After SVC it is the next one, as in ELR_EL1.
        _ => frame.pc,
    }
}

extern "C" fn handle(frame: &mut Frame, kind: u32) {
    match kind {
        6 => gic::take_interrupt(),
        _ if catch(frame, kind) == Catch::Expected => {}
        _ => unexpected(frame, kind),
    }
}

/// Notes an expected exception, and continues at the probe's address.
fn catch(frame: &mut Frame, kind: u32) -> Catch {
    let Some(syndrome) = syndrome(frame, kind) else {
        return Catch::Unexpected;
    };
    let cpu = cpu::this();
    let recover = cpu.recover.swap(0, Relaxed);
    if recover == 0 {
        return Catch::Unexpected;
    }
    cpu.note(syndrome.esr, syndrome.far, instruction(frame, kind).into());
    cpu.state.store(frame.cpsr as usize, Relaxed);
    frame.pc = recover as u32;
    frame.cpsr = frame.cpsr & MASKS | SYSTEM;
    Catch::Expected
}

fn unexpected(frame: &Frame, kind: u32) -> ! {
    let from = |address: u32| u64::from(address).wrapping_sub(crate::boot::load_address());
    panic!(
        "exception: entry {kind}, dfsr {:#x}, dfar {:#x}, ifsr {:#x}, ifar {:#x}, pc {:#x} (+{:#x}), lr +{:#x}, cpsr {:#x}, r0 {:#x}, cpu {}",
        read_sysreg!("esr_el1"),
        read_sysreg!("dfar_el1"),
        read_sysreg!("ifsr32_el2"),
        read_sysreg!("ifar_el1"),
        frame.pc,
        from(frame.pc),
        from(frame.lr),
        frame.cpsr,
        frame.r[0],
        cpu::this().index(),
    )
}
