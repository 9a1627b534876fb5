//! What a GICv2 alone has (IHI 0048B): banked registers in the distributor, SGIs that know
//! their sender, targets of SPIs, the CPU interface in memory. Interrupts stay masked in
//! PSTATE, and the case takes them by hand.

use super::holes;
use crate::case::{Case, Outcome, case, hanok_case};
use crate::gic::{self, DIST, v2};
use crate::machine::Machine;
use crate::mmio::{read32, write8, write32};
use crate::sleep::sleep_until;
use crate::{cpu, psci, smp, timer};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("gicv2-ids", 1, ids).v2(),
    case("gicv2-frames", 1, frames).v2(),
    case("gicv2-unknown", 1, unknown).v2(),
    case("gicv2-rows", 1, rows).v2(),
    case("gicv2-targets", 1, targets).v2(),
    case("gicv2-banked", 2, banked).v2(),
    case("gicv2-sgi-pending", 1, sgi_pending).v2(),
    case("gicv2-sgi-senders", 1, sgi_senders).v2(),
    case("gicv2-sgi-filters", 1, sgi_filters).v2(),
    case("gicv2-sgi-sources", 2, sgi_sources).v2(),
    hanok_case("gicv2-spi-to-any", 2, spi_to_any).v2(),
    case("gicv2-eoi-mode", 1, eoi_mode).v2(),
    case("gicv2-groups", 1, groups).v2(),
    case("gicv2-interface", 1, interface).v2(),
    case("gicv2-off", 1, off).v2(),
    case("gicv2-level", 1, level).v2(),
];

/// An SPI that no device drives.
const SPI: u32 = 32 + 202;

fn dist(register: u64) -> u32 {
    read32(DIST + register)
}

fn byte(register: u64) -> u32 {
    dist(register & !3) >> (register % 4 * 8) & 0xff
}

fn ids(machine: &Machine) -> Outcome {
    let typer = dist(gic::TYPER);
    check!(
        (8..=9).contains(&(typer & 0x1f)),
        "ITLinesNumber: {typer:#x}"
    );
    check_eq!(typer >> 5 & 7, machine.cpus as u32 - 1, "CPUNumber");
    check_eq!(typer >> 10, 0, "no security extensions");
    check_eq!(dist(v2::PIDR2) >> 4 & 0xf, 2, "ICPIDR2.ArchRev");
    for (register, expected) in [(0xff0, 0x0d), (0xff4, 0xf0), (0xff8, 0x05), (0xffc, 0xb1)] {
        check_eq!(dist(register), expected, "{register:#x}");
        write32(DIST + register, 0);
        check_eq!(dist(register), expected, "{register:#x} after a write");
    }
    check_eq!(v2::read(v2::IIDR) >> 16 & 0xf, 2, "GICC_IIDR");
    Ok(())
}

/// The tree gives 64 KiB to the distributor and as many to the CPU interface, of which the first
/// page and the first two pages answer; the rest is unmapped.
fn frames(machine: &Machine) -> Outcome {
    for (frame, answers) in [
        (DIST, platform::GIC_V2_DIST_SIZE),
        (platform::GIC_V2_CPU.get(), platform::GIC_V2_CPU_SIZE),
    ] {
        let mut devices = machine.devices.iter();
        let area = devices.find(|area| area.start == frame);
        check_eq!(area.map(|area| area.size), Some(0x1_0000), "{frame:#x}");
        for offset in [answers, 0xff00] {
            holes::look(frame + offset)?;
        }
    }
    Ok(())
}

/// Reserved registers read as zero and ignore writes (4.1.3).
fn unknown(_: &Machine) -> Outcome {
    for register in [0x00c, 0x03c, 0xbfc, 0xf04, 0xf30] {
        write32(DIST + register, u32::MAX);
        check_eq!(dist(register), 0, "{register:#x}");
    }
    check_eq!(dist(v2::SGIR), 0, "GICD_SGIR is write-only");
    Ok(())
}

