//! All CPUs work at once: they send interrupts to each other, wait, use floating point, turn off
//! and on.

use super::{Mess, row};
use crate::arch::fp;
use crate::machine::Machine;
use crate::{cpu, gic, mmio, psci, smp, timer};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use hanok_types::platform;

static STOP: AtomicBool = AtomicBool::new(false);
static CPUS: AtomicUsize = AtomicUsize::new(1);
static JOB: AtomicU64 = AtomicU64::new(0);

/// How long each kind of work runs, in microseconds.
const TIME: u64 = 20_000;

/// Runs each kind of work alone, then all of them at once.
pub fn run(machine: &Machine) {
    CPUS.store(machine.cpus, Relaxed);
    for (number, name) in JOBS.iter().enumerate() {
        JOB.store(number as u64, Relaxed);
        STOP.store(false, Relaxed);
        row(format_args!("together, {name}"), || {
            for index in 1..machine.cpus {
                if smp::start(index, work) != psci::SUCCESS {
                    println!("FAIL bounds: CPU {index} did not start");
                }
            }
            let end = timer::now() + timer::microseconds(TIME);
            while timer::now() < end {
                step(0);
            }
            STOP.store(true, Relaxed);
            // A CPU that waits for an interrupt is sent one.
            (0..16).for_each(gic::send_others);
            for index in 1..machine.cpus {
                if !smp::wait_off(index) {
                    println!("FAIL bounds: CPU {index} does not go off");
                }
            }
        });
        Mess::Nothing.make(machine);
        gic::init_distributor();
        gic::init_cpu(0);
    }
}

const JOBS: [&str; 5] = [
    "SGIs, taken",
    "SGIs, never taken",
    "short waits",
    "floating point",
    "messes",
];

fn work(index: usize) {
    while !STOP.load(Relaxed) {
        step(index);
    }
}

fn step(index: usize) {
    let cpus = CPUS.load(Relaxed);
    match JOB.load(Relaxed) {
        0 => {
            (0..16).for_each(gic::enable);
            cpu::with_interrupts(|| {
                for id in 0..16 {
                    gic::send_others(id);
                    (0..cpus).for_each(|to| gic::send_to(to, id));
                }
            });
        }
        1 => {
            (0..16).for_each(gic::enable);
            (0..16).for_each(gic::send_others);
            timer::spin(50);
        }
        2 => {
            gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
            let delay = timer::microseconds(10 + 5 * index as u64);
            write_sysreg!("cntv_cval_el0", timer::now() + delay);
            write_sysreg!("cntv_ctl_el0", timer::ENABLE);
            cpu::wait_for_interrupt();
            write_sysreg!("cntv_ctl_el0", 0);
            let id = gic::acknowledge();
            if id != gic::SPURIOUS {
                gic::end(id);
            }
        }
        3 => {
            fp::enable(true);
            fp::State::pattern(index as u64).load();
            gic::enable(platform::TIMER_PHYSICAL_IRQ.get());
            write_sysreg!("cntp_tval_el0", 100 * (1 + index as u64));
            write_sysreg!("cntp_ctl_el0", timer::ENABLE);
            cpu::with_interrupts(|| timer::spin(20));
            write_sysreg!("cntp_ctl_el0", 0);
        }
        _ => {
            let all = |register: u64| {
                for word in 0..9 {
                    let base = if word == 0 {
                        gic::frame(0)
                    } else {
                        gic::distributor()
                    };
                    mmio::write32(base + register + word * 4, u32::MAX);
                }
            };
            all(gic::ISENABLER);
            all(gic::ISPENDR);
            (32..288)
                .step_by(7)
                .for_each(|id| gic::route(id, (id as usize + index) % cpus));
            timer::spin(30);
            all(gic::ICPENDR);
            mmio::write32(gic::distributor(), 0);
            mmio::write32(gic::distributor(), 3);
        }
    }
}
