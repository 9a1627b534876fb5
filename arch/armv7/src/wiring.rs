//! What the image's wiring calls of the executive: made here, once, for this backend, as a generic
//! function is made anew in each crate that names it.

use crate::{Host, Vcpu};
use core::fmt::Arguments;
use hanok_arm_common::cpu::Cpu;
use hanok_pcpu::Board;

/// Schedules for the first time on a CPU, and gives the vCPU to enter.
#[inline(never)]
pub fn begin(cpu: &mut Cpu<Host>) -> *mut Vcpu {
    cpu.begin()
}

/// Lets every VM boot that boots by itself.
#[inline(never)]
pub fn begin_all(board: &'static Board<Host>) {
    hanok_pcpu::begin_all(board);
}

/// Says one line of the hypervisor's own on the console.
#[inline(never)]
pub fn say(board: &Board<Host>, text: Arguments<'_>) {
    board.say(text);
}