/// Registers with one bit, two bits or a byte for each interrupt hold what is written to them.
fn rows(_: &Machine) -> Outcome {
    let word = u64::from(SPI / 32) * 4;
    let mask = 1 << (SPI % 32);
    // QEMU keeps nothing pending that has no target.
    v2::target(SPI, 1);
    for (set, clear) in [
        (gic::ISENABLER, gic::ICENABLER),
        (gic::ISPENDR, gic::ICPENDR),
        (gic::ISACTIVER, gic::ICACTIVER),
    ] {
        write32(DIST + clear + word, mask);
        check_eq!(dist(set + word) & mask, 0, "{set:#x} before");
        write32(DIST + set + word, mask);
        write32(DIST + set + word, 0);
        check_eq!(
            (dist(set + word) & mask, dist(clear + word) & mask),
            (mask, mask),
            "{set:#x} after"
        );
        write32(DIST + clear + word, mask);
        check_eq!(dist(clear + word) & mask, 0, "{clear:#x} after");
    }
    write32(DIST + gic::IGROUPR + word, mask);
    check_eq!(dist(gic::IGROUPR + word), mask, "IGROUPR");
    write32(DIST + gic::IGROUPR + word, 0);
    let priority = gic::IPRIORITYR + u64::from(SPI & !3);
    write32(DIST + priority, 0x8050_c0f0);
    write8(DIST + priority + 2, 0x30);
    check_eq!(dist(priority), 0x8030_c0f0, "IPRIORITYR");
    for edge in [true, false] {
        gic::set_edge(SPI, edge);
        let config = dist(gic::ICFGR + u64::from(SPI / 16) * 4) >> (SPI % 16 * 2) & 2;
        check_eq!(config, u32::from(edge) * 2, "ICFGR");
    }
    check_eq!(dist(gic::ICFGR), 0xaaaa_aaaa, "ICFGR of SGIs");
    Ok(())
}

/// An SPI's targets are bytes whose bits exist for existing CPUs; with one CPU they are zero
/// (4.3.12).
fn targets(machine: &Machine) -> Outcome {
    let register = v2::ITARGETSR + u64::from(SPI);
    let all = if machine.cpus == 1 {
        0
    } else {
        (1 << machine.cpus) - 1
    };
    for value in [all, 0, 1 & all] {
        v2::target(SPI, value as u8);
        check_eq!(byte(register), value, "byte");
    }
    let word = register & !3;
    write32(DIST + word, all << 24 | all);
    check_eq!(dist(word), all << 24 | all, "word");
    write32(DIST + word, 0);
    write32(DIST + v2::ITARGETSR, 0);
    let own = if machine.cpus == 1 { 0 } else { 0x0101_0101 };
    check_eq!(dist(v2::ITARGETSR), own, "of private interrupts");
    Ok(())
}

static FOUND: AtomicU32 = AtomicU32::new(0);

/// Private interrupts' registers are each CPU's own (4.1.4).
fn banked(_: &Machine) -> Outcome {
    fn look(_: usize) {
        let id = gic::unused_private();
        let clean = !gic::bit(gic::ISENABLER, id)
            && byte(gic::IPRIORITYR + u64::from(id)) != 0x40
            && dist(v2::ITARGETSR + 8) == 0x0202_0202;
        gic::set_priority(id, 0x60);
        FOUND.store(u32::from(clean) + 1, SeqCst);
    }
    let id = gic::unused_private();
    gic::enable(id);
    gic::set_priority(id, 0x40);
    FOUND.store(0, SeqCst);
    check_eq!(smp::start(1, look), psci::SUCCESS, "CPU_ON");
    let off = smp::wait_off(1);
    let here = (gic::bit(gic::ISENABLER, id), byte(gic::IPRIORITYR + 20));
    gic::disable(id);
    check!(off, "vCPU 1 does not end");
    check_eq!(FOUND.load(SeqCst), 2, "vCPU 1's own registers");
    check_eq!(here, (true, 0x40), "this vCPU's, afterwards");
    Ok(())
}

