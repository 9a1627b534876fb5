//! A VM that shares its core with the one that measures, and does nothing but be there.

use crate::arch::count;
use hanok_guest_runtime::{cpu, smp};

/// Turns of a loop without a hint: an emulator would look for others at each YIELD, which takes long.
const TURNS: u64 = 1_000_000;

/// All vCPUs sleep, for ever. No interrupt comes, as none is on.
pub fn sleep_for_ever(cpus: usize) -> ! {
    start_others(cpus, sleep);
    loop {
        cpu::wait_for_interrupt();
    }
}

/// All vCPUs run, for ever.
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
