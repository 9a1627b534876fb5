//! The PL011 (DDI 0183G), the PL031 (DDI 0224B), empty virtio slots and flash.

use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{gic, timer};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("uart-ids", 1, uart_ids),
    case("uart-registers", 1, uart_registers),
    case("uart-loopback", 1, uart_loopback),
    case("uart-receive-interrupt", 1, uart_receive_interrupt),
    case("uart-receive-watermark", 1, uart_receive_watermark),
    case("uart-transmit-interrupt", 1, uart_transmit_interrupt),
    case("uart-unknown", 1, uart_unknown),
    case("rtc-ids", 1, rtc_ids),
    case("rtc-counts", 1, rtc_counts),
    case("rtc-alarm", 1, rtc_alarm),
    case("rtc-unknown", 1, rtc_unknown),
    case("virtio-empty", 1, virtio_empty),
    hanok_case("flash-erased", 1, flash_erased),
    hanok_case("tree-seeds", 1, tree_seeds),
];

const UART: u64 = platform::UART.get();
const DR: u64 = 0x00;
const FR: u64 = 0x18;
const IBRD: u64 = 0x24;
const FBRD: u64 = 0x28;
const LCR_H: u64 = 0x2c;
const CR: u64 = 0x30;
const IFLS: u64 = 0x34;
const IMSC: u64 = 0x38;
const RIS: u64 = 0x3c;
const MIS: u64 = 0x40;
const ICR: u64 = 0x44;
const RX: u32 = 1 << 4;
const TX: u32 = 1 << 5;
const RT: u32 = 1 << 6;
const RXFE: u32 = 1 << 4;
const TXFE: u32 = 1 << 7;
const ON: u32 = 0x301;
const LOOPBACK: u32 = 1 << 7;
const FIFO: u32 = 0x70;

const RTC: u64 = platform::RTC.get();

fn ids(base: u64, peripheral: [u32; 4]) -> Outcome {
    let all = peripheral.into_iter().chain([0x0d, 0xf0, 0x05, 0xb1]);
    for (offset, expected) in (0xfe0..).step_by(4).zip(all) {
        check_eq!(read32(base + offset), expected, "{offset:#x}");
        write32(base + offset, 0xff);
        check_eq!(read32(base + offset), expected, "{offset:#x} after a write");
    }
    Ok(())
}

fn uart_ids(_: &Machine) -> Outcome {
    ids(UART, [0x11, 0x10, 0x14, 0x00])
}

fn uart_registers(_: &Machine) -> Outcome {
    wait_sent()?;
    for (register, value) in [(IBRD, 0x1234), (FBRD, 0x2a), (IFLS, 0x09), (IMSC, 0)] {
        let before = read32(UART + register);
        write32(UART + register, value);
        let after = read32(UART + register);
        write32(UART + register, before);
        check_eq!(after, value, "{register:#x}");
    }
    check_eq!(read32(UART + ICR), 0, "ICR");
    Ok(())
}

fn wait_sent() -> Outcome {
    let sent = timer::wait_until(|| read32(UART + FR) & TXFE != 0);
    check!(sent, "the transmitter stays busy");
    Ok(())
}

/// Runs `f` with the port in loopback. The characters sent appear on the console too.
fn in_loopback(f: impl FnOnce() -> Outcome) -> Outcome {
    wait_sent()?;
    write32(UART + LCR_H, FIFO);
    write32(UART + CR, ON | LOOPBACK);
    drain();
    write32(UART + ICR, 0x7ff);
    let outcome = f();
    write32(UART + IMSC, 0);
    drain();
    wait_sent()?;
    write32(UART + CR, ON);
    println!();
    outcome
}

fn drain() {
    for _ in 0..64 {
        if read32(UART + FR) & RXFE != 0 {
            return;
        }
        read32(UART + DR);
    }
}

fn receive(expected: u8) -> Outcome {
    let came = timer::wait_until(|| read32(UART + FR) & RXFE == 0);
    check!(came, "nothing comes back");
    check_eq!(read32(UART + DR), expected.into(), "received");
    Ok(())
}