/// GICD_ISPENDR and GICD_ICPENDR show an SGI but do not change it (4.3.7, 4.3.8).
fn sgi_pending(_: &Machine) -> Outcome {
    gic::set_mask(0);
    gic::set_bit(gic::ISPENDR, 6);
    let set = gic::bit(gic::ISPENDR, 6);
    gic::enable(6);
    gic::send_self(6);
    let sent = gic::bit(gic::ISPENDR, 6);
    gic::set_bit(gic::ICPENDR, 6);
    let stays = gic::bit(gic::ISPENDR, 6);
    gic::disable(6);
    let cleared = !gic::bit(gic::ISPENDR, 6);
    gic::set_mask(0xff);
    check_eq!(
        (set, sent, stays, cleared),
        (false, true, true, true),
        "set, sent, stays, cleared"
    );
    Ok(())
}

/// GICD_SPENDSGIR and GICD_CPENDSGIR: a bit for each sender, a byte for each SGI.
fn sgi_senders(_: &Machine) -> Outcome {
    let (set, clear) = (v2::SPENDSGIR + 4, v2::CPENDSGIR + 4);
    gic::set_mask(0);
    (4..8).for_each(gic::enable);
    // Not as a word: QEMU makes an SGI pending whose byte is zero, too.
    write8(DIST + set, 1);
    write8(DIST + set + 3, 1);
    let both = (dist(set), dist(clear));
    write8(DIST + clear + 3, 1);
    let one = dist(set);
    let shown = dist(gic::ISPENDR) & 0xf0;
    write32(DIST + clear, u32::MAX);
    let none = dist(clear);
    gic::set_mask(0xff);
    (4..8).for_each(gic::disable);
    check_eq!(
        both,
        (0x0100_0001, 0x0100_0001),
        "after SGIs 4 and 7 were set"
    );
    check_eq!(
        (one, shown, none),
        (1, 0x10, 0),
        "after 7, and all, were cleared"
    );
    check!(timer::wait_until(|| !gic::signalled()), "something is left");
    Ok(())
}

/// Takes the pending interrupt, and returns GICC_IAR unchanged.
fn take() -> u32 {
    let came = gic::wait_signalled();
    let value = v2::read(v2::IAR);
    if came && value & 0x3ff < 1020 {
        v2::write(v2::EOIR, value);
    }
    value
}

/// GICD_SGIR by list, to all others, and to itself (4.3.15), as the sender sees it.
fn sgi_filters(machine: &Machine) -> Outcome {
    let sgir = |filter: u32, list: u32| write32(DIST + v2::SGIR, filter << 24 | list << 16 | 5);
    gic::enable(5);
    let none = !timer::wait_until_us(200, || {
        // To no CPU, to CPUs that do not exist, and to all others.
        sgir(0, 0);
        sgir(0, 0xff & !((1 << machine.cpus) - 1));
        sgir(1, 0xff);
        gic::signalled()
    });
    sgir(2, 0);
    let itself = take();
    sgir(0, 1);
    let by_list = take();
    gic::disable(5);
    check!(none, "it came though it was not sent here");
    check_eq!(
        (itself, by_list),
        (5, 5),
        "IAR by filter 2, and by the list"
    );
    check!(timer::wait_until(|| !gic::signalled()), "something is left");
    // SGIs sent to the other CPUs stay pending there, and the start of these CPUs clears them.
    Ok(())
}

