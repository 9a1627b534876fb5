//! Fuzzes interrupts: storms between CPUs, timers with random values, interrupts masked for a
//! while, waits.

use super::random::Random;
use super::{Fuzzer, memory, repair};
use crate::arch::fuzz::code::{WFE, WFI, YIELD};
use crate::arch::fuzz::trip::{self, Kind, MASKED, OPEN, Start, Word};
use crate::{gic, mmio, timer};
use hanok_types::{GicVersion, platform};

/// The most interrupts that are taken at once.
const TAKEN: u64 = 24;

/// Runs for so many rounds with interrupts unmasked; each that comes is taken.
fn open(fuzzer: &mut Fuzzer<'_>, rounds: u64) {
    for _ in 0..TAKEN {
        let mut start = Start::NOWHERE;
        start.x[0] = rounds as Word;
        (start.pc, start.pstate) = (trip::spin() as Word, OPEN);
        // SAFETY: a loop that writes X0 alone.
        let end = unsafe { fuzzer.travel(&start) };
        match end.kind() {
            Kind::Irq | Kind::Fiq => repair::take(),
            Kind::SystemError => {}
            Kind::Synchronous(_) if end.arrived() => break,
            Kind::Synchronous(_) => {
                fuzzer.wrong(format_args!("a loop: {end:?}"));
                break;
            }
        }
    }
    repair::drain();
}

/// Sends SGIs to all CPUs, and to none; or triggers the interrupt of the board's device that the VM
/// has.
pub fn sgis(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let has_device = fuzzer.machine.has_own_device();
    if has_device && random.once_in(2) {
        device_line(fuzzer, random)
    } else {
        send(fuzzer, random)
    }
}

/// The device's line goes up and down while everything that the distributor allows is done to its
/// interrupt: it is enabled and disabled, made pending and active by a write, routed to CPUs that
/// exist or not, with any priority and either trigger, and ended or not.
fn device_line(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    const REGISTERS: [u64; 5] = [0x400, 0x404, 0x408, 0x40c, 0x410];
    const ROWS: [u64; 6] = [
        gic::ISENABLER,
        gic::ICENABLER,
        gic::ISPENDR,
        gic::ICPENDR,
        gic::ISACTIVER,
        gic::ICACTIVER,
    ];
    let id = platform::PASS_THROUGH_IRQ.get();
    let device = platform::PASS_THROUGH.get();
    repair::wakeable();
    for _ in 0..1 + random.below(24) {
        match random.below(8) {
            0..=2 => mmio::write32(device + random.pick(&REGISTERS), random.value() as u32),
            3..=5 => gic::set_bit(random.pick(&ROWS), id),
            6 => gic::set_priority(id, random.next() as u8),
            _ => match random.below(3) {
                0 => gic::route(id, random.below(8) as usize),
                1 => gic::set_edge(id, random.once_in(2)),
                _ => drop(gic::acknowledge()),
            },
        }
    }
    open(fuzzer, 50);
    mmio::write32(device + 0x410, 0);
    gic::set_bit(gic::ICENABLER, id);
    gic::set_bit(gic::ICACTIVER, id);
    repair::interface();
}

fn send(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    const SGIR: u64 = 0xf00;
    repair::wakeable();
    mmio::write32(gic::frame(0) + gic::ISENABLER, 0xffff);
    if gic::version() == GicVersion::V3 {
        // Interrupts of group 0 come as FIQ.
        mmio::write32(gic::frame(0) + gic::IGROUPR, random.next() as u32);
    }
    for _ in 0..1 + random.below(16) {
        let value = random.value();
        match gic::version() {
            GicVersion::V2 => mmio::write32(gic::distributor() + SGIR, value as u32),
            GicVersion::V3 => match random.below(4) {
                0 => write_sysreg!("icc_sgi0r_el1", value),
                1 => write_sysreg!("icc_asgi1r_el1", value),
                _ => write_sysreg!("icc_sgi1r_el1", value),
            },
        }
        gic::send_self(random.below(16) as u32);
    }
    open(fuzzer, 50);
}

/// Sets timers that fire now, never, or at a time far away.
pub fn timers(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    repair::wakeable();
    mmio::write32(gic::frame(0) + gic::ISENABLER, 1 << 27 | 1 << 30);
    for _ in 0..4 {
        let soon = timer::now() + random.below(500);
        let value = if random.once_in(2) {
            soon
        } else {
            random.value()
        };
        match random.below(6) {
            0 => write_sysreg!("cntv_cval_el0", value),
            1 => write_sysreg!("cntv_tval_el0", value),
            2 => write_sysreg!("cntp_cval_el0", value),
            3 => write_sysreg!("cntp_tval_el0", value),
            4 => write_sysreg!("cntv_ctl_el0", value),
            _ => write_sysreg!("cntp_ctl_el0", value),
        }
        let _ = [read_sysreg!("cntp_tval_el0"), read_sysreg!("cntp_ctl_el0")];
    }
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    write_sysreg!("cntv_cval_el0", timer::now() + random.below(200));
    let rounds = random.below(1000);
    open(fuzzer, rounds);
}

/// Leaves interrupts masked for a while.
pub fn masked(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    repair::wakeable();
    repair::alarm(random.below(20));
    gic::send_self(random.below(16) as u32);
    let mut start = Start::NOWHERE;
    start.x[0] = random.below(20_000) as Word;
    (start.pc, start.pstate) = (trip::spin() as Word, MASKED);
    // SAFETY: a loop that writes X0 alone.
    let end = unsafe { fuzzer.travel(&start) };
    if !end.arrived() {
        let kind = end.kind();
        fuzzer.wrong(format_args!("masked, and {kind:?}"));
    }
    open(fuzzer, 10);
}

/// Executes WFI and WFE, one after the other.
pub fn waits(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        repair::wakeable();
        repair::alarm(1 + random.below(30));
        memory::put_code([random.pick(&[WFI, WFI, WFE, YIELD]), WFI]);
        let mut start = Start::NOWHERE;
        start.x.iter_mut().for_each(|x| *x = random.next() as Word);
        start.pc = memory::CODE.address() as Word;
        start.pstate = if random.once_in(2) { OPEN } else { MASKED };
        // SAFETY: hints.
        let end = unsafe { fuzzer.travel(&start) };
        if start.x != end.x {
            fuzzer.wrong(format_args!("a register changed over a wait"));
        }
        repair::drain();
    }
}
