//! The modes of PL1 and the banked registers of each (DDI 0406C, B1.3): stack pointer, link
//! register, SPSR, and R8 to R12 of FIQ mode.

use crate::case::{Case, Failure, Outcome, case};
use crate::machine::Machine;
use crate::probe::class;
use crate::{cpu, gic, mmio, psci, smp, timer};
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("mode-change", 1, change),
    case("mode-masks", 1, masks),
    case("mode-banked", 1, banked),
    case("mode-banked-interrupts", 1, over_interrupts),
    case("mode-banked-each-cpu", 2, each_cpu),
    case("mode-user", 1, user),
    case("mode-return", 1, exception_return),
];

const SYSTEM: u32 = 0x1f;
const USER: u32 = 0x10;
/// Supervisor, Abort, Undefined, IRQ, FIQ.
const MODES: [u32; 5] = [0x13, 0x17, 0x1b, 0x12, 0x11];
const MODE: u32 = 0x1f;

/// The banked registers of all modes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Banks {
    /// SP, LR and SPSR of each mode.
    modes: [[u32; 3]; 5],
    /// R8 to R12 of FIQ mode.
    fast: [u32; 5],
}

const _: () = assert!(size_of::<Banks>() == 80);

unsafe extern "C" {
    fn banks_load(banks: *const Banks);
    fn banks_store(banks: *mut Banks);
}

impl Banks {
    const ZERO: Self = Self {
        modes: [[0; 3]; 5],
        fast: [0; 5],
    };

    /// A different value for each register; the SPSRs name modes that exist.
    fn pattern(seed: u32) -> Self {
        let word = |index: u32| (seed + index).wrapping_mul(0x9e37_79b9);
        let mut banks = Self::ZERO;
        for (index, bank) in (0..).zip(&mut banks.modes) {
            let spsr = word(index) & 0xf000_0000 | 0x1c0 | MODES[index as usize % 5];
            *bank = [word(16 + index), word(32 + index), spsr];
        }
        for (index, register) in (0..).zip(&mut banks.fast) {
            *register = word(48 + index);
        }
        banks
    }

    /// Loads these values into the registers; this program needs none of the registers.
    fn load(&self) {
        // SAFETY: interrupts are masked, and an exception's entry sets what it uses itself.
        unsafe { banks_load(self) };
    }

    fn stored() -> Self {
        let mut banks = Self::ZERO;
        // SAFETY: writes within `banks` alone.
        unsafe { banks_store(&mut banks) };
        banks
    }
}

global_asm!(
    r#"
    .arm
    .macro load_bank mode
    cps     #\mode
    ldmia   r0!, {{r1-r3}}
    mov     sp, r1
    mov     lr, r2
    msr     spsr_cxsf, r3
    .endm
    .macro store_bank mode
    cps     #\mode
    mov     r1, sp
    mov     r2, lr
    mrs     r3, spsr
    stmia   r0!, {{r1-r3}}
    .endm

    .section .text.banks, "ax"
    .global banks_load
banks_load:
    load_bank 0x13
    load_bank 0x17
    load_bank 0x1b
    load_bank 0x12
    load_bank 0x11
    ldmia   r0, {{r8-r12}}
    cps     #0x1f
    bx      lr

    .global banks_store
banks_store:
    store_bank 0x13
    store_bank 0x17
    store_bank 0x1b
    store_bank 0x12
    store_bank 0x11
    stmia   r0, {{r8-r12}}
    cps     #0x1f
    bx      lr
    "#
);

fn state() -> u32 {
    let state: u32;
    // SAFETY: a read.
    unsafe { asm!("mrs {}, cpsr", out(reg) state, options(nostack)) };
    state
}

/// Switches to each mode and back, by a write of the whole CPSR.
fn change(_: &Machine) -> Outcome {
    let before = state();
    for mode in MODES {
        let (inside, after): (u32, u32);
        // SAFETY: nothing but registers that no mode has for itself is used inside.
        unsafe {
            asm!("msr cpsr_c, {mode}", "mrs {inside}, cpsr", "msr cpsr_c, {before}", "mrs {after}, cpsr",
                mode = in(reg) before & 0xe0 | mode, inside = lateout(reg) inside,
                before = in(reg) before & 0xff, after = lateout(reg) after, options(nostack))
        };
        check_eq!(inside & MODE, mode, "inside");
        check_eq!(after & MODE, SYSTEM, "after {mode:#x}");
    }
    Ok(())
}

/// CPSR.A, I and F keep what was written to them, also over a call.
fn masks(_: &Machine) -> Outcome {
    const ALL: u32 = 7 << 6;
    let before = state();
    let outcome = (0..8).try_for_each(|bits: u32| {
        // Interrupts stay masked, since one may be pending.
        let wanted = bits << 6 | 1 << 7;
        // SAFETY: abort and FIQ sources there are none.
        unsafe {
            asm!("msr cpsr_xc, {}", in(reg) before & !ALL & 0xffff | wanted, options(nostack))
        };
        psci::call(psci::VERSION, 0, 0, 0);
        check_eq!(state() & ALL, wanted, "masks");
        Ok(())
    });
    // SAFETY: as before.
    unsafe { asm!("msr cpsr_xc, {}", in(reg) before & 0xffff, options(nostack)) };
    outcome
}

