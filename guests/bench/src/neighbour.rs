//! A VM that shares the core of the measuring VM, and does nothing else.

use crate::arch::count;
use hanok_guest_runtime::{cpu, smp};

/// The turns of a loop without a hint: at each YIELD an emulator would look for other cores to run,
/// which takes long.
const TURNS: u64 = 1_000_000;

/// Makes all vCPUs sleep for ever. No interrupt comes, because none is enabled.
pub fn sleep_for_ever(cpus: usize) -> ! {
    start_others(cpus, sleep);
    loop {
        cpu::wait_for_interrupt();
    }
}

/// Makes all vCPUs run for ever.
pub fn spin_for_ever(cpus: usize) -> ! {
    start_others(cpus, spin);
    loop {
        count(TURNS);
    }
}

fn start_others(cpus: usize, job: smp::Job) {
    for index in 1..cpus.min(cpu::MAX_CPUS) {
        smp::start(index, job);
    }
}

fn sleep(_: usize) {
    loop {
        cpu::wait_for_interrupt();
    }
}

fn spin(_: usize) {
    loop {
        count(TURNS);
    }
}
