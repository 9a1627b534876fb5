//! What happens where budgets are enforced: vCPUs of several groups wake at the same moment, sleep, and ask for
//! other interfaces. They come on and go off beside the rows, so that these have decisions alone.

use super::row;
use crate::machine::Machine;
use crate::sleep::sleep_until;
use crate::{cpu, gic, psci, smp, sweep, timer};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use hanok_types::platform;

static STOP: AtomicBool = AtomicBool::new(false);
static HERE: AtomicUsize = AtomicUsize::new(0);
static JOB: AtomicUsize = AtomicUsize::new(0);
/// The number by which the questions of each CPU differ.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// How long each kind of work runs, in microseconds.
const TIME: u64 = 40_000;
/// The moments for which all wait are so far apart, in microseconds.
const MOMENTS: u64 = 700;
/// How long a report may take after the key that ends the wait for it, in milliseconds.
const REPORT_MS: u64 = 200;

/// `hanok_abi::schedule`'s calls.
const READ: u64 = 0xc600_0011;
const ASK: u64 = 0xc600_0012;
const WAIT: u64 = 0xc600_0015;
const ITEMS: u64 = 11;
/// The answer that a question needs further steps.
const PENDING: i32 = -6;

/// A kind of work: its name, and what a CPU does for it, by its number.
type Job = (&'static str, fn(usize));

const JOBS: [Job; 6] = [
    ("timers of all at one moment", moment),
    ("short waits", short_wait),
    ("SGIs", signals),
    ("turns given up", given_up),
    ("items", items),
    ("questions", questions),
];

/// Runs each kind of work on all CPUs.
pub fn run(machine: &Machine) {
    for (number, (name, job)) in JOBS.iter().enumerate() {
        JOB.store(number, SeqCst);
        STOP.store(false, SeqCst);
        HERE.store(1, SeqCst);
        for index in 1..machine.cpus {
            if smp::start(index, work) != psci::SUCCESS {
                println!("FAIL bounds: CPU {index} did not start");
            }
        }
        timer::wait_until(|| HERE.load(SeqCst) == machine.cpus);
        row(format_args!("budgets, {name}"), || {
            let end = timer::now() + timer::microseconds(TIME);
            while timer::now() < end {
                job(0);
            }
        });
        STOP.store(true, SeqCst);
        for index in 1..machine.cpus {
            // One that waits for an interrupt is sent one.
            (0..16).for_each(gic::send_others);
            if !smp::wait_off(index) {
                println!("FAIL bounds: CPU {index} does not go off");
            }
        }
        gic::init_distributor();
        gic::init_cpu(0);
    }
}

/// Waits for a key, and for what is said after it.
pub fn report() {
    row(format_args!("a report"), || {
        // Said inside of the row, so that what answers this line is counted.
        println!("bounds: waits");
        while !sweep::key_came() {
            sleep_until(1, || false);
        }
        sleep_until(REPORT_MS, || false);
    });
}

fn work(index: usize) {
    HERE.fetch_add(1, SeqCst);
    let job = JOBS.get(JOB.load(SeqCst));
    while let (false, Some((_, job))) = (STOP.load(SeqCst), job) {
        job(index);
    }
}

/// Sleeps until the virtual timer fires at `at`.
fn sleep_to(at: u64) {
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    write_sysreg!("cntv_cval_el0", at);
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    cpu::wait_for_interrupt();
    write_sysreg!("cntv_ctl_el0", 0);
    let id = gic::acknowledge();
    if id != gic::SPURIOUS {
        gic::end(id);
    }
}

fn moment(_: usize) {
    let apart = timer::microseconds(MOMENTS);
    sleep_to((timer::now() / apart + 1) * apart);
}

fn short_wait(index: usize) {
    sleep_to(timer::now() + timer::microseconds(10 + 5 * index as u64));
}

fn signals(_: usize) {
    (0..16).for_each(gic::enable);
    (0..16).for_each(gic::send_others);
    cpu::with_interrupts(|| timer::spin(50));
}

fn given_up(_: usize) {
    call(WAIT, [0; 3]);
}

fn items(_: usize) {
    for item in 0..ITEMS {
        call(READ, [item, 0, 0]);
    }
    timer::spin(50);
}

/// Asks for one interface after the other, each in steps until it is answered.
fn questions(_: usize) {
    let number = ASKED.fetch_add(1, SeqCst);
    let period = 1_000_000 + number % 7 * 333_000;
    let budget = period / 100 * (1 + number % 5);
    while !STOP.load(SeqCst) && call(ASK, [period, budget, 0]) == PENDING {
        core::hint::spin_loop();
    }
}

fn call(function: u64, [a, b, c]: [u64; 3]) -> i32 {
    let mut registers = [function, a, b, c, 0, 0, 0, 0];
    psci::call_all(&mut registers);
    registers[0] as i32
}
