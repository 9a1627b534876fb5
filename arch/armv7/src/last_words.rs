//! The state of this CPU that a panic prints.

use crate::read;
use crate::vectors::FaultFrame;
use core::fmt::Arguments;
use hanok_arm_common::space::{IMAGE_BASE, STACKS};
use hanok_types::Regs;

const VECTORS: [&str; 8] = [
    "reset",
    "undefined instruction",
    "HVC",
    "prefetch abort",
    "data abort",
    "Hyp trap",
    "IRQ",
    "FIQ",
];

/// An exception that Hyp mode itself took; `vector` counts the entries of its table. The first
/// line is said with "panic: " before it.
pub fn fault(vector: u64, frame: &FaultFrame, mut say: impl FnMut(Arguments<'_>)) {
    let kind = VECTORS[(vector % 8) as usize];
    let (hsr, address, elr) = (read!("esr_el2"), read!("far_el2"), read!("elr_el2"));
    // An access to mapped memory in the window of stacks does not fault.
    let why = if (STACKS..IMAGE_BASE).contains(&address) {
        " (a stack ran over)"
    } else {
        ""
    };
    say(format_args!(
        "panic: {kind} in the hypervisor at {elr:#x}{why}: HSR {hsr:#x} HDFAR {address:#x} HIFAR \
         {:#x}",
        read!("ifar_el2")
    ));
    for (index, values) in frame.r.chunks(4).enumerate() {
        say(format_args!("  r{:<2} {values:x?}", index * 4));
    }
    say(format_args!("  sp  {:#x} lr {:#x}", frame.sp, frame.lr));
}

/// Prints how this CPU came here: the exit that it served last, and its own state.
pub fn cpu(mut say: impl FnMut(Arguments<'_>)) {
    let sp: u32;
    // SAFETY: reads the stack pointer.
    unsafe {
        core::arch::asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    say(format_args!(
        "  sp {sp:#x} hsr {:#x} elr {:#x} hdfar {:#x} hifar {:#x} hpfar {:#x} spsr {:#x}",
        read!("esr_el2"),
        read!("elr_el2"),
        read!("far_el2"),
        read!("ifar_el2"),
        read!("hpfar_el2"),
        read!("spsr_el2"),
    ));
    say(format_args!(
        "  hcr {:#x} vttbr {:#x} vtcr {:#x} hsctlr {:#x} httbr {:#x} mpidr {:#x}",
        read!("hcr_el2"),
        read!("vttbr_el2"),
        read!("vtcr_el2"),
        read!("sctlr_el2"),
        read!("ttbr0_el2"),
        read!("mpidr_el1"),
    ));
}

/// A vCPU's general registers, the banked ones at the places that they have in AArch64.
pub fn registers(regs: &Regs, mut say: impl FnMut(Arguments<'_>)) {
    for (index, values) in regs.x.chunks(8).enumerate() {
        say(format_args!("    x{:<2} {values:x?}", index * 8));
    }
}
