//! The boot CPU on its own stack: it prints the resources of every VM, lets the VMs boot, and runs its
//! first vCPU.

use crate::fatal::refuse;
use crate::records::{Records, board_of};
use crate::selftest;
use crate::{Board, VmUnit};
use core::fmt::Write;
use hanok_arch::{Host, vectors, wiring};
use hanok_arm_common::cpu::{self, Cpu};
use hanok_hal::VmMemory;

/// Prints the resources of a VM.
fn introduce(unit: &VmUnit, board: &Board) {
    let mut blocks = heapless::String::<64>::new();
    for (count, size) in unit
        .memory
        .lock()
        .blocks()
        .iter()
        .zip(["1 GiB", "2 MiB", "4 KiB"])
    {
        if *count > 0 {
            let comma = if blocks.is_empty() { "" } else { ", " };
            // The buffer has room for three counts of ten digits with their words.
            let _ = write!(blocks, "{comma}{count} x {size}");
        }
    }
    wiring::say(
        board,
        format_args!(
            "vm {}: {} vCPU{}, {} MiB at {}, mapped by {blocks}",
            unit.vm.config().name,
            unit.vm.vcpus(),
            if unit.vm.vcpus() == 1 { "" } else { "s" },
            unit.ram.ipa().len() >> 20,
            unit.ram.host(),
        ),
    );
}

/// Changes to the boot CPU's own stack, and runs its vCPU there.
pub fn enter(mut cpus: Records) -> ! {
    let Some(first) = cpus.pop() else {
        refuse(format_args!("the board has no CPU"))
    };
    let stack = first.cpu.stack;
    let argument = core::ptr::from_mut(&mut first.cpu);
    // SAFETY: the stack is mapped, and this CPU's; nothing of the boot stack is needed again.
    unsafe { hanok_arch::go_on_stack(stack, argument, on_own_stack) }
}

extern "C" fn on_own_stack(cpu: *mut Cpu<Host>) -> ! {
    // SAFETY: the boot CPU's record, which lives for ever and is this CPU's alone.
    let board = board_of(unsafe { &*cpu });
    run(board)
}

/// Begins every VM's first boot, and runs this CPU's vCPU.
fn run(board: &'static Board) -> ! {
    selftest::late(board.bootargs);
    for unit in board.vms {
        introduce(unit, board);
    }
    wiring::begin_all(board);
    // SAFETY: the record was installed when this CPU was set up, and no reference to it is in use.
    let vcpu = wiring::begin(unsafe { cpu::here::<Host>() });
    // SAFETY: as above.
    let vcpu = unsafe { selftest::running(board.bootargs, vcpu) };
    // SAFETY: loaded by the scheduler for this CPU; this stack is not needed again.
    unsafe { vectors::enter(vcpu) }
}
