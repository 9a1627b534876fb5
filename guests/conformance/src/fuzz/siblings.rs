//! The other vCPUs: started, stopped, and at work that disturbs the fuzzer.

use super::Fuzzer;
use super::random::Random;
use super::repair;
use crate::arch::fp;
use crate::cpu::MAX_CPUS;
use crate::{boot, gic, mmio, psci, smp, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_types::platform;

/// The seed of what each of them does.
static SEEDS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Starts and stops each of them once, so that each has a job when a step starts it.
pub fn prepare(fuzzer: &mut Fuzzer<'_>) {
    for index in 1..fuzzer.machine.cpus {
        if smp::start(index, work) != psci::SUCCESS || !smp::wait_off(index) {
            fuzzer.wrong(format_args!("vCPU {index} does not come on and go off"));
        }
    }
}

/// Entry and context for CPU_ON of `target`, if `target` is one of them.
pub fn entry(fuzzer: &Fuzzer<'_>, target: u64) -> Option<(u64, u64)> {
    let known = (1..fuzzer.machine.cpus as u64).contains(&target);
    known.then(|| (boot::secondary_address(), target))
}

/// Starts one of them, or asks for its state.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let others = fuzzer.machine.cpus as u64 - 1;
    if others == 0 {
        return;
    }
    let index = 1 + random.below(others) as usize;
    SEEDS[index].store(random.next(), Relaxed);
    let started = smp::start(index, work);
    if !matches!(started, psci::SUCCESS | psci::ALREADY_ON | ON_PENDING) {
        fuzzer.wrong(format_args!("CPU_ON of vCPU {index}: {started}"));
    }
    let info = psci::affinity_info(index as u64);
    if !matches!(info, psci::ON | psci::OFF | psci::ON_PENDING) {
        fuzzer.wrong(format_args!("AFFINITY_INFO of vCPU {index}: {info}"));
    }
    if random.once_in(2) && !smp::wait_off(index) {
        rescue(fuzzer, index);
    }
}

/// A vCPU that waits for an interrupt which a step has disabled waits correctly, until the
/// interrupt is enabled again.
fn rescue(fuzzer: &mut Fuzzer<'_>, index: usize) {
    let could_hear = repair::hears_timer(index);
    repair::give_timer(index);
    if could_hear {
        fuzzer.wrong(format_args!("vCPU {index} does not go off"));
    } else if !smp::wait_off(index) {
        fuzzer.wrong(format_args!(
            "vCPU {index} does not go off even with its timer"
        ));
    } else {
        fuzzer.coverage.rescued += 1;
    }
}

/// CPU_ON: it was started and does not run yet (DEN 0022, 5.2.2).
const ON_PENDING: i64 = -5;

/// Does a little of everything, with all interrupts masked.
fn work(index: usize) {
    let mut random = Random::of(SEEDS[index].load(Relaxed), index as u64);
    // The next vCPU on the core finds its floating point registers saved away.
    fp::enable(true);
    fp::State::pattern(random.next()).load();
    for _ in 0..1 + random.below(4) {
        match random.below(5) {
            0 => (0..8).for_each(|id| gic::send_to(0, id)),
            1 => timer::spin(random.below(60)),
            2 => wait(random.below(60)),
            3 => drop(psci::call(
                random.next() & 0xc600_ffff | 0x8600_0000,
                1,
                2,
                3,
            )),
            _ => drop(mmio::read32(platform::UART.get() + random.below(64) * 4)),
        }
    }
}

/// WFI, with this CPU's own timer set to end it.
fn wait(microseconds: u64) {
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    write_sysreg!(
        "cntv_cval_el0",
        timer::now() + timer::microseconds(microseconds)
    );
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    let end = timer::now() + timer::microseconds(microseconds);
    // The first vCPU may have disabled our interrupts meanwhile.
    while timer::now() < end && gic::bit(gic::ISENABLER, platform::TIMER_VIRTUAL_IRQ.get()) {
        crate::cpu::wait_for_interrupt();
    }
    write_sysreg!("cntv_ctl_el0", 0);
}
