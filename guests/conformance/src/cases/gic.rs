//! The interrupt controller on one CPU, GICv2 (IHI 0048B) or GICv3 (IHI 0069H): states,
//! priorities, levels. Interrupts stay masked in PSTATE, and the case takes them by hand.

use crate::case::{Case, Outcome, case};
use crate::gic::{
    self, acknowledge, bit, deactivate, disable, enable, end, pend, send_self, set_bit,
    set_priority, signalled, unpend, v3,
};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{cpu, timer};

pub const CASES: &[Case] = &[
    case("gic-ids", 1, ids).v3(),
    case("gic-redistributors", 1, redistributors).v3(),
    case("gic-unknown", 1, unknown).v3(),
    case("gic-banks", 1, banks).v3(),
    case("gic-spurious", 1, spurious),
    case("gic-sgi-self", 1, sgi_self),
    case("gic-sgi-all", 1, sgi_all),
    case("gic-priority-order", 1, priority_order),
    case("gic-many-spis", 1, many_spis),
    case("gic-preemption", 1, preemption),
    case("gic-mask", 1, mask),
    case("gic-binary-point", 1, binary_point),
    case("gic-pending", 1, pending),
    case("gic-active", 1, active),
    case("gic-disable", 1, disabling),
    case("gic-edge", 1, edge),
    case("gic-group-enable", 1, group_enable),
    case("gic-eoi-mode-1", 1, eoi_mode_1),
    case("gic-taken", 1, taken),
];

/// An SPI that no device drives.
const SPI: u32 = 32 + 200;

fn ids(machine: &Machine) -> Outcome {
    let revision = read32(gic::DIST + v3::PIDR2) >> 4 & 0xf;
    check_eq!(revision, 3, "GICD_PIDR2.ArchRev");
    let lines = read32(gic::DIST + gic::TYPER) & 0x1f;
    check!((8..=9).contains(&lines), "GICD_TYPER.ITLinesNumber {lines}");
    for index in 0..machine.cpus {
        let revision = read32(v3::redistributor(index) + v3::PIDR2) >> 4 & 0xf;
        check_eq!(revision, 3, "GICR_PIDR2.ArchRev of {index}");
    }
    Ok(())
}

fn redistributors(machine: &Machine) -> Outcome {
    const LAST: u32 = 1 << 4;
    for index in 0..machine.cpus {
        let base = v3::redistributor(index);
        let (low, affinity) = (read32(base + 8), read32(base + 12));
        check_eq!(affinity, index as u32, "affinity of {index}");
        check_eq!(
            low >> 8 & 0xffff,
            index as u32,
            "processor number of {index}"
        );
        check_eq!(
            low & LAST != 0,
            index + 1 == machine.cpus,
            "Last of {index}"
        );
        let both = crate::mmio::read64(base + 8);
        check_eq!(
            both,
            u64::from(low) | u64::from(affinity) << 32,
            "64 bits of {index}"
        );
    }
    Ok(())
}

/// Reserved registers read as zero and ignore writes (IHI 0069H, 12.1.1).
fn unknown(_: &Machine) -> Outcome {
    let reserved = [
        gic::DIST + 0x14,
        gic::DIST + 0x4000,
        v3::redistributor(0) + 0x1_0010,
    ];
    for address in reserved {
        write32(address, u32::MAX);
        check_eq!(read32(address), 0, "{address:#x}");
    }
    Ok(())
}

/// Registers of private interrupts in the distributor are zero when affinity routing is on.
fn banks(_: &Machine) -> Outcome {
    for row in [
        gic::ISENABLER,
        gic::ISPENDR,
        gic::ISACTIVER,
        gic::IPRIORITYR,
    ] {
        write32(gic::DIST + row, u32::MAX);
        check_eq!(read32(gic::DIST + row), 0, "{row:#x}");
    }
    let sgi_edge = read32(gic::frame(0) + gic::ICFGR);
    check_eq!(sgi_edge, 0xaaaa_aaaa, "ICFGR of SGIs");
    gic::set_priority(SPI, 0xff);
    let bits = read32(gic::DIST + gic::IPRIORITYR + u64::from(SPI)) & 0xff;
    check!(bits >= 0xf0, "priority bits {bits:#x}");
    Ok(())
}

