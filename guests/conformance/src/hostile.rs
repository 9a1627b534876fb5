//! Attacks of a hostile guest: each runs for ever, on all vCPUs.

use crate::arch::{access, hostile as arch};
use crate::cases::{channels, pass_through, schedule};
use crate::cpu::{self, MAX_CPUS};
use crate::mmio::{read32, write8, write32};
use crate::sleep::sleep_until;
use crate::{gic, psci, smp, timer};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hanok_types::platform;

/// One attack.
pub struct Hostile {
    name: &'static str,
    job: smp::Job,
}

const ALL: &[Hostile] = &[
    hostile("mask", mask),
    hostile("sgi-storm", sgi_storm),
    hostile("wfi-storm", wfi_storm),
    hostile("hypercall-storm", hypercall_storm),
    hostile("mmio-storm", mmio_storm),
    hostile("ask-storm", ask_storm),
    hostile("ask-hold", ask_hold),
    hostile("console-storm", console_storm),
    hostile("crash", crash),
    hostile("garble", garble),
    hostile("timer-resets", timer_resets),
    hostile("vector-storm", vector_storm),
    hostile("kick-storm", kick_storm),
    hostile("line-storm", line_storm),
    hostile("wake-storm", wake_storm),
    hostile("cache-storm", cache_storm),
    hostile("channel-echo", channels::echo),
    hostile("channel-watch", channels::watch),
    hostile("channel-storm", channels::storm),
    hostile("channel-acknowledge", channels::acknowledge),
    hostile("idle", idle),
];

const fn hostile(name: &'static str, job: smp::Job) -> Hostile {
    Hostile { name, job }
}

/// The attack with this name.
pub fn named(name: &str) -> Option<&'static Hostile> {
    ALL.iter().find(|hostile| hostile.name == name)
}

impl Hostile {
    /// Prints the attack's name, and starts it on so many CPUs.
    pub fn run(&self, cpus: usize) -> ! {
        CPUS.store(cpus, Relaxed);
        println!("hostile: {} begins", self.name);
        for index in 1..cpus {
            if smp::start(index, self.job) != psci::SUCCESS {
                println!("FAIL hostile: CPU {index} did not start");
            }
        }
        (self.job)(0);
        println!("FAIL hostile: {} is over", self.name);
        psci::system_off()
    }
}

static CPUS: AtomicUsize = AtomicUsize::new(1);

/// Masks every interrupt that can be masked, and loops for ever.
pub fn mask(_: usize) {
    arch::mask()
}

/// Each vCPU sends every SGI to every vCPU, and takes those that come.
pub fn sgi_storm(_: usize) {
    let all = CPUS.load(Relaxed).min(MAX_CPUS);
    (0..16).for_each(gic::enable);
    cpu::with_interrupts(|| {
        loop {
            for id in 0..16 {
                gic::send_others(id);
                (0..all).for_each(|index| gic::send_to(index, id));
            }
        }
    })
}

/// Asks for other interfaces for ever, by both ways: some that may be had, some that may not, some that are none. It
/// follows some of its questions to their answers, and leaves the others for new ones. A budget that it could not ask with
/// again is refused.
pub fn ask_storm(index: usize) {
    let (mut random, mut granted, mut answers) = (Random(index as u64), 0_u64, 0);
    loop {
        let period = 500_000 + random.next() % 1_500_000;
        let wanted = match random.next() % 8 {
            0 => [0, random.next(), 0],
            1 => [random.next(), random.next(), random.next()],
            2 => [period, period, 0],
            3 => [period, 1, 0],
            _ => [period, period * (random.next() % 32) / 100, 0],
        };
        let way = schedule::WAYS[random.next() as usize % 2];
        for _ in 0..random.next() % 32 {
            way.call(schedule::ASK, wanted);
        }
        // Two to the end, of which one may be had: the answer may be thousands of calls away, as questions may not come too often.
        let to_the_end = |wanted| loop {
            match way.call(schedule::ASK, wanted).0 {
                schedule::PENDING | schedule::LATER => {}
                answer => break answer,
            }
        };
        let tiny = to_the_end([period, 1 + random.next() % 1_000, 0]);
        let good = to_the_end([period, period * (1 + random.next() % 30) / 100, 0]);
        granted += u64::from((tiny, good) == (schedule::REFUSED, schedule::DONE));
        answers += 1;
        if answers == 20 {
            println!("hostile: of 20 other interfaces {granted} were granted");
        }
    }
}

