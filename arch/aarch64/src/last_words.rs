//! The state of this CPU that a panic prints.

use crate::read;
use crate::vectors::FaultFrame;
use core::fmt::Arguments;
use hanok_arm_common::space::{IMAGE_BASE, STACKS};
use hanok_types::Regs;

const VECTORS: [&str; 4] = ["synchronous exception", "IRQ", "FIQ", "SError"];

/// The address at which nothing answered the hypervisor, if this exception is a synchronous external
/// abort of its own load or store, or of a table walk for it (DDI 0487, D24.2 "ESR_EL2", ISS of a Data
/// Abort).
pub fn unanswered(vector: u64) -> Option<u64> {
    /// A data abort taken from EL2 to itself.
    const DATA_ABORT: u64 = 0x25;
    let syndrome = read!("esr_el2");
    let is_own = vector.is_multiple_of(4) && syndrome >> 26 & 0x3f == DATA_ABORT;
    let is_external = matches!(syndrome & 0x3f, 0x10 | 0x14..=0x17);
    (is_own && is_external).then(|| read!("far_el2"))
}

/// An exception that EL2 itself took; `vector` counts the entries of its own two quarters of
/// the table. The first line is said with "panic: " before it.
pub fn fault(vector: u64, frame: &FaultFrame, mut say: impl FnMut(Arguments<'_>)) {
    let kind = VECTORS[(vector % 4) as usize];
    let (esr, far, elr) = (read!("esr_el2"), read!("far_el2"), read!("elr_el2"));
    // An access to mapped memory in the window of stacks does not fault.
    let why = if (STACKS..IMAGE_BASE).contains(&far) {
        " (a stack ran over)"
    } else {
        ""
    };
    say(format_args!(
        "panic: {kind} in the hypervisor at {elr:#x}{why}: ESR_EL2 {esr:#x} FAR_EL2 {far:#x}"
    ));
    for (index, values) in frame.x.chunks(4).enumerate() {
        say(format_args!("  x{:<2} {values:x?}", index * 4));
    }
    say(format_args!("  sp  {:#x}", frame.sp));
}

/// Prints how this CPU came here: the exit that it served last, and its own state.
pub fn cpu(mut say: impl FnMut(Arguments<'_>)) {
    let sp: u64;
    // SAFETY: reads the stack pointer.
    unsafe {
        core::arch::asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    say(format_args!(
        "  sp {sp:#x} esr {:#x} elr {:#x} far {:#x} hpfar {:#x} spsr {:#x}",
        read!("esr_el2"),
        read!("elr_el2"),
        read!("far_el2"),
        read!("hpfar_el2"),
        read!("spsr_el2"),
    ));
    say(format_args!(
        "  hcr {:#x} vttbr {:#x} vtcr {:#x} sctlr {:#x} ttbr0 {:#x} mpidr {:#x}",
        read!("hcr_el2"),
        read!("vttbr_el2"),
        read!("vtcr_el2"),
        read!("sctlr_el2"),
        read!("ttbr0_el2"),
        read!("mpidr_el1"),
    ));
}

/// A vCPU's general registers.
pub fn registers(regs: &Regs, mut say: impl FnMut(Arguments<'_>)) {
    for (index, values) in regs.x.chunks(4).enumerate() {
        say(format_args!("    x{:<2} {values:x?}", index * 4));
    }
}
