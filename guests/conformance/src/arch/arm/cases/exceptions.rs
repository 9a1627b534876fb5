//! Exceptions that a guest's own instructions cause: the hypervisor must let the guest take them.

use crate::arch::code::{self, execute, execute_thumb};
use crate::case::{Case, Failure, Outcome, case};
use crate::cases::exceptions::fault_of;
use crate::cpu;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use core::sync::atomic::Ordering::Relaxed;
use hanok_guest_runtime::arch::mmu::has_long;

pub const CASES: &[Case] = &[
    case("exc-undefined", 1, undefined),
    case("exc-undefined-thumb", 1, undefined_thumb),
    case("exc-svc", 1, svc),
    case("exc-svc-thumb", 1, svc_thumb),
    case("exc-smc", 1, smc),
    case("exc-it-block", 1, it_block),
    case("exc-condition", 1, condition),
    case("exc-hvc-it-block", 1, hvc_it_block),
    case("exc-thumb-abort", 1, thumb_abort),
];

/// CPSR.T.
const THUMB: u32 = 1 << 5;
/// CPSR.IT\[7:2\] and IT\[1:0\].
const IT: u32 = 0x3f << 10 | 3 << 25;

/// The state that the CPU was in when it took the last exception.
fn state() -> u32 {
    cpu::this().state.load(Relaxed) as u32
}

fn undefined(_: &Machine) -> Outcome {
    // UDF #0 and UDF #65535, and encodings that no extension defines.
    for word in [0xe7f0_00f0, 0xe7ff_ffff, 0xf700_0000, 0xee00_0010] {
        // SAFETY: an instruction that is none.
        let fault = fault_of(unsafe { execute(&[word], 0) }.map(drop), "undefined")?;
        check_eq!(fault.class(), class::UNDEFINED, "class of {word:#x}");
        check_eq!(fault.elr, code::address(), "LR of {word:#x}");
        check_eq!(state() & THUMB, 0, "T of {word:#x}");
    }
    Ok(())
}

fn undefined_thumb(_: &Machine) -> Outcome {
    // UDF of 16 bits, then of 32 bits, behind a NOP.
    for halves in [[0xbf00, 0xde00, 0xbf00], [0xbf00, 0xf7f0, 0xa000]] {
        // SAFETY: an instruction that is none.
        let fault = fault_of(unsafe { execute_thumb(&halves, 0) }.map(drop), "undefined")?;
        check_eq!(fault.class(), class::UNDEFINED, "class of {halves:x?}");
        check_eq!(fault.elr, code::address() + 2, "LR of {halves:x?}");
        check_eq!(state() & (THUMB | IT), THUMB, "T and IT of {halves:x?}");
    }
    Ok(())
}

fn svc(_: &Machine) -> Outcome {
    // SAFETY: the vector catches it.
    let fault = fault_of(unsafe { probe!("svc #0x123"; ) }, "SVC")?;
    check_eq!(
        (fault.class(), fault.immediate()),
        (class::SVC, 0x123),
        "SVC"
    );
    Ok(())
}

fn svc_thumb(_: &Machine) -> Outcome {
    // SAFETY: the vector catches it.
    let fault = fault_of(
        unsafe { execute_thumb(&[0xbf00, 0xdf42], 0) }.map(drop),
        "SVC",
    )?;
    check_eq!(
        (fault.class(), fault.immediate()),
        (class::SVC, 0x42),
        "SVC"
    );
    check_eq!(fault.elr, code::address() + 4, "LR");
    Ok(())
}

/// The VM has no Monitor mode, so SMC is undefined.
fn smc(_: &Machine) -> Outcome {
    for word in [0xe160_0070, 0xe160_007f] {
        // SAFETY: SMC changes R0 to R3 at most, had it anybody to go to.
        let fault = fault_of(unsafe { execute(&[word], 0x8400_0000) }.map(drop), "SMC")?;
        check_eq!(fault.class(), class::UNDEFINED, "class");
        check_eq!(fault.elr, code::address(), "LR");
    }
    // SAFETY: as above.
    let thumb = unsafe { execute_thumb(&[0xf7f0, 0x8000], 0x8400_0000) };
    let fault = fault_of(thumb.map(drop), "SMC of T32")?;
    check_eq!(fault.class(), class::UNDEFINED, "class, T32");
    Ok(())
}