/// Always has a question under way, about more than there is: makes each of its pieces as late as it may, and begins the next
/// one with the answer.
pub fn ask_hold(_: usize) {
    let (mut budget, mut answers) = (396_000, 0);
    loop {
        budget ^= 1_024;
        while schedule::WAYS[0]
            .call(schedule::ASK, [1_000_000, budget, 0])
            .0
            == schedule::PENDING
        {
            let began = timer::now();
            while timer::now() - began < timer::frequency() / 10 {}
        }
        answers += 1;
        if answers == 2 {
            println!("hostile: two questions were answered");
        }
    }
}

/// Waits, and is woken as soon as it waits.
fn wfi_storm(index: usize) {
    let delay = timer::microseconds(10 + 5 * index as u64);
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    loop {
        write_sysreg!("cntv_cval_el0", timer::now() + delay);
        write_sysreg!("cntv_ctl_el0", timer::ENABLE);
        cpu::wait_for_interrupt();
        write_sysreg!("cntv_ctl_el0", 0);
        // The interrupt is taken by polling: a pending one would end the next wait before it
        // begins.
        let id = gic::acknowledge();
        if id != gic::SPURIOUS {
            gic::end(id);
        }
    }
}

/// Makes calls of every owner with every kind of argument, but none that ends the VM.
fn hypercall_storm(index: usize) {
    const FUNCTIONS: [u64; 8] = [
        psci::VERSION,
        psci::CPU_ON,
        psci::CPU_ON_32,
        psci::AFFINITY_INFO,
        psci::FEATURES,
        psci::SMCCC_ARCH_FEATURES,
        0x8600_0000,
        0xc600_ffff,
    ];
    let mut random = Random(index as u64);
    loop {
        let function = FUNCTIONS[random.next() as usize % FUNCTIONS.len()];
        let target = random.next() % 4 * (random.next() | 1);
        psci::call(function, target, random.next(), random.next());
    }
}

/// Accesses registers of every device, and unmapped addresses.
fn mmio_storm(index: usize) {
    const UART: u64 = platform::UART.get();
    let mut random = Random(index as u64 + 100);
    gic::enable(platform::UART_IRQ.get());
    loop {
        let value = random.next();
        let (word, value) = (value >> 32 & 0x3f, value as u32);
        match value % 8 {
            // The transmit interrupt rises and falls.
            0 => write32(UART + 0x38, value >> 8 & 0x7f0),
            1 => drop(read32(UART + word * 4)),
            2 => write32(gic::DIST + gic::ISENABLER + (word & !3), value),
            3 => write32(gic::DIST + gic::ICENABLER + (word & !3), value),
            4 => write8(gic::DIST + gic::IPRIORITYR + word * 4, value as u8),
            5 => gic::pend(32 + value / 8 % 200),
            6 => drop(read32(gic::DIST + gic::ISPENDR + (word & !3))),
            _ => nothing(0x0b00_0000 + word * 4096),
        }
    }
}

fn nothing(address: u64) {
    // SAFETY: nothing is there.
    let result = unsafe { access::store(address, 4, 0) };
    if result.is_ok() {
        println!("FAIL hostile: something is at {address:#x}");
    }
}

/// Prints without end.
fn console_storm(index: usize) {
    for line in 0_u64.. {
        println!("hostile: line {line} of vCPU {index}, which says more than anybody reads");
    }
}

/// Jumps to an address without an instruction, and sets the vectors to the same address.
fn crash(_: usize) {
    arch::crash(0x0b00_0000)
}

