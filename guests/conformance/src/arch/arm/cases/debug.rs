//! Coprocessor 14: debug (DDI 0406C, C11.11), ThumbEE and Jazelle (A2.10, B8).

use crate::arch::code::{Register, cp14, execute, execute_thumb};
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::probe::{Fault, class};
use crate::psci;
use hanok_guest_runtime::arch::mmu::has_long;

pub const CASES: &[Case] = &[
    case("debug-bkpt", 1, breakpoint),
    case("debug-os-lock", 1, os_lock),
    hanok_case("debug-none", 1, none),
    case("debug-thumb-ee", 1, thumb_ee),
    case("debug-jazelle", 1, jazelle),
    case("debug-jazelle-branch", 1, jazelle_branch),
];

fn read(register: Register) -> Result<u32, Fault> {
    // SAFETY: MRC changes R0 alone.
    unsafe { execute(&[register.read()], 0) }
}

fn write(register: Register, value: u32) -> Result<u32, Fault> {
    // SAFETY: the callers write what this program does not rely on.
    unsafe { execute(&[register.write()], value) }
}

/// BKPT without a debugger is a prefetch abort of its own status (B3.13.3).
fn breakpoint(_: &Machine) -> Outcome {
    const DEBUG_EVENT: u64 = 0x22;
    // SAFETY: the vector catches it.
    let Err(fault) = (unsafe { execute(&[0xe124_3271], 0) }) else {
        return Err(Failure::wrong(format_args!("no exception")));
    };
    check_eq!(
        (fault.class(), fault.status()),
        (class::FETCH, DEBUG_EVENT),
        "BKPT"
    );
    check_eq!(fault.elr, crate::arch::code::address(), "LR");
    Ok(())
}

/// As an operating system does at its start: DBGOSLAR, DBGOSDLR.
fn os_lock(_: &Machine) -> Outcome {
    for register in [cp14(0, 1, 0, 4), cp14(0, 1, 3, 4)] {
        let written = write(register, 0);
        check!(written.is_ok(), "{register:?}: {written:?}");
    }
    Ok(())
}

/// A VM's debug registers read as zero and ignore writes: DBGDIDR, DBGDSCRint, DBGBVR0, DBGBCR0,
/// DBGWVR0, DBGDSCRext, DBGVCR. A guest that runs in User mode, whose CPU has no long descriptors,
/// reads the CPU's own in the first two (docs/differences.md).
fn none(_: &Machine) -> Outcome {
    let registers = [
        cp14(0, 0, 0, 0),
        cp14(0, 0, 1, 0),
        cp14(0, 0, 0, 4),
        cp14(0, 0, 0, 5),
        cp14(0, 0, 0, 6),
        cp14(0, 0, 2, 2),
        cp14(0, 0, 7, 0),
    ];
    let hidden = if has_long() { 0 } else { 2 };
    for (number, register) in (0..).zip(registers).skip(hidden) {
        // The first two are read-only.
        let written = if number < 2 {
            Ok(0)
        } else {
            write(register, u32::MAX)
        };
        let value = read(register);
        check!(
            written.is_ok() && matches!(value, Ok(0)),
            "{register:?}: {written:?}, {value:x?}"
        );
    }
    Ok(())
}

/// TEEHBR belongs to the guest on a CPU that has it, which ID_PFR0.State3 says (B4.1.93).
fn thumb_ee(_: &Machine) -> Outcome {
    const TEEHBR: Register = cp14(6, 1, 0, 0);
    let has = read_sysreg!("id_pfr0_el1") >> 12 & 0xf != 0;
    let before = match read(TEEHBR) {
        found if !has => {
            let undefined = matches!(&found, Err(fault) if fault.class() == class::UNDEFINED);
            check!(undefined, "there is none, but {found:x?}");
            return Ok(());
        }
        Ok(before) => before,
        Err(fault) if fault.class() == class::UNDEFINED => return Ok(()),
        Err(fault) => return Err(Failure::wrong(format_args!("{fault:?}"))),
    };
    let written = write(TEEHBR, 0x1357_9bc0);
    psci::call(psci::VERSION, 0, 0, 0);
    let after = read(TEEHBR);
    let _ = write(TEEHBR, before);
    check!(
        written.is_ok() && matches!(after, Ok(0x1357_9bc0)),
        "{written:?}, {after:x?}"
    );
    Ok(())
}

/// JIDR, JOSCR and JMCR are undefined; or, where the CPU does not let them be trapped, zero, which
/// says that there is no Jazelle (A2.10.1).
fn jazelle(_: &Machine) -> Outcome {
    for crn in 0..3 {
        match read(cp14(7, crn, 0, 0)) {
            Ok(0) => {}
            Err(fault) if fault.class() == class::UNDEFINED => {}
            other => return Err(Failure::wrong(format_args!("c{crn}: {other:x?}"))),
        }
    }
    Ok(())
}

/// BXJ, of the trivial Jazelle, is BX (A8.8.28): it returns before the next instruction.
fn jazelle_branch(_: &Machine) -> Outcome {
    // MOV R0, #7; BXJ LR; MOV R0, #9.
    // SAFETY: changes R0 alone.
    let arm = unsafe { execute(&[0xe3a0_0007, 0xe12f_ff2e, 0xe3a0_0009], 0) };
    check!(matches!(arm, Ok(7)), "A32: {arm:x?}");
    // SAFETY: as above.
    let thumb = unsafe { execute_thumb(&[0x2007, 0xf3ce, 0x8f00, 0x2009], 0) };
    check!(matches!(thumb, Ok(7)), "T32: {thumb:x?}");
    Ok(())
}