/// CMP R0, #0; ITTEE EQ.
const COMPARE: [u16; 2] = [0x2800, 0xbf07];

/// An exception inside an IT block keeps where in the block it was (DDI 0406C, A2.5.2): here the
/// third of four instructions, which runs as the condition does not hold.
fn it_block(_: &Machine) -> Outcome {
    const MOV: u16 = 0x2001; // mov r0, #1, which a block makes set no flags
    const UDF: u16 = 0xde00;
    let [compare, block] = COMPARE;
    // SAFETY: an instruction that is none.
    let ended = unsafe { execute_thumb(&[compare, block, MOV, MOV, UDF, MOV], 5) };
    let fault = fault_of(ended.map(drop), "UDF in an IT block")?;
    check_eq!(fault.class(), class::UNDEFINED, "class");
    check_eq!(fault.elr, code::address() + 8, "LR");
    // NE for this and the next: base 0b0001, mask 0b1100... of ITTEE EQ after two steps.
    let it = (state() >> 10 & 0x3f) << 2 | state() >> 25 & 3;
    check_eq!(it, 0b0001_1100, "IT");
    Ok(())
}

/// A conditional instruction whose condition fails does nothing, trapped or not.
fn condition(_: &Machine) -> Outcome {
    // CMP R0, #0; then, if EQ: SMC, HVC, WFI, MRC of MIDR to R0, and MCR to a register that does
    // not exist.
    let words = [
        0xe350_0000,
        0x0160_0070,
        0x0140_0070,
        0x0320_f003,
        0x0e10_0f10,
        0x0e07_0f10,
    ];
    // SAFETY: nothing of it is run.
    let result = unsafe { execute(&words, 7) };
    check!(matches!(result, Ok(7)), "{result:x?}");
    Ok(())
}

/// A call inside an IT block: the instructions after it run as the block says. It is UNPREDICTABLE
/// (DDI 0406C, B9.3.4), and undefined where it is not the CPU that makes it
/// (docs/differences.md).
fn hvc_it_block(_: &Machine) -> Outcome {
    // ITTTE NE on R0 that is not 0: MOV R1, #3 ... HVC (32 bits), MOV R0, #9, else MOV R0, #1.
    const VERSION: u32 = crate::psci::VERSION as u32;
    let halves = [0x2800, 0xbf1e, 0x2103, 0xf7e0, 0x8000, 0x2009];
    // SAFETY: PSCI_VERSION changes R0 to R3 and R12 alone.
    let result = unsafe { execute_thumb(&halves, VERSION) };
    let undefined =
        |fault: &Fault| fault.class() == class::UNDEFINED && fault.elr == code::address() + 6;
    match &result {
        Ok(9) => {}
        Err(fault) if !has_long() && undefined(fault) => {}
        _ => return Err(Failure::wrong(format_args!("taken: {result:x?}"))),
    }
    // With R0 zero nothing of it is done.
    // SAFETY: as above.
    let result = unsafe { execute_thumb(&halves, 0) };
    check!(matches!(result, Ok(0)), "not taken: {result:x?}");
    Ok(())
}

/// An abort of T32 at an address that is only a multiple of two.
fn thumb_abort(_: &Machine) -> Outcome {
    let hole = mmu::map(0, 0x0b00_0000, Kind::Device);
    // NOP; LDR R0, [R0] of 16 bits; and of 32 bits.
    for halves in [[0xbf00, 0x6800, 0xbf00], [0xbf00, 0xf8d0, 0x0000]] {
        // SAFETY: nothing is there.
        let ended: Result<u32, Fault> = unsafe { execute_thumb(&halves, hole as u32) };
        let fault = fault_of(ended.map(drop), "load")?;
        check_eq!(
            (fault.class(), fault.status()),
            (class::DATA, status::EXTERNAL),
            "{halves:x?}"
        );
        check_eq!(
            (fault.far, fault.elr),
            (hole, code::address() + 2),
            "DFAR and LR of {halves:x?}"
        );
        check_eq!(state() & THUMB, THUMB, "T");
    }
    Ok(())
}
