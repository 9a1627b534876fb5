//! Measures an SGI from one vCPU to another one on another core, and the answer in memory.
//!
//! The cost in the hypervisor is the number of instructions on both cores, which no counter of the
//! guest has: a tool counts them between the markers. The printed value is the time of a round less
//! that of a loop without it. On an emulator that runs the cores in turn, and switches at each
//! YIELD, that is the sum of what both execute, waiting included.

use crate::measure::{Stretch, not_here};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Release};
use hanok_bench_plan::{Figure, Least, Options, Waiting};
use hanok_guest_runtime::{cpu, gic, psci, smp, timer};

const ROUNDS: u64 = 256;
const PING: u32 = 3;
/// The SGI that wakes the other vCPU when it is to stop.
const WAKE: u32 = 15;

/// The number of interrupts that the other vCPU has handled.
static ANSWER: AtomicU64 = AtomicU64::new(0);
static READY: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);

/// Prints the figure.
pub fn measure(cpus: usize, options: &Options) {
    if cpus < 2 {
        not_here(Figure::Ipi, "there is one vCPU");
        return;
    }
    let job = match options.waiting {
        Waiting::Spin => spin,
        Waiting::Wfi => sleep,
    };
    if smp::start(1, job) != psci::SUCCESS || !timer::wait_until(|| READY.load(Acquire)) {
        println!("FAIL ipi: vCPU 1 did not start");
        return;
    }
    ping_pong(options.repeat);
    STOP.store(true, Release);
    gic::send_to(1, WAKE);
    if !smp::wait_off(1) {
        println!("FAIL ipi: vCPU 1 does not end");
    }
}

fn ping_pong(repeat: u32) {
    let stretch = Stretch {
        figure: Figure::Ipi,
        repeat,
        rounds: ROUNDS,
    };
    let mut with = Least::NONE;
    // One more than is counted, at the beginning: the first one costs more.
    for sample in 0..=u64::from(repeat) {
        let mut answered = true;
        let first = sample * ROUNDS + 1;
        let mut rounds = || answered = (first..first + ROUNDS).all(ping);
        if sample == 0 {
            rounds();
        } else {
            with.add(stretch.sample(rounds));
        }
        if !answered {
            println!("FAIL ipi: an interrupt is lost");
            return;
        }
    }
    stretch.print(with, core::iter::once(0).collect());
}

/// Sends interrupt number `count`, and waits until it is handled.
fn ping(count: u64) -> bool {
    gic::send_to(1, PING);
    timer::wait_until(|| ANSWER.load(Acquire) == count)
}

/// Publishes how many interrupts were taken and ended.
fn answer() {
    ANSWER.store(cpu::this().count(PING).into(), Release);
}

fn begin() {
    cpu::this().forget_interrupts();
    gic::enable(PING);
    gic::enable(WAKE);
    READY.store(true, Release);
}

/// Runs in a loop, and takes interrupts.
fn spin(_: usize) {
    begin();
    cpu::with_interrupts(|| {
        while !STOP.load(Acquire) {
            answer();
            timer::relax();
        }
    });
}

/// Sleeps, and takes interrupts.
fn sleep(_: usize) {
    begin();
    while !STOP.load(Acquire) {
        cpu::wait_for_interrupt();
        cpu::with_interrupts(|| {});
        answer();
    }
}