/// Makes its own translation useless, so that neither its next instruction nor its vectors can be
/// fetched: by a table in a device, or at an unmapped address. The first vCPU then resets the VM.
fn garble(index: usize) {
    // None of these addresses is the VM's memory: there the walk fails within the guest, and an
    // endless exception at each vector executes no instruction, so that QEMU's clock stands still
    // under icount.
    const ROOTS: [u64; 4] = [platform::UART.get(), gic::DIST, 0x0b00_0000, 0xff_ffff_f000];
    if index == 0 {
        sleep_until(2000, || false);
        psci::system_reset();
    }
    let choice = timer::now() as usize / 64 + index;
    arch::garble(ROOTS[choice % ROOTS.len()])
}

/// The first vCPU resets the VM again and again, while each other vCPU has a pending timer
/// interrupt that it never takes.
fn timer_resets(index: usize) {
    if index == 0 {
        timer::spin(50_000);
        psci::system_reset();
    }
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    write_sysreg!("cntv_cval_el0", timer::now());
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    arch::mask()
}

/// Executes erased flash, which is no code, with the vectors there too: it takes exceptions for
/// ever, none of which the hypervisor sees.
fn vector_storm(_: usize) {
    arch::crash(platform::FLASH.get())
}

/// The first vCPU sleeps, and nothing can wake it. The others try without end, by interrupts that
/// it does not take and by a clock whose alarm goes to it: other VMs on its core must notice little
/// of that.
fn kick_storm(index: usize) {
    const SGI: u32 = 9;
    gic::disable(SGI);
    if index == 0 {
        wait_for_ever();
    }
    const MATCH: u64 = platform::RTC.get() + 4;
    for round in 0_u32.. {
        gic::send_to(0, SGI);
        write32(MATCH, !0 - round % 2);
        gic::pend(platform::RTC_IRQ.get());
        gic::unpend(platform::RTC_IRQ.get());
    }
}

/// Each vCPU sleeps, and wakes all others as soon as it is awake.
fn wake_storm(index: usize) {
    const SGI: u32 = 9;
    let all = CPUS.load(Relaxed).min(MAX_CPUS);
    let delay = timer::microseconds(40 + 5 * index as u64);
    gic::enable(SGI);
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    loop {
        let others = (0..all).filter(|other| *other != index);
        others.for_each(|other| gic::send_to(other, SGI));
        // Each would sleep for ever if all did.
        write_sysreg!("cntv_cval_el0", timer::now() + delay);
        write_sysreg!("cntv_ctl_el0", timer::ENABLE);
        cpu::wait_for_interrupt();
        write_sysreg!("cntv_ctl_el0", 0);
        loop {
            let id = gic::acknowledge();
            if id == gic::SPURIOUS {
                break;
            }
            gic::end(id);
        }
    }
}

/// Empties the caches of instructions of all CPUs, and cleans a line by its set, without end.
fn cache_storm(_: usize) {
    loop {
        arch::empty_caches();
    }
}

/// The first vCPU, to whose core the interrupts of the VM's device go, sleeps. The others end these
/// interrupts as fast as they come, so that there is always one more.
fn line_storm(index: usize) {
    if index == 0 {
        wait_for_ever();
    }
    pass_through::line_storm(index)
}

/// The VM that the attacks are tried on: its timer interrupts it every ten microseconds for so many
/// milliseconds, and nothing else causes an exit.
pub fn tick(milliseconds: u64) {
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    println!("tick: begins");
    let end = timer::now() + timer::microseconds(milliseconds * 1000);
    let mut taken = 0;
    while timer::now() < end {
        write_sysreg!("cntv_cval_el0", timer::now() + timer::microseconds(10));
        write_sysreg!("cntv_ctl_el0", timer::ENABLE);
        while !gic::signalled() {}
        write_sysreg!("cntv_ctl_el0", 0);
        gic::end(gic::acknowledge());
        taken += 1;
    }
    println!("tick: {taken} interrupts taken");
}

fn wait_for_ever() -> ! {
    loop {
        cpu::wait_for_interrupt();
    }
}

/// Sleeps: the control, which attacks nothing.
fn idle(_: usize) {
    loop {
        sleep_until(1000, || false);
    }
}

/// Pseudo-random numbers (a linear congruential generator; its upper half is good).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
}
