//! What grows with the number of CPUs: registers that concern all of them, interrupts for all, their starts
//! and ends, and what all of them do at the same moment.

use super::{Mess, places, row, touch};
use crate::machine::Machine;
use crate::{cpu, gic, psci, smp, timer};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use hanok_types::platform;

/// The CPUs may go off.
static OVER: AtomicBool = AtomicBool::new(false);
/// How many of the CPUs do what they are to do.
static HERE: AtomicUsize = AtomicUsize::new(0);
/// The moment for which all CPUs wait.
static MOMENT: AtomicU64 = AtomicU64::new(0);

/// The states in which registers are written.
const STATES: [Mess; 3] = [Mess::AtAll, Mess::AtAny, Mess::Active];
/// How long all CPUs wait for the same moment, in microseconds, while each of them comes to wait.
const WAIT: u64 = 100_000;

/// Does it.
pub fn run(machine: &Machine) {
    absent(machine);
    starts(machine);
    present(machine);
    moments(machine);
}

/// Writes registers while all others are off.
pub fn absent(machine: &Machine) {
    for mess in STATES {
        mess.make(machine);
        for place in places::of_all_cpus(machine) {
            row(format_args!("off, {}, {place}", mess.name()), || {
                touch(&place, Some(mess));
            });
            if place.spoils {
                mess.make(machine);
            }
        }
        sent(format_args!("off, {}", mess.name()));
    }
    Mess::Nothing.make(machine);
}

/// Writes registers while all others wait for interrupts.
fn present(machine: &Machine) {
    for mess in STATES {
        on(machine, wait);
        mess.make(machine);
        for place in places::of_all_cpus(machine).filter(|place| !place.spoils) {
            row(format_args!("on, {}, {place}", mess.name()), || {
                touch(&place, Some(mess));
            });
        }
        sent(format_args!("on, {}", mess.name()));
        if mess == Mess::Active {
            // What is active wakes nobody.
            Mess::AtAll.make(machine);
        }
        off(machine, mess.name());
        Mess::Nothing.make(machine);
        gic::init_distributor();
        gic::init_cpu(0);
    }
}

/// Lets all wait for the same moment.
fn moments(machine: &Machine) {
    for (name, job) in [
        ("virtual timers", virtual_timer as smp::Job),
        ("physical timers", physical_timer),
    ] {
        let moment = timer::now() + timer::microseconds(WAIT);
        MOMENT.store(moment, SeqCst);
        on(machine, job);
        row(format_args!("{name} of all at one moment"), || {
            while timer::now() < moment + timer::microseconds(1000) {}
        });
        off(machine, name);
    }
}

/// Starts all others, which do `job`.
fn on(machine: &Machine, job: smp::Job) {
    OVER.store(false, SeqCst);
    HERE.store(1, SeqCst);
    for index in 1..machine.cpus {
        if smp::start(index, job) != psci::SUCCESS {
            println!("FAIL bounds: CPU {index} does not start");
        }
    }
    timer::wait_until(|| HERE.load(SeqCst) == machine.cpus);
}

/// Ends what the others do. All go off at about the same time.
fn off(machine: &Machine, name: &str) {
    OVER.store(true, SeqCst);
    row(format_args!("{name}, all go off"), || {
        (0..16).for_each(gic::send_others);
        for index in 1..machine.cpus {
            if !smp::wait_off(index) {
                println!("FAIL bounds: CPU {index} does not go off");
            }
        }
    });
}

/// Turns all on, asks for each whether it is, and lets them go off.
fn starts(machine: &Machine) {
    OVER.store(false, SeqCst);
    HERE.store(1, SeqCst);
    row(format_args!("all come on"), || {
        for index in 1..machine.cpus {
            smp::start(index, wait);
            smp::start(index, wait);
        }
        for level in 0..4 {
            for index in 0..=machine.cpus {
                psci::call(0xc400_0004, smp::affinity(index % 64), level, 0);
            }
        }
        timer::wait_until(|| HERE.load(SeqCst) == machine.cpus);
    });
    off(machine, "starts");
}

/// Waits for interrupts without taking any.
fn wait(_: usize) {
    (0..16).for_each(gic::enable);
    HERE.fetch_add(1, SeqCst);
    while !OVER.load(SeqCst) {
        cpu::wait_for_interrupt();
    }
}

fn virtual_timer(_: usize) {
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    write_sysreg!("cntv_cval_el0", MOMENT.load(SeqCst));
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    wait(0);
    write_sysreg!("cntv_ctl_el0", 0);
}

fn physical_timer(_: usize) {
    gic::enable(platform::TIMER_PHYSICAL_IRQ.get());
    write_sysreg!("cntp_cval_el0", MOMENT.load(SeqCst));
    write_sysreg!("cntp_ctl_el0", timer::ENABLE);
    wait(0);
    write_sysreg!("cntp_ctl_el0", 0);
}

/// Sends SGIs to all others, and to the sixteen CPUs of each cluster.
fn sent(state: core::fmt::Arguments<'_>) {
    let clusters = (0..4).map(|aff1: u64| aff1 << 16 | 0xffff);
    row(format_args!("{state}, SGIs to many"), || {
        for to in clusters.chain([1 << 40]) {
            for id in 0..16_u64 {
                write_sysreg!("icc_sgi1r_el1", id << 24 | to);
                write_sysreg!("icc_sgi0r_el1", id << 24 | to);
                write_sysreg!("icc_asgi1r_el1", id << 24 | to);
            }
        }
    });
}
