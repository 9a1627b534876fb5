//! Self-hosted debug (DDI 0487, D2): breakpoints in code, single steps, the OS lock.

use crate::case::{Case, Failure, Outcome, case};
use crate::machine::Machine;
use crate::probe::class;

pub const CASES: &[Case] = &[
    case("debug-brk", 1, brk),
    case("debug-os-lock", 1, os_lock),
    case("debug-mdscr", 1, mdscr),
    case("debug-step", 1, step),
];

/// MDSCR_EL1.SS and MDSCR_EL1.KDE.
const STEP_IN_KERNEL: u64 = 1 | 1 << 13;

fn brk(_: &Machine) -> Outcome {
    // SAFETY: the vector catches it.
    let Err(fault) = (unsafe { probe!("brk #0x4321"; ) }) else {
        return Err(Failure::wrong(format_args!("no exception")));
    };
    check_eq!(
        (fault.class(), fault.immediate()),
        (class::BRK, 0x4321),
        "BRK"
    );
    Ok(())
}

/// As an operating system does at its start: unlock.
fn os_lock(_: &Machine) -> Outcome {
    write_sysreg!("oslar_el1", 1);
    let locked = read_sysreg!("oslsr_el1");
    write_sysreg!("oslar_el1", 0);
    let unlocked = read_sysreg!("oslsr_el1");
    check_eq!(unlocked & 2, 0, "OSLSR.OSLK after unlocking");
    // A lock that is not implemented stays open.
    check!(
        locked & 2 != 0 || locked & 8 == 0,
        "OSLSR {locked:#x} after locking"
    );
    Ok(())
}

fn mdscr(_: &Machine) -> Outcome {
    let before = read_sysreg!("mdscr_el1");
    write_sysreg!("mdscr_el1", 1 << 12);
    let after = read_sysreg!("mdscr_el1");
    write_sysreg!("mdscr_el1", before);
    check_eq!(after & 1 << 12, 1 << 12, "MDSCR.TDCC");
    Ok(())
}

/// Exactly one instruction runs between ERET with PSTATE.SS and the step exception.
fn step(_: &Machine) -> Outcome {
    // EL1h, A, I and F masked, D not; SS.
    const STEPPING: u64 = 0b0101 | 7 << 6 | 1 << 21;
    write_sysreg!("oslar_el1", 0);
    write_sysreg!("mdscr_el1", STEP_IN_KERNEL);
    let (mut steps, target): (u64, u64);
    // SAFETY: goes on at its own next instruction; ELR and SPSR are nobody's here.
    let result = unsafe {
        probe!("mov {steps}, #0", "adr {target}, 66f", "msr elr_el1, {target}", "msr spsr_el1, {pstate}",
            "isb", "eret", "66:", "add {steps}, {steps}, #1", "add {steps}, {steps}, #1", "add {steps}, {steps}, #1";
            steps = out(reg) steps, target = out(reg) target, pstate = in(reg) STEPPING)
    };
    write_sysreg!("mdscr_el1", 0);
    steps &= 0xff;
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!(
            "no exception, {steps} instructions"
        )));
    };
    check_eq!(fault.class(), class::STEP, "class");
    check_eq!(steps, 1, "instructions");
    check_eq!(fault.elr, target + 4, "ELR");
    Ok(())
}