fn uart_loopback(_: &Machine) -> Outcome {
    in_loopback(|| {
        let bytes = b'a'..=b'p';
        bytes.clone().for_each(crate::console::send);
        bytes.into_iter().try_for_each(receive)?;
        check!(read32(UART + FR) & RXFE != 0, "more than was sent");
        Ok(())
    })
}

/// The interrupt's states: raised, taken, level while its cause lasts, gone when the cause is gone.
fn uart_receive_interrupt(_: &Machine) -> Outcome {
    let id = platform::UART_IRQ.get();
    gic::set_edge(id, false);
    gic::enable(id);
    let outcome = in_loopback(|| {
        write32(UART + IMSC, RX | RT);
        check!(!gic::signalled(), "an interrupt before anything came");
        crate::console::send(b'.');
        check!(gic::wait_signalled(), "no interrupt");
        check!(read32(UART + MIS) & (RX | RT) != 0, "MIS");
        check_eq!(gic::acknowledge(), u64::from(id), "INTID");
        gic::end(id.into());
        check!(gic::wait_signalled(), "the level is gone after the end");
        receive(b'.')?;
        check_eq!(read32(UART + MIS), 0, "MIS after the read");
        check!(timer::wait_until(|| !gic::signalled()), "stays signalled");
        check_eq!(gic::acknowledge(), gic::SPURIOUS, "INTID after the read");
        Ok(())
    });
    gic::disable(id);
    outcome
}

/// Whatever IFLS says, the interrupt is pending when the FIFO is full, and not pending when it is
/// empty. QEMU raises it with the first byte, real hardware at the watermark.
fn uart_receive_watermark(_: &Machine) -> Outcome {
    for select in 0..5 {
        write32(UART + IFLS, select << 3 | 2);
        let outcome = in_loopback(|| {
            (0..16).for_each(|_| crate::console::send(b'.'));
            let raised = timer::wait_until(|| read32(UART + RIS) & RX != 0);
            check!(raised, "level {select}: not raised");
            drain();
            check_eq!(read32(UART + RIS) & (RX | RT), 0, "level {select}: RIS");
            Ok(())
        });
        write32(UART + IFLS, 0x12);
        outcome?;
    }
    Ok(())
}

fn uart_transmit_interrupt(_: &Machine) -> Outcome {
    let id = platform::UART_IRQ.get();
    gic::set_edge(id, false);
    gic::enable(id);
    wait_sent()?;
    write32(UART + LCR_H, FIFO);
    write32(UART + ICR, 0x7ff);
    write32(UART + IMSC, TX);
    (0..32).for_each(|_| crate::console::send(b'.'));
    let came = gic::wait_signalled();
    let taken = gic::acknowledge();
    write32(UART + ICR, TX);
    let status = read32(UART + MIS);
    gic::end(taken);
    write32(UART + IMSC, 0);
    gic::disable(id);
    println!();
    check!(came, "no interrupt");
    check_eq!(taken, u64::from(id), "INTID");
    check_eq!(status, 0, "MIS after the clear");
    Ok(())
}

fn all_zero(base: u64, offsets: &[u64]) -> Outcome {
    for offset in offsets {
        write32(base + offset, 0xffff_ffff);
        check_eq!(read32(base + offset), 0, "{offset:#x}");
    }
    Ok(())
}

fn uart_unknown(_: &Machine) -> Outcome {
    all_zero(UART, &[0x08, 0x14, 0x1c, 0x4c, 0x100, 0x800, 0xfdc])
}

fn rtc_ids(_: &Machine) -> Outcome {
    ids(RTC, [0x31, 0x10, 0x14, 0x00])
}

/// Of so many seconds one is not longer than two.
const SECONDS: usize = 20;

