//! What holds for any sequence of accesses.

use crate::{Device, EmptySlots, Flash, Pl011, Pl031, locate};
use hanok_hal::fake::FakeSerialPort;
use hanok_types::{GicVersion, Ipa, Width};
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

const WIDTHS: [Width; 4] = [Width::Byte, Width::Half, Width::Word, Width::Double];
const DR: u64 = 0;
const FR: u64 = 0x18;
const IMSC: u64 = 0x38;
const RIS: u64 = 0x3c;
const MIS: u64 = 0x40;
const TXFF: u64 = 1 << 5;
const RXFE: u64 = 1 << 4;
const LOOPBACK: u64 = 1 << 7;

fn width() -> impl Strategy<Value = Width> {
    prop::sample::select(&WIDTHS[..])
}

/// Offsets of registers, mostly; some odd or outside the frame.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..0x14u64).prop_map(|word| word * 4), 1 => 0..0x1000u64, 1 => any::<u64>()]
}

#[derive(Clone, Debug)]
enum Step {
    Read(u64, Width),
    Write(u64, Width, u64),
    Receive(u8),
    Room(usize),
    Time(u64),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (offset(), width()).prop_map(|(at, width)| Step::Read(at, width)),
        4 => (offset(), width(), any::<u64>()).prop_map(|(at, width, value)| Step::Write(at, width, value)),
        2 => any::<u8>().prop_map(Step::Receive),
        2 => (0..20usize).prop_map(Step::Room),
        2 => any::<u64>().prop_map(Step::Time),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    #[test]
    fn a_pl011_s_line_is_its_masked_status(steps in vec(step(), 0..200)) {
        let mut uart = Pl011::new();
        let mut line = FakeSerialPort::default();
        for step in steps {
            match step {
                Step::Read(at, width) => { uart.read(at, width, &mut line); }
                Step::Write(at, width, value) => uart.write(at, width, value, &mut line),
                Step::Receive(byte) => { uart.receive(byte); }
                Step::Room(room) => { line.room = room; uart.transmit_ready(&mut line); }
                Step::Time(_) => {}
                Step::Reset => uart.reset(),
            }
            let raised = uart.interrupt();
            let mut word = |at| uart.read(at, Width::Word, &mut line);
            // A look at a register may send, and so raise; the look at MIS comes last.
            let before = if raised { word(MIS) } else { 0 };
            prop_assert!(!raised || before != 0);
            let (raw, mask, masked) = (word(RIS), word(IMSC), word(MIS));
            prop_assert_eq!(masked, raw & mask);
            prop_assert_eq!(uart.interrupt(), masked != 0);
        }
    }

    #[test]
    fn bytes_sent_come_out_in_order(fifo: bool, steps in vec((any::<u8>(), 0..4usize), 0..200)) {
        let mut uart = Pl011::new();
        let mut line = FakeSerialPort::default();
        uart.write(0x2c, Width::Word, u64::from(fifo) << 4, &mut line);
        let mut sent = Vec::new();
        for (byte, room) in steps {
            line.room = room;
            if uart.read(FR, Width::Word, &mut line) & TXFF == 0 {
                uart.write(DR, Width::Word, byte.into(), &mut line);
                sent.push(byte);
            }
        }
        line.room = usize::MAX;
        prop_assert!(uart.transmit_ready(&mut line));
        prop_assert_eq!(line.sent, sent);
        prop_assert_eq!(uart.dropped(), 0);
    }

    #[test]
    fn bytes_received_are_read_in_order(steps in vec((any::<u8>(), any::<bool>(), any::<bool>()), 0..200)) {
        let mut uart = Pl011::new();
        let mut line = FakeSerialPort::default();
        let (mut given, mut read) = (Vec::new(), Vec::new());
        for (byte, take, fifo) in steps {
            uart.write(0x2c, Width::Word, u64::from(fifo) << 4, &mut line);
            prop_assert_eq!(uart.room() > 0, uart.receive(byte) && { given.push(byte); true });
            if take && uart.read(FR, Width::Word, &mut line) & RXFE == 0 {
                read.push(uart.read(DR, Width::Word, &mut line) as u8);
            }
        }
        while uart.read(FR, Width::Word, &mut line) & RXFE == 0 {
            read.push(uart.read(DR, Width::Word, &mut line) as u8);
        }
        prop_assert_eq!(read, given);
    }

