//! All CPUs at once (`conformance.run=online`): each is started, says who it is, is reached by an
//! interrupt for itself and by one for all, and turns itself off.

use crate::machine::Machine;
use crate::{cpu, gic, psci, smp, timer};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// For one CPU.
const ALONE: u32 = 5;
/// For all but the sender.
const TOGETHER: u32 = 6;

/// How many CPUs run that have the affinity they should have.
static HERE: AtomicUsize = AtomicUsize::new(0);

/// The CPUs may go.
static OVER: AtomicBool = AtomicBool::new(false);

/// Does it, and says how many of the CPUs came through each part.
pub fn run(machine: &Machine) {
    let others = 1..machine.cpus;
    gic::enable(ALONE);
    gic::enable(TOGETHER);
    for index in others.clone() {
        if smp::start(index, wait) != psci::SUCCESS {
            println!("FAIL online: CPU {index} does not start");
        }
        timer::wait_until(|| HERE.load(SeqCst) == index);
    }
    println!("online: {} of {} CPUs", HERE.load(SeqCst) + 1, machine.cpus);
    let reached = others.clone().filter(|index| {
        gic::send_to(*index, ALONE);
        timer::wait_until(|| cpu::of(*index).count(ALONE) == 1)
    });
    println!("online: {} reached one by one", reached.count());
    gic::send_others(TOGETHER);
    let reached = others
        .clone()
        .filter(|index| timer::wait_until(|| cpu::of(*index).count(TOGETHER) == 1));
    println!("online: {} reached at once", reached.count());
    OVER.store(true, SeqCst);
    gic::send_others(TOGETHER);
    println!(
        "online: {} off again",
        others.filter(|index| smp::wait_off(*index)).count()
    );
}

fn wait(index: usize) {
    gic::enable(ALONE);
    gic::enable(TOGETHER);
    if read_sysreg!("mpidr_el1") & 0xff_00ff_ffff == smp::affinity(index) {
        HERE.fetch_add(1, SeqCst);
    }
    // Masked between the look and WFI, which a pending interrupt ends nevertheless.
    while !OVER.load(SeqCst) {
        cpu::wait_for_interrupt();
        cpu::with_interrupts(|| {});
    }
}
