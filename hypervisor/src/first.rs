//! The boot CPU on its own stack: every VM is introduced and begun, and this CPU's first vCPU
//! runs.

use crate::selftest;
use core::fmt::Write;
use hanok_arch::board::Board;
use hanok_arch::unit::VmUnit;
use hanok_arch::{exits, schedule, vectors};

/// Says what a VM was given.
fn introduce(unit: &VmUnit, board: &Board) {
    let mut blocks = heapless::String::<64>::new();
    for (count, size) in unit.blocks.iter().zip(["1 GiB", "2 MiB", "4 KiB"]) {
        if *count > 0 {
            let comma = if blocks.is_empty() { "" } else { ", " };
            // Three counts of ten digits and their words fit.
            let _ = write!(blocks, "{comma}{count} x {size}");
        }
    }
    board.say(format_args!(
        "vm {}: {} vCPU{}, {} MiB at {}, mapped by {blocks}",
        unit.vm.config().name,
        unit.vm.vcpus(),
        if unit.vm.vcpus() == 1 { "" } else { "s" },
        unit.ram.ipa().len() >> 20,
        unit.ram.host(),
    ));
}

/// On the boot CPU's own stack: begins every VM's first life, and runs this CPU's vCPU.
pub fn run(board: &'static Board) -> ! {
    selftest::late(board.bootargs);
    for unit in board.vms {
        introduce(unit, board);
    }
    schedule::begin_all(board);
    let mut vcpu = schedule::next();
    selftest::running(board.bootargs);
    if selftest::wants_serror(board.bootargs) {
        vcpu = exits::system_error(vcpu);
    }
    // SAFETY: loaded by the scheduler for this CPU; this stack is not needed again.
    unsafe { vectors::enter(vcpu) }
}