    #[test]
    fn loopback_gives_the_bytes_back(bytes in vec(any::<u8>(), 0..16)) {
        let mut uart = Pl011::new();
        let mut line = FakeSerialPort { room: usize::MAX, ..FakeSerialPort::default() };
        uart.write(0x2c, Width::Word, 1 << 4, &mut line);
        uart.write(0x30, Width::Word, LOOPBACK, &mut line);
        for byte in &bytes {
            uart.write(DR, Width::Byte, (*byte).into(), &mut line);
        }
        for byte in bytes {
            prop_assert_eq!(uart.read(DR, Width::Byte, &mut line), u64::from(byte));
        }
    }

    #[test]
    fn a_pl031_s_line_is_its_masked_status(epoch: u32, steps in vec(step(), 0..200)) {
        let mut rtc = Pl031::new(epoch);
        let mut now = 0;
        for step in steps {
            match step {
                Step::Read(at, width) => { rtc.read(at, width, now); }
                Step::Write(at, width, value) => rtc.write(at, width, value, now),
                Step::Time(ahead) => now = now.saturating_add(ahead % (1 << 34)),
                Step::Reset => rtc.reset(),
                Step::Receive(_) | Step::Room(_) => {}
            }
            rtc.update(now);
            let masked = rtc.read(0x18, Width::Word, now);
            let raw = rtc.read(0x14, Width::Word, now);
            let mask = rtc.read(0x10, Width::Word, now);
            prop_assert_eq!(masked, raw & mask);
            prop_assert_eq!(rtc.interrupt(), masked != 0);
            prop_assert!(rtc.next_alarm().is_none_or(|due| due > now));
            if let Some(due) = rtc.next_alarm() {
                let mut later = rtc.clone();
                later.update(due - 1);
                prop_assert_eq!(later.interrupt(), rtc.interrupt());
                later.update(due);
                prop_assert!(later.interrupt());
            }
        }
    }

    #[test]
    fn what_the_bus_finds_holds_the_access(ipa: u64, near in 0..0x4100_0000u64, bytes in 0..256u64, vcpus in 0..9usize, v2: bool) {
        let gic = if v2 { GicVersion::V2 } else { GicVersion::V3 };
        for ipa in [ipa, near] {
            let Some((device, offset)) = locate(Ipa::new(ipa), bytes, vcpus, gic) else { continue };
            let (at_start, zero) = locate(Ipa::new(ipa - offset), 1, vcpus, gic).expect("its first byte");
            prop_assert_eq!((at_start, zero), (device, 0));
            let (at_end, last) = locate(Ipa::new(ipa + bytes - 1), 1, vcpus, gic).expect("its last byte");
            prop_assert_eq!((at_end, last), (device, offset + bytes - 1));
            if let Device::GicRedist(vcpu) = device {
                prop_assert!(vcpu.index() < vcpus && !v2);
            }
        }
    }
}

#[test]
fn every_offset_and_width_answers() {
    let mut line = FakeSerialPort {
        room: usize::MAX,
        ..FakeSerialPort::default()
    };
    let (mut uart, mut rtc) = (Pl011::new(), Pl031::new(0));
    let (mut slots, mut flash) = (EmptySlots::new(), Flash::new());
    for offset in (0..0x1008).chain([u64::MAX - 4, u64::MAX]) {
        for width in WIDTHS {
            for value in [0, u64::MAX] {
                uart.write(offset, width, value, &mut line);
                rtc.write(offset, width, value, 0);
                slots.write();
                flash.write();
                let seen = [
                    uart.read(offset, width, &mut line),
                    rtc.read(offset, width, 0),
                    slots.read(offset, width),
                    flash.read(width),
                ];
                assert!(seen.iter().all(|seen| seen & !width.mask() == 0));
            }
        }
    }
}
