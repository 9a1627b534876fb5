//! Self-hosted debug (DDI 0487, D2): breakpoints in code, watchpoints, single steps, the OS lock.

use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::probe::class;
use crate::tree::Host;
use core::sync::atomic::{AtomicU64, Ordering};

pub const CASES: &[Case] = &[
    case("debug-brk", 1, brk),
    case("debug-os-lock", 1, os_lock),
    case("debug-mdscr", 1, mdscr),
    case("debug-step", 1, step),
    case("debug-breakpoint", 1, breakpoint),
    case("debug-watchpoint", 1, watchpoint),
    hanok_case("debug-halting", 1, halting),
];

/// NOP.
const NOP: u32 = 0xd503_201f;
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

/// DBGBVR and DBGBCR are kept; a breakpoint on an instruction of EL1 hits it, once for each time,
/// and not while the OS lock is set (D2.4), to which QEMU 10 pays no heed.
fn breakpoint(machine: &Machine) -> Outcome {
    // E, PMC (EL1), BAS of an A64 instruction.
    const AT_EL1: u64 = 1 | 1 << 1 | 0xf << 5;
    // MDSCR_EL1.KDE and MDE.
    const IN_KERNEL: u64 = 1 << 13 | 1 << 15;
    let code = crate::arch::code::prepare(&[NOP]);
    let masks = read_sysreg!("daif");
    write_sysreg!("oslar_el1", 0);
    write_sysreg!("dbgbvr0_el1", code);
    write_sysreg!("dbgbcr0_el1", AT_EL1);
    write_sysreg!("mdscr_el1", IN_KERNEL);
    check_eq!(read_sysreg!("dbgbvr0_el1"), code, "DBGBVR0");
    check_eq!(read_sysreg!("dbgbcr0_el1") & AT_EL1, AT_EL1, "DBGBCR0");
    let heeds_lock = machine.host == Host::Hanok;
    for locked in [0, u64::from(heeds_lock), 0] {
        write_sysreg!("oslar_el1", locked);
        // PSTATE.D masks what EL1 does to itself.
        write_sysreg!("daif", masks & !(1 << 9));
        // SAFETY: a NOP and a return, or a breakpoint, which the vector catches.
        let result = unsafe { crate::arch::code::call(code, 0) };
        write_sysreg!("daif", masks | 1 << 9);
        let hit = result.err().map(|fault| (fault.class(), fault.elr));
        let expected = (locked == 0).then_some((class::BREAKPOINT, code));
        check_eq!(hit, expected, "with the lock at {locked}");
    }
    write_sysreg!("daif", masks);
    write_sysreg!("oslar_el1", 0);
    write_sysreg!("mdscr_el1", 0);
    write_sysreg!("dbgbcr0_el1", 0);
    write_sysreg!("dbgbvr0_el1", 0);
    Ok(())
}

/// DBGWVR and DBGWCR are kept; a watchpoint on a double word hits each access of EL1 to it, and no other
/// (D2.10).
fn watchpoint(_: &Machine) -> Outcome {
    // E, PAC (EL1), LSC (loads and stores), BAS of all eight bytes.
    const AT_EL1: u64 = 1 | 1 << 1 | 3 << 3 | 0xff << 5;
    // MDSCR_EL1.KDE and MDE.
    const IN_KERNEL: u64 = 1 << 13 | 1 << 15;
    static WORDS: [AtomicU64; 2] = [AtomicU64::new(1), AtomicU64::new(2)];
    let [watched, beside] = WORDS.each_ref().map(|word| word.as_ptr() as u64);
    let masks = read_sysreg!("daif");
    write_sysreg!("oslar_el1", 0);
    write_sysreg!("dbgwvr0_el1", watched);
    write_sysreg!("dbgwcr0_el1", AT_EL1);
    write_sysreg!("mdscr_el1", IN_KERNEL);
    check_eq!(read_sysreg!("dbgwvr0_el1"), watched, "DBGWVR0");
    check_eq!(read_sysreg!("dbgwcr0_el1") & AT_EL1, AT_EL1, "DBGWCR0");
    for (at, store) in [(watched, false), (beside, false), (watched, true)] {
        // PSTATE.D masks what EL1 does to itself.
        write_sysreg!("daif", masks & !(1 << 9));
        // SAFETY: a load or a store of a word of its own, or a watchpoint, which the vector catches.
        let result = unsafe {
            if store {
                probe!("str xzr, [{at}]"; at = in(reg) at)
            } else {
                probe!("ldr {value}, [{at}]"; value = out(reg) _, at = in(reg) at)
            }
        };
        write_sysreg!("daif", masks | 1 << 9);
        let hit = result.err().map(|fault| (fault.class(), fault.far));
        let expected = (at == watched).then_some((class::WATCHPOINT, watched));
        check_eq!(hit, expected, "at {at:#x}, store {store}");
    }
    write_sysreg!("daif", masks);
    write_sysreg!("mdscr_el1", 0);
    write_sysreg!("dbgwcr0_el1", 0);
    write_sysreg!("dbgwvr0_el1", 0);
    check_eq!(WORDS[0].load(Ordering::Relaxed), 1, "what was not stored");
    Ok(())
}

/// A guest cannot halt its core, nor mask its interrupts by MDSCR_EL1.INTdis, nor use what belongs
/// to an external debugger: with the OS lock set, these bits could be written (D24.3.20).
fn halting(_: &Machine) -> Outcome {
    const HDE: u64 = 1 << 14;
    const HLT: u32 = 0xd440_0000;
    for locked in [1, 0] {
        write_sysreg!("mdscr_el1", 1 << 13);
        write_sysreg!("oslar_el1", locked);
        write_sysreg!("mdscr_el1", HDE | 3 << 22 | 1 << 6 | 3 << 29);
        check_eq!(read_sysreg!("mdscr_el1"), 0, "MDSCR, lock {locked}");
        write_sysreg!("oseccr_el1", 0x5a);
        write_sysreg!("osdtrrx_el1", 0x5a);
        write_sysreg!("osdtrtx_el1", 0x5a);
        write_sysreg!("mdccint_el1", 3 << 29);
        let kept = read_sysreg!("oseccr_el1")
            | read_sysreg!("osdtrrx_el1")
            | read_sysreg!("osdtrtx_el1")
            | read_sysreg!("mdccint_el1");
        check_eq!(kept, 0, "the debug channel, lock {locked}");
        // SAFETY: undefined, or the core stands still.
        let halt = unsafe { crate::arch::code::execute(&[HLT], 0) };
        check!(
            halt.is_err_and(|fault| fault.class() == class::UNDEFINED),
            "HLT, lock {locked}: {halt:x?}"
        );
    }
    write_sysreg!("mdscr_el1", 0);
    Ok(())
}