fn spurious(_: &Machine) -> Outcome {
    check!(!signalled(), "an interrupt is signalled");
    check_eq!(acknowledge(), gic::SPURIOUS, "IAR");
    check_eq!(gic::highest_pending(), gic::SPURIOUS, "HPPIR");
    check_eq!(gic::running_priority(), gic::IDLE, "RPR");
    Ok(())
}

/// Takes `id` once and ends it; no interrupt may be pending afterwards.
fn take_one(id: u32) -> Outcome {
    check!(gic::wait_signalled(), "{id}: not signalled");
    check_eq!(gic::highest_pending(), u64::from(id), "HPPIR");
    check_eq!(acknowledge(), u64::from(id), "IAR");
    check_eq!(gic::running_priority(), u64::from(gic::PRIORITY), "RPR");
    check!(
        bit(gic::ISACTIVER, id) && !bit(gic::ISPENDR, id),
        "{id}: not active alone"
    );
    end(id.into());
    check!(!bit(gic::ISACTIVER, id), "{id}: active after its end");
    nothing_left()
}

fn nothing_left() -> Outcome {
    check!(timer::wait_until(|| !signalled()), "something is left");
    check_eq!(acknowledge(), gic::SPURIOUS, "IAR at the end");
    check_eq!(gic::running_priority(), gic::IDLE, "RPR at the end");
    Ok(())
}

fn sgi_self(_: &Machine) -> Outcome {
    for id in 0..16 {
        enable(id);
        send_self(id);
        let outcome = take_one(id);
        disable(id);
        outcome?;
    }
    Ok(())
}

/// More interrupts are pending at once than there are list registers; each is taken once.
fn sgi_all(_: &Machine) -> Outcome {
    for round in 0..10 {
        (0..16).for_each(enable);
        (0..16).for_each(send_self);
        let (mut seen, mut count) = (0_u32, 0);
        while count < 16 && gic::wait_signalled() {
            let id = acknowledge();
            check!(id < 16, "round {round}: IAR {id} after {count}");
            seen |= 1 << id;
            count += 1;
            end(id);
        }
        (0..16).for_each(disable);
        check_eq!((seen, count), (0xffff, 16), "round {round}");
        nothing_left()?;
    }
    Ok(())
}

/// The most urgent is taken first, whichever became pending first.
fn priority_order(_: &Machine) -> Outcome {
    gic::set_mask(0);
    for id in 0..16 {
        enable(id);
        set_priority(id, 0xf0 - (id * 5 % 15 * 16) as u8);
        send_self(id);
    }
    gic::set_mask(0xff);
    let mut last = 0;
    for _ in 0..15 {
        check!(gic::wait_signalled(), "too few");
        let id = acknowledge();
        let priority = gic::running_priority();
        end(id);
        check!(priority >= last, "{priority:#x} after {last:#x}");
        last = priority;
    }
    // A priority mask of 0xff lets priorities below it through; 0xf0 is one.
    let id = acknowledge();
    end(id);
    (0..16).for_each(disable);
    nothing_left()
}

/// 64 SPIs pending at once, none lost.
fn many_spis(_: &Machine) -> Outcome {
    let all = SPI - 64..SPI;
    for id in all.clone() {
        gic::set_edge(id, true);
        enable(id);
    }
    all.clone().for_each(pend);
    let mut seen = 0_u64;
    while seen != u64::MAX && gic::wait_signalled() {
        let id = acknowledge();
        check!(all.contains(&(id as u32)), "IAR {id}");
        seen |= 1 << (id - u64::from(SPI - 64));
        end(id);
    }
    all.for_each(disable);
    check_eq!(seen, u64::MAX, "seen");
    nothing_left()
}