/// Each kind of exit: a call, two devices, an interrupt that becomes pending.
fn exit(round: u32) {
    match round % 4 {
        0 => drop(psci::call(psci::VERSION, 0, 0, 0)),
        1 => drop(mmio::read32(platform::UART.get() + 0x18)),
        2 => drop(mmio::read32(gic::DIST + gic::TYPER)),
        _ => drop(read_sysreg!("id_pfr0_el1")),
    }
}

fn keeps(seed: u32, rounds: u32) -> Outcome {
    for round in 0..rounds {
        let pattern = Banks::pattern(seed + round);
        pattern.load();
        exit(round);
        let found = Banks::stored();
        if found != pattern {
            let mode = (0..5).find(|index| found.modes[*index] != pattern.modes[*index]);
            return Err(Failure::wrong(format_args!(
                "round {round}: {:x?}",
                mode.map(|mode| (MODES[mode], found.modes[mode]))
            )));
        }
    }
    Ok(())
}

fn banked(_: &Machine) -> Outcome {
    keeps(1, 100)
}

/// An interrupt changes IRQ mode's LR and SPSR, and nothing else.
fn over_interrupts(_: &Machine) -> Outcome {
    const ID: u32 = 13;
    const IRQ: usize = 3;
    let cpu = cpu::this();
    cpu.forget_interrupts();
    gic::enable(ID);
    for round in 0..50 {
        let pattern = Banks::pattern(500 + round);
        pattern.load();
        gic::send_self(ID);
        let came = cpu::with_interrupts(|| timer::wait_until(|| cpu.count(ID) == round + 1));
        let mut found = Banks::stored();
        found.modes[IRQ][1..].copy_from_slice(&pattern.modes[IRQ][1..]);
        if !came || found != pattern {
            gic::disable(ID);
            return Err(Failure::wrong(format_args!("round {round}: came {came}")));
        }
    }
    gic::disable(ID);
    Ok(())
}

static KEPT: AtomicU32 = AtomicU32::new(0);

fn keep_and_wait(index: usize) {
    let kept = (0..20).all(|round| {
        timer::spin(50);
        keeps(index as u32 * 10_000 + round * 100, 20).is_ok()
    });
    if kept {
        KEPT.fetch_or(1 << index, SeqCst);
    }
}

/// Each vCPU has its own banked registers.
fn each_cpu(machine: &Machine) -> Outcome {
    KEPT.store(0, SeqCst);
    for index in 1..machine.cpus {
        check_eq!(
            smp::start(index, keep_and_wait),
            psci::SUCCESS,
            "CPU_ON {index}"
        );
    }
    keep_and_wait(0);
    for index in 1..machine.cpus {
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    check_eq!(
        KEPT.load(SeqCst),
        (1 << machine.cpus) - 1,
        "vCPUs whose banks stay"
    );
    Ok(())
}

/// User mode may not execute this program's memory: the fetch after the mode change fails with User
/// mode's permissions.
fn user(_: &Machine) -> Outcome {
    // SAFETY: User mode runs nothing; the vectors go back to System mode.
    let Err(fault) = (unsafe { probe!("cps #0x10", "nop"; ) }) else {
        return Err(Failure::wrong(format_args!("it runs")));
    };
    check_eq!(fault.class(), class::FETCH, "class");
    check_eq!(fault.status() & !3, 0x0c, "a permission fault");
    let state = cpu::this().state.load(Relaxed) as u32;
    check_eq!(state & MODE, USER, "mode");
    Ok(())
}

/// SUBS PC, LR and RFE go to the given address, with the given state.
fn exception_return(_: &Machine) -> Outcome {
    let before = state();
    let (by_subs, by_rfe): (u32, u32);
    // SAFETY: goes on at its own next instructions, in System mode; what Supervisor mode has for
    // itself is nobody's.
    unsafe {
        asm!(
            "cps #0x13",
            "msr spsr_cxsf, {target}",
            "adr lr, 66f",
            "subs pc, lr, #0",
            "66:",
            "mrs {by_subs}, cpsr",
            "adr {by_rfe}, 67f",
            "push {{{by_rfe}, {target}}}",
            "rfeia sp!",
            "67:",
            "mrs {by_rfe}, cpsr",
            "msr cpsr_cxsf, {before}",
            target = in(reg) before & !(0xf << 28) | 0x9 << 28,
            before = in(reg) before,
            by_subs = out(reg) by_subs,
            by_rfe = out(reg) by_rfe,
        )
    };
    for found in [by_subs, by_rfe] {
        check_eq!((found >> 28, found & MODE), (0x9, SYSTEM), "flags and mode");
    }
    Ok(())
}