/// The same SGI from several senders is pending once for each, and GICC_IAR names the sender.
fn sgi_sources(machine: &Machine) -> Outcome {
    const ID: u32 = 9;
    fn send(index: usize) {
        // To CPU 0 by the list, and to all others: CPU 0 is one; together they are once.
        write32(DIST + v2::SGIR, 1 << 16 | ID);
        write32(DIST + v2::SGIR, 1 << 24 | ID);
        FOUND.fetch_or(1 << index, SeqCst);
    }
    FOUND.store(0, SeqCst);
    gic::set_mask(0);
    gic::enable(ID);
    gic::send_self(ID);
    for index in 1..machine.cpus {
        check_eq!(smp::start(index, send), psci::SUCCESS, "CPU_ON {index}");
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    let all = (1 << machine.cpus) - 1;
    let senders = byte(v2::SPENDSGIR + u64::from(ID));
    gic::set_mask(0xff);
    let mut taken = 0;
    for _ in 0..machine.cpus {
        let value = take();
        check_eq!(value & 0x3ff, ID, "IAR {value:#x}, id");
        let sender = 1 << (value >> 10 & 7);
        check_eq!(taken & sender, 0, "IAR {value:#x}, a sender again");
        taken |= sender;
    }
    let left = !timer::wait_until(|| !gic::signalled());
    gic::disable(ID);
    check_eq!(
        (senders, taken),
        (all, all),
        "GICD_SPENDSGIR, and those taken"
    );
    check!(!left && FOUND.load(SeqCst) == all & !1, "something is left");
    Ok(())
}

static WHO: AtomicU32 = AtomicU32::new(0);

/// One CPU takes an SPI that goes to all CPUs, each time (1.4.3: the 1-N model). In QEMU each takes
/// it.
fn spi_to_any(machine: &Machine) -> Outcome {
    fn listen(index: usize) {
        cpu::this().set_hook(Some(|id| {
            if id == SPI {
                WHO.fetch_add(1, SeqCst);
            }
        }));
        FOUND.fetch_or(1 << index, SeqCst);
        sleep_until(60_000, || FOUND.load(SeqCst) & 1 != 0);
        cpu::this().set_hook(None);
    }
    FOUND.store(0, SeqCst);
    WHO.store(0, SeqCst);
    gic::set_edge(SPI, true);
    gic::enable(SPI);
    let others = (1 << machine.cpus) - 2;
    v2::target(SPI, others as u8);
    for index in 1..machine.cpus {
        check_eq!(smp::start(index, listen), psci::SUCCESS, "CPU_ON {index}");
    }
    let ready = timer::wait_until(|| FOUND.load(SeqCst) == others);
    let mut rounds = 0;
    while ready && rounds < 100 {
        gic::pend(SPI);
        let gone = || {
            WHO.load(SeqCst) > rounds
                && !gic::bit(gic::ISPENDR, SPI)
                && !gic::bit(gic::ISACTIVER, SPI)
        };
        if !timer::wait_until(gone) {
            break;
        }
        rounds += 1;
    }
    FOUND.fetch_or(1, SeqCst);
    gic::send_others(15);
    let off = (1..machine.cpus).all(smp::wait_off);
    gic::disable(SPI);
    check!(ready && off, "the others: ready {ready}, off {off}");
    check_eq!((rounds, WHO.load(SeqCst)), (100, 100), "rounds, and taken");
    Ok(())
}

/// With EOImode, GICC_DIR deactivates, and needs an SGI's sender too (4.4.15).
fn eoi_mode(_: &Machine) -> Outcome {
    v2::write(v2::GICC_CTLR, v2::ENABLE_0 | v2::EOI_MODE);
    let control = v2::read(v2::GICC_CTLR);
    gic::set_edge(SPI, true);
    let mut seen = [(0, false, false); 2];
    for (id, seen) in [11, SPI].into_iter().zip(&mut seen) {
        gic::enable(id);
        gic::pend(id);
        let value = take();
        let before = gic::bit(gic::ISACTIVER, id);
        v2::write(v2::DIR, value);
        *seen = (value & 0x3ff, before, gic::bit(gic::ISACTIVER, id));
        gic::disable(id);
    }
    gic::reset_interface();
    check_eq!(control & v2::EOI_MODE, v2::EOI_MODE, "GICC_CTLR");
    check_eq!(
        seen,
        [(11, true, false), (SPI, true, false)],
        "id, active before and after GICC_DIR"
    );
    Ok(())
}

/// For an interrupt of group 1 GICC_IAR reads 1022, unless AckCtl is set (4.4.4). QEMU has no
/// separate registers for group 1.
fn groups(_: &Machine) -> Outcome {
    const ACK_CTL: u32 = 1 << 2;
    const NOT_YOURS: u32 = 1022;
    let group = |bits: u32| write32(DIST + gic::IGROUPR + u64::from(SPI / 32) * 4, bits);
    gic::set_edge(SPI, true);
    gic::enable(SPI);
    group(1 << (SPI % 32));
    gic::pend(SPI);
    timer::spin(50);
    let disabled = gic::signalled();
    v2::write(v2::GICC_CTLR, v2::ENABLE_0 | v2::ENABLE_1);
    let came = gic::wait_signalled();
    let refused = (v2::read(v2::HPPIR), v2::read(v2::IAR));
    v2::write(v2::GICC_CTLR, v2::ENABLE_0 | v2::ENABLE_1 | ACK_CTL);
    let pending = v2::read(v2::HPPIR);
    let taken = take();
    let active = gic::bit(gic::ISACTIVER, SPI);
    group(0);
    gic::reset_interface();
    gic::disable(SPI);
    check!(!disabled && came, "disabled {disabled}, enabled {came}");
    check_eq!(refused, (NOT_YOURS, NOT_YOURS), "HPPIR and IAR");
    check_eq!((pending, taken), (SPI, SPI), "HPPIR and IAR with AckCtl");
    check!(!active, "active after its end");
    Ok(())
}

/// The CPU interface's registers hold what is written to the bits that exist.
fn interface(_: &Machine) -> Outcome {
    for priority in [0xf0, 0x80, 0] {
        v2::write(v2::PMR, priority);
        check_eq!(v2::read(v2::PMR), priority, "PMR");
    }
    gic::reset_interface();
    for point in 3..8 {
        v2::write(v2::BPR, point);
        check_eq!(v2::read(v2::BPR), point, "BPR");
        v2::write(v2::ABPR, point);
        check_eq!(v2::read(v2::ABPR), point, "ABPR");
    }
    gic::reset_interface();
    // The end of an interrupt that is not active changes nothing.
    v2::write(v2::EOIR, SPI);
    v2::write(v2::EOIR, 1023);
    check_eq!(gic::running_priority(), gic::IDLE, "RPR");
    check_eq!(v2::read(v2::IAR), 1023, "IAR");
    Ok(())
}

/// With the distributor disabled nothing is signalled, and no pending state is lost.
fn off(_: &Machine) -> Outcome {
    gic::set_edge(SPI, true);
    gic::enable(SPI);
    write32(DIST, 0);
    gic::pend(SPI);
    timer::spin(50);
    let through = gic::signalled();
    v2::init_distributor();
    let value = take();
    gic::disable(SPI);
    check!(!through, "it came with the distributor off");
    check_eq!(value, SPI, "IAR");
    Ok(())
}

/// A level interrupt whose line is low: pending by a write, it is taken once (IHI 0048B, 3.2.4).
fn level(_: &Machine) -> Outcome {
    gic::set_edge(SPI, false);
    gic::enable(SPI);
    gic::pend(SPI);
    let value = take();
    let again = timer::wait_until_us(100, gic::signalled);
    gic::pend(SPI);
    gic::unpend(SPI);
    let cleared = !timer::wait_until_us(100, gic::signalled);
    gic::disable(SPI);
    check_eq!(value, SPI, "IAR");
    check!(!again && cleared, "again {again}, cleared {cleared}");
    Ok(())
}