fn preemption(_: &Machine) -> Outcome {
    let levels = [(1, 0xc0), (2, 0x80), (3, 0x40)];
    for (id, priority) in levels {
        enable(id);
        set_priority(id, priority);
        send_self(id);
        check!(gic::wait_signalled(), "{id}: does not preempt");
        check_eq!(acknowledge(), u64::from(id), "IAR");
        check_eq!(gic::running_priority(), u64::from(priority), "RPR");
    }
    // An interrupt less urgent than the running priority waits.
    enable(4);
    set_priority(4, 0x60);
    send_self(4);
    timer::spin(100);
    check!(!signalled(), "0x60 preempts 0x40");
    end(3);
    check!(gic::wait_signalled(), "0x60 does not preempt 0x80");
    check_eq!(acknowledge(), 4, "IAR of the waiting one");
    for (id, running) in [(4, 0x80), (2, 0xc0), (1, gic::IDLE)] {
        end(id);
        check_eq!(
            gic::running_priority(),
            running,
            "RPR after the end of {id}"
        );
    }
    (1..5).for_each(disable);
    nothing_left()
}

fn mask(_: &Machine) -> Outcome {
    enable(5);
    gic::set_mask(gic::PRIORITY);
    send_self(5);
    timer::spin(100);
    let through = signalled();
    let taken = acknowledge();
    gic::set_mask(gic::PRIORITY + 0x10);
    let later = gic::wait_signalled();
    let id = acknowledge();
    end(id);
    gic::set_mask(0xff);
    disable(5);
    check!(
        !through && taken == gic::SPURIOUS,
        "came through: IAR {taken}"
    );
    check!(later && id == 5, "does not come: IAR {id}");
    nothing_left()
}

/// With a binary point, priorities of one group do not preempt each other.
fn binary_point(_: &Machine) -> Outcome {
    check!(gic::set_group_priority(6), "the binary point");
    for (id, priority) in [(1, 0xb0), (2, 0x90), (3, 0x40)] {
        enable(id);
        set_priority(id, priority);
    }
    send_self(1);
    check!(gic::wait_signalled(), "1: not signalled");
    check_eq!(acknowledge(), 1, "IAR");
    send_self(2);
    timer::spin(100);
    let within = signalled();
    send_self(3);
    let across = gic::wait_signalled();
    let first = acknowledge();
    end(first);
    end(1);
    let second = acknowledge();
    end(second);
    gic::reset_interface();
    (1..4).for_each(disable);
    check!(!within && across, "in the group {within}, across {across}");
    check_eq!((first, second), (3, 2), "order");
    nothing_left()
}

/// An interrupt that is pending while disabled shows in the distributor alone, and is not
/// signalled.
fn pending(_: &Machine) -> Outcome {
    for id in [gic::unused_private(), SPI] {
        disable(id);
        if id == SPI {
            gic::set_edge(id, true);
            // QEMU's GICv2 keeps no interrupt pending that has no target.
            gic::route(id, 0);
        }
        pend(id);
        check!(bit(gic::ISPENDR, id), "{id}: not pending");
        check!(
            !signalled() && acknowledge() == gic::SPURIOUS,
            "{id}: came while disabled"
        );
        unpend(id);
        check!(!bit(gic::ICPENDR, id), "{id}: pending after the clear");
        enable(id);
        timer::spin(50);
        check!(!signalled(), "{id}: came after the clear");
        set_bit(gic::ICENABLER, id);
        pend(id);
        enable(id);
        let outcome = take_one(id);
        disable(id);
        outcome?;
    }
    Ok(())
}

