//! The parts of the guest fuzzer that are specific to A32, T32 and the coprocessors' registers.

pub mod access;
pub mod code;
mod forms;
pub mod jumps;
mod kernel;
pub mod programs;
pub mod registers;
pub mod space;
pub mod tables;
pub mod tlb;
mod translations;
pub mod trip;

use crate::fuzz::Fuzzer;
use crate::fuzz::plan::Class;
use crate::fuzz::random::Random;
use hanok_guest_runtime::arch::mmu;

/// What is tried beside what all architectures have, with its weights: with short descriptors, where a hypervisor may have
/// no virtualization hardware.
pub fn extra() -> &'static [(Class, u64)] {
    if mmu::is_short() {
        &[(Class::Translations, 20), (Class::Kernel, 20)]
    } else {
        &[]
    }
}

/// One step of those.
pub fn extra_step(fuzzer: &mut Fuzzer<'_>, class: Class, random: &mut Random) {
    match class {
        Class::Translations => translations::step(fuzzer, random),
        Class::Kernel => kernel::step(fuzzer, random),
        _ => {}
    }
}