fn rtc_counts(machine: &Machine) -> Outcome {
    // The clock is after 2001 and before 2100: no VM is started in another time. Without one it begins with 1970.
    let start = read32(RTC);
    let sound = if machine.has_clock {
        1_000_000_000..4_102_444_800
    } else {
        0..1_000_000
    };
    check!(sound.contains(&start), "time {start}");
    check_eq!(read32(RTC + 0x0c), 1, "CR");
    let moved = timer::wait_until(|| read32(RTC) != start);
    check!(moved, "it stands still");
    // Where the machine stands still between a second and the look at the clock, as on an emulator of a busy PC,
    // that second looks long: one of some is not.
    let mut took = 0;
    for _ in 0..SECONDS {
        let before = (timer::now(), read32(RTC));
        let moved = timer::wait_until(|| read32(RTC) != before.1);
        took = timer::now() - before.0;
        check!(moved, "it stands still");
        if took <= timer::microseconds(2_000_000) {
            return Ok(());
        }
    }
    check!(false, "a second took {took} ticks");
    Ok(())
}

fn rtc_alarm(_: &Machine) -> Outcome {
    let id = platform::RTC_IRQ.get();
    gic::set_edge(id, false);
    gic::enable(id);
    write32(RTC + 0x1c, 1);
    write32(RTC + 0x10, 1);
    let at = read32(RTC) + 1;
    write32(RTC + 0x04, at);
    let early = gic::signalled() && read32(RTC) < at;
    let came = gic::wait_signalled();
    let taken = gic::acknowledge();
    let seen = (read32(RTC + 0x14), read32(RTC + 0x18), read32(RTC + 0x04));
    write32(RTC + 0x1c, 1);
    let after = read32(RTC + 0x14);
    gic::end(taken);
    write32(RTC + 0x10, 0);
    gic::disable(id);
    check!(!early && came, "early {early}, came {came}");
    check_eq!(taken, u64::from(id), "INTID");
    check_eq!(seen, (1, 1, at), "RIS, MIS and MR");
    check_eq!(after, 0, "RIS after the clear");
    Ok(())
}

fn rtc_unknown(_: &Machine) -> Outcome {
    all_zero(RTC, &[0x20, 0x100, 0xfdc])
}

/// QEMU shows version 1 or 2, by its default at the time; a driver skips either.
fn virtio_empty(machine: &Machine) -> Outcome {
    for slot in 0..platform::VIRTIO_SLOTS {
        let base = platform::VIRTIO.get() + slot * platform::VIRTIO_STRIDE;
        check_eq!(read32(base), 0x7472_6976, "magic of slot {slot}");
        let version = read32(base + 4);
        check!(matches!(version, 1 | 2), "version {version}");
        check_eq!(read32(base + 8), 0, "device id of slot {slot}");
        if machine.host == crate::tree::Host::Hanok {
            all_zero(base, &[0x10, 0x34, 0x44, 0x70, 0xfc, 0x100])?;
        }
    }
    Ok(())
}

/// QEMU's flash returns its file, or zeroes; Hanok's is erased, but for the bank of a firmware's variables.
fn flash_erased(machine: &Machine) -> Outcome {
    let banks = [0_u64, 0x03ff_fffc, 0x0400_0000, 0x07ff_fffc];
    let named = machine.devices.iter().any(|area| area.start == banks[2]);
    for address in &banks[..if named { 2 } else { 4 }] {
        let address = *address;
        write32(address, 0x98);
        let got = read32(address);
        if got != u32::MAX {
            return Err(Failure::wrong(format_args!("{address:#x}: {got:#x}")));
        }
    }
    Ok(())
}

/// The tree has random bytes, and they were filled in.
fn tree_seeds(machine: &Machine) -> Outcome {
    for (name, least, seed) in [
        ("rng-seed", 32, machine.seeds[0]),
        ("kaslr-seed", 8, machine.seeds[1]),
    ] {
        check!(seed.len() >= least, "{name}: {} bytes", seed.len());
        let is_new = |(index, byte): &(usize, &u8)| !seed[..*index].contains(byte);
        // Of 8 random bytes 5 or fewer differ from each other once in 20,000 times.
        let different = seed.iter().enumerate().filter(is_new).count();
        check!(different > 5, "{name}: only {different} different bytes");
        println!("{name} is {seed:02x?}");
    }
    Ok(())
}