/// An active interrupt is not signalled again until it is deactivated.
fn active(_: &Machine) -> Outcome {
    for id in [gic::unused_private(), SPI] {
        enable(id);
        set_bit(gic::ISACTIVER, id);
        check!(bit(gic::ISACTIVER, id), "{id}: not active");
        pend(id);
        timer::spin(100);
        check!(!signalled(), "{id}: came while active");
        set_bit(gic::ICACTIVER, id);
        check!(!bit(gic::ICACTIVER, id), "{id}: active after the clear");
        let outcome = take_one(id);
        disable(id);
        outcome?;
    }
    Ok(())
}

/// Disabling takes a pending interrupt back from the CPU.
fn disabling(_: &Machine) -> Outcome {
    for id in [gic::unused_private(), SPI] {
        if id == SPI {
            gic::set_edge(id, true);
        }
        enable(id);
        pend(id);
        check!(gic::wait_signalled(), "{id}: not signalled");
        set_bit(gic::ICENABLER, id);
        check!(!bit(gic::ISENABLER, id), "{id}: enabled");
        check!(timer::wait_until(|| !signalled()), "{id}: stays signalled");
        check_eq!(acknowledge(), gic::SPURIOUS, "IAR");
        check!(bit(gic::ISPENDR, id), "{id}: no longer pending");
        enable(id);
        let outcome = take_one(id);
        disable(id);
        outcome?;
    }
    Ok(())
}

/// An edge while the interrupt is active makes it active and pending.
fn edge(_: &Machine) -> Outcome {
    gic::set_edge(SPI, true);
    enable(SPI);
    pend(SPI);
    check!(gic::wait_signalled(), "not signalled");
    check_eq!(acknowledge(), u64::from(SPI), "IAR");
    pend(SPI);
    check!(
        bit(gic::ISPENDR, SPI) && bit(gic::ISACTIVER, SPI),
        "not active and pending"
    );
    timer::spin(50);
    check!(!signalled(), "came while active");
    end(SPI.into());
    let outcome = take_one(SPI);
    disable(SPI);
    outcome
}

fn group_enable(_: &Machine) -> Outcome {
    enable(9);
    gic::set_group_enabled(false);
    send_self(9);
    timer::spin(50);
    let through = signalled();
    gic::set_group_enabled(true);
    check!(!through, "came with the group disabled at the CPU");
    let outcome = take_one(9);
    disable(9);
    outcome
}

/// The end drops the priority, DIR deactivates.
fn eoi_mode_1(_: &Machine) -> Outcome {
    gic::split_end(true);
    let outcome = eoi_mode_1_inner();
    gic::reset_interface();
    disable(10);
    disable(11);
    outcome?;
    nothing_left()
}

fn eoi_mode_1_inner() -> Outcome {
    enable(10);
    enable(11);
    send_self(10);
    check!(gic::wait_signalled(), "not signalled");
    check_eq!(acknowledge(), 10, "IAR");
    end(10);
    check_eq!(gic::running_priority(), gic::IDLE, "RPR after the drop");
    check!(bit(gic::ISACTIVER, 10), "not active after the drop");
    send_self(10);
    timer::spin(50);
    check!(!signalled(), "came again while active");
    send_self(11);
    check!(gic::wait_signalled(), "11: not signalled");
    check_eq!(acknowledge(), 11, "IAR of the other");
    end(11);
    deactivate(11);
    deactivate(10);
    check!(gic::wait_signalled(), "does not come after DIR");
    check_eq!(acknowledge(), 10, "IAR after DIR");
    end(10);
    deactivate(10);
    check!(!bit(gic::ISACTIVER, 10), "active after DIR");
    Ok(())
}

/// Takes the interrupt through the vector, not by polling.
fn taken(_: &Machine) -> Outcome {
    let cpu = cpu::this();
    cpu.forget_interrupts();
    enable(12);
    let came = cpu::with_interrupts(|| {
        (1..=100).all(|round| {
            send_self(12);
            timer::wait_until(|| cpu.count(12) == round)
        })
    });
    disable(12);
    check!(came, "taken {} times", cpu.count(12));
    nothing_left()
}
