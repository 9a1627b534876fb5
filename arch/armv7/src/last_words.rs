//! The state of this CPU that a panic prints.

use crate::read;
use crate::vectors::FaultFrame;
use core::fmt::{self, Arguments};
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::space::{IMAGE_BASE, STACKS};
use hanok_types::Regs;

/// The vector of a data abort.
const DATA_VECTOR: u64 = 4;

const VECTORS: [&str; 8] = [
    "reset",
    "undefined instruction",
    "HVC or SVC",
    "prefetch abort",
    "data abort",
    "Hyp trap",
    "IRQ",
    "FIQ",
];

/// The address at which nothing answered the hypervisor, if this exception is a synchronous external
/// abort of its own load or store, or of a table walk for it (HSR, DDI 0406C, B3.13.6; DFSR with short
/// descriptors, B3.13.3).
pub fn unanswered(vector: u64) -> Option<u64> {
    /// A data abort taken from Hyp mode to itself.
    const DATA_ABORT: u64 = 0x25;
    if vector % 8 != DATA_VECTOR {
        return None;
    }
    if is_deprivileged() {
        let status = status(read!("esr_el1"));
        return matches!(status, 0x08 | 0x0c | 0x0e).then(|| read!("dfar_el1"));
    }
    let hsr = read!("esr_el2");
    let is_external = matches!(hsr & 0x3f, 0x10 | 0x14..=0x17);
    (hsr >> 26 == DATA_ABORT && is_external).then(|| read!("far_el2"))
}

/// FS of DFSR or IFSR with short descriptors.
fn status(register: u64) -> u64 {
    register & 0xf | register >> 6 & 0x10
}

/// An exception that the hypervisor itself took; `vector` counts the entries of its table. The first
/// line is said with "panic: " before it.
pub fn fault(vector: u64, frame: &FaultFrame, mut say: impl FnMut(Arguments<'_>)) {
    let kind = VECTORS[(vector % 8) as usize];
    let names = if is_deprivileged() { AT_PL1 } else { AT_HYP };
    let [syndrome, address, fetch] = syndromes(vector);
    // An access to mapped memory in the window of stacks does not fault.
    let why = if (STACKS..IMAGE_BASE).contains(&address) {
        " (a stack ran over)"
    } else {
        ""
    };
    say(format_args!(
        "panic: {kind} in the hypervisor at {:#x}{why}: {} {syndrome:#x} {} {address:#x} {} {fetch:#x}",
        frame.pc, names[0], names[1], names[2],
    ));
    for (index, values) in frame.r.chunks(4).enumerate() {
        say(format_args!("  r{:<2}{}", index * 4, Row(values)));
    }
    say(format_args!(
        "  sp  {:#x} lr {:#x} spsr {:#x}",
        frame.sp, frame.lr, frame.psr
    ));
}

/// The names of [`syndromes`] in Hyp mode, and at PL1, where an abort of a fetch has IFSR instead.
const AT_HYP: [&str; 3] = ["HSR", "HDFAR", "HIFAR"];
const AT_PL1: [&str; 3] = ["FSR", "DFAR", "IFAR"];

/// The status and the addresses of the fault of this vector.
fn syndromes(vector: u64) -> [u64; 3] {
    if !is_deprivileged() {
        return [read!("esr_el2"), read!("far_el2"), read!("ifar_el2")];
    }
    let status = if vector % 8 == DATA_VECTOR {
        read!("esr_el1")
    } else {
        read!("ifsr32_el2")
    };
    [status, read!("dfar_el1"), read!("ifar_el1")]
}

/// Prints how this CPU came here: the exit that it served last, and its own state.
pub fn cpu(mut say: impl FnMut(Arguments<'_>)) {
    let sp: u32;
    // SAFETY: reads the stack pointer.
    unsafe {
        core::arch::asm!("mov {}, sp", out(reg) sp, options(nomem, nostack, preserves_flags))
    };
    if is_deprivileged() {
        say(format_args!(
            "  sp {sp:#x} dfsr {:#x} dfar {:#x} ifsr {:#x} ifar {:#x}",
            read!("esr_el1"),
            read!("dfar_el1"),
            read!("ifsr32_el2"),
            read!("ifar_el1"),
        ));
        say(format_args!(
            "  sctlr {:#x} ttbr0 {:#x} dacr {:#x} mpidr {:#x}",
            read!("sctlr_el1"),
            read!("ttbr0_pl1"),
            read!("dacr32_el2"),
            read!("mpidr_el1"),
        ));
        return;
    }
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

/// The values of registers, in a line. They are no list of `Debug`, whose code nothing else in the image needs.
struct Row<'a, T>(&'a [T]);

impl<T: fmt::LowerHex> fmt::Display for Row<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|value| write!(f, " {value:x}"))
    }
}

/// A vCPU's general registers, the banked ones at the places that they have in AArch64.
pub fn registers(regs: &Regs, mut say: impl FnMut(Arguments<'_>)) {
    for (index, values) in regs.x.chunks(8).enumerate() {
        say(format_args!("    x{:<2}{}", index * 8, Row(values)));
    }
}
