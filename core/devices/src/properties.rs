//! Properties that hold for every sequence of accesses.

use crate::virtio::{Backed, SharedDevice};
use crate::{
    Access, Behind, Device, Notice, Pl011, Pl031, ScheduleRegisters, Slots, World, nor_memory,
};
use hanok_config::{DeviceKind, VirtioKind, firmware_slots, platform_slots};
use hanok_hal::fake::FakeSerialPort;
use hanok_hal::sync::atomic::AtomicU32;
use hanok_hal::{LineFull, SerialPort};
use hanok_types::{Ipa, Span, Width};
use proptest::collection::vec;
use proptest::prelude::*;
use std::boxed::Box;
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

/// Mostly offsets of registers; some are unaligned or outside the frame.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..0x14u64).prop_map(|word| word * 4), 1 => 0..0x1000u64, 1 => any::<u64>()]
}

#[derive(Clone, Debug)]
enum DeviceEvent {
    Read(u64, Width),
    Write(u64, Width, u64),
    Receive(u8),
    Room(usize),
    Time(u64),
    Reset,
}

fn step() -> impl Strategy<Value = DeviceEvent> {
    prop_oneof![
        4 => (offset(), width()).prop_map(|(at, width)| DeviceEvent::Read(at, width)),
        4 => (offset(), width(), any::<u64>()).prop_map(|(at, width, value)| DeviceEvent::Write(at, width, value)),
        2 => any::<u8>().prop_map(DeviceEvent::Receive),
        2 => (0..20usize).prop_map(DeviceEvent::Room),
        2 => any::<u64>().prop_map(DeviceEvent::Time),
        1 => Just(DeviceEvent::Reset),
    ]
}

proptest! {
    #[test]
    fn a_pl011_s_line_is_its_masked_status(steps in vec(step(), 0..200)) {
        let mut uart = Pl011::new();
        let mut line = FakeSerialPort::default();
        for step in steps {
            match step {
                DeviceEvent::Read(at, width) => { uart.read(at, width, &mut line); }
                DeviceEvent::Write(at, width, value) => uart.write(at, width, value, &mut line),
                DeviceEvent::Receive(byte) => { let _ = uart.receive(byte); }
                DeviceEvent::Room(room) => { line.room = room; let _ = uart.transmit_ready(&mut line); }
                DeviceEvent::Time(_) => {}
                DeviceEvent::Reset => uart.reset(),
            }
            let raised = uart.interrupt();
            let mut word = |at| uart.read(at, Width::Word, &mut line);
            // A read of a register may send a byte and so raise the interrupt, so MIS is read last.
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
        prop_assert_eq!(uart.transmit_ready(&mut line), Ok(()));
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
            let room = uart.room() > 0;
            prop_assert_eq!(room, uart.receive(byte).is_ok());
            if room { given.push(byte); }
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
                DeviceEvent::Read(at, width) => { rtc.read(at, width, now); }
                DeviceEvent::Write(at, width, value) => rtc.write(at, width, value, now),
                DeviceEvent::Time(ahead) => now = now.saturating_add(ahead % (1 << 34)),
                DeviceEvent::Reset => rtc.reset(),
                DeviceEvent::Receive(_) | DeviceEvent::Room(_) => {}
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
    fn the_slot_that_is_found_contains_the_access(ipa: u64, near in 0..0x4100_0000u64, bytes in 1..256u64) {
        let slots = Slots::new(&firmware_slots(), 0, &[], &[]);
        let find = |at, bytes| {
            let access = Span::new(Ipa::new(at), bytes)?;
            slots.find(&access).map(|(slot, offset)| (slot.index(), offset))
        };
        for ipa in [ipa, near] {
            let Some((slot, offset)) = find(ipa, bytes) else { continue };
            prop_assert_eq!(find(ipa - offset, 1), Some((slot, 0)));
            prop_assert_eq!(find(ipa + bytes - 1, 1), Some((slot, offset + bytes - 1)));
        }
    }

    /// The flash holds the bytes that were programmed last where no sector was erased since, and all ones elsewhere.
    #[test]
    fn the_flash_keeps_what_was_programmed(steps in vec((any::<bool>(), 0..0x10_0400u64, width(), any::<u32>()), 0..40), reset: bool) {
        let mut device = Device::new(DeviceKind::Nor, 0, Behind { shared: None, memory: memory() });
        let mut world = FakeWorld::default();
        let mut expected = std::vec![0xff_u8; 0x10_0408];
        let mut touched = Vec::new();
        let mut put = |device: &mut Device, at, width, value: u32| {
            device.access(at, Access::store(Ipa::new(at), width, value.into()), &mut world);
        };
        for (erase, at, width, value) in steps {
            touched.push(at);
            if erase {
                put(&mut device, at, Width::Word, 0x20);
                put(&mut device, at, Width::Word, 0xd0);
                let sector = (at & !0x3_ffff) as usize;
                let end = (sector + 0x4_0000).min(expected.len());
                expected[sector..end].fill(0xff);
            } else if width != Width::Double {
                put(&mut device, at, Width::Word, 0x40);
                put(&mut device, at, width, value);
                let bytes = value.to_le_bytes();
                for (byte, at) in bytes.iter().take(width.bytes() as usize).zip(at..0x10_0000) {
                    expected[at as usize] = *byte;
                }
            }
        }
        if reset { device.reset(); } else { put(&mut device, 0, Width::Word, 0xff); }
        for at in touched.into_iter().flat_map(|at| [at.saturating_sub(8), at, at ^ 0x400, at ^ 0x1_0000]) {
            let bytes = expected.get(at as usize..at as usize + 8);
            let wanted = bytes.map_or(u64::MAX, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
            let load = Access::load(Ipa::new(at), Width::Double);
            prop_assert_eq!(device.access(at, load, &mut FakeWorld::default()), wanted, "{:#x}", at);
        }
    }

    /// A device in a slot does what its model does, and gives the same notices.
    #[test]
    fn a_device_of_any_kind_keeps_its_word(steps in vec(step(), 0..100), kind in prop::sample::select(all_kinds())) {
        let shared = shared(kind);
        let mut device = Device::new(kind, 1000, Behind { shared, memory: &[] });
        let mut world = FakeWorld::default();
        for step in steps {
            match step {
                DeviceEvent::Read(at, width) => {
                    let value = device.access(at, Access::load(Ipa::new(at), width), &mut world);
                    prop_assert_eq!(value & !width.mask(), 0);
                }
                DeviceEvent::Write(at, width, value) => {
                    let store = Access::store(Ipa::new(at), width, value);
                    prop_assert_eq!(device.access(at, store, &mut world), 0);
                }
                DeviceEvent::Time(ahead) => {
                    world.now = world.now.saturating_add(ahead % (1 << 34));
                    device.pass_time(world.now);
                    prop_assert!(device.due().is_none_or(|due| due > world.now));
                }
                DeviceEvent::Room(room) => world.line.room = room,
                DeviceEvent::Reset => {
                    let counted = device.unknown();
                    device.reset();
                    prop_assert!(!device.level() && device.due().is_none());
                    prop_assert_eq!(device.unknown(), counted);
                }
                DeviceEvent::Receive(_) => {}
            }
            match (kind, device.notice()) {
                (DeviceKind::Pl011, Notice::Serial { .. }) | (DeviceKind::Pl031, Notice::Time) => {}
                (
                    DeviceKind::EmptyTransports
                    | DeviceKind::Flash
                    | DeviceKind::Schedule
                    | DeviceKind::Nor
                    | DeviceKind::FwCfg
                    | DeviceKind::Channel,
                    Notice::None,
                ) => {
                    prop_assert!(!device.level() && device.due().is_none());
                }
                (DeviceKind::Virtio(_) | DeviceKind::BackEnd, Notice::None) => {
                    prop_assert!(device.due().is_none());
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

fn all_kinds() -> Vec<DeviceKind> {
    let virtio = VirtioKind::ALL.into_iter().map(DeviceKind::Virtio);
    DeviceKind::ALL.into_iter().chain(virtio).collect()
}

/// A record for a device that needs one.
fn shared(kind: DeviceKind) -> Option<&'static SharedDevice> {
    let kind = match kind {
        DeviceKind::Virtio(kind) => kind,
        DeviceKind::BackEnd => VirtioKind::Block,
        _ => return None,
    };
    let backed = if kind.has_back_end() {
        Backed::ByVm { trusted: true }
    } else {
        Backed::ByHypervisor
    };
    Some(Box::leak(Box::new(SharedDevice::new(kind, backed))))
}

/// Memory of an erased bank of flash.
pub(crate) fn memory() -> &'static [AtomicU32] {
    let words = nor_memory(&[]).map(AtomicU32::new);
    Box::leak(words.collect::<Vec<_>>().into_boxed_slice())
}

/// A serial line that takes some bytes, and a clock.
#[derive(Debug)]
pub(crate) struct FakeWorld {
    line: FakeSerialPort,
    now: u64,
    schedule: ScheduleRegisters,
}

impl Default for FakeWorld {
    fn default() -> Self {
        Self {
            line: FakeSerialPort::default(),
            now: 0,
            schedule: ScheduleRegisters::RESET,
        }
    }
}

impl SerialPort for FakeWorld {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        self.line.try_send(byte)
    }
}

impl World for FakeWorld {
    fn seconds(&self) -> u64 {
        self.now
    }

    fn schedule(&mut self) -> &mut ScheduleRegisters {
        &mut self.schedule
    }
}

#[test]
fn every_offset_and_width_answers() {
    let mut world = FakeWorld::default();
    world.line.room = usize::MAX;
    for kind in all_kinds() {
        let (shared, memory) = (shared(kind), memory());
        let mut device = Device::new(kind, 0, Behind { shared, memory });
        for offset in (0..0x1008).chain([u64::MAX - 4, u64::MAX]) {
            for width in WIDTHS {
                for value in [0, u64::MAX] {
                    let store = Access::store(Ipa::new(offset), width, value);
                    device.access(offset, store, &mut world);
                    let load = Access::load(Ipa::new(offset), width);
                    let seen = device.access(offset, load, &mut world);
                    assert_eq!(seen & !width.mask(), 0, "{kind:?} {offset:#x}");
                }
            }
        }
    }
}

fn at(ipa: u64, bytes: u64) -> Option<(DeviceKind, u64)> {
    let slots = Slots::new(&platform_slots(), 0, &[], &[]);
    let access = Span::new(Ipa::new(ipa), bytes)?;
    slots
        .find(&access)
        .map(|(slot, offset)| (slot.kind(), offset))
}

#[test]
fn devices_are_where_qemu_has_them() {
    assert_eq!(at(0x07ff_fffc, 4), Some((DeviceKind::Flash, 0x07ff_fffc)));
    assert_eq!(at(0x0900_0018, 4), Some((DeviceKind::Pl011, 0x18)));
    assert_eq!(at(0x0901_0ffc, 4), Some((DeviceKind::Pl031, 0xffc)));
    assert_eq!(at(0x090c_0030, 4), Some((DeviceKind::Schedule, 0x30)));
    assert_eq!(at(0x0a00_0204, 4), Some((DeviceKind::EmptyTransports, 4)));
    let last = (DeviceKind::EmptyTransports, 0x1fc);
    assert_eq!(at(0x0a00_3ffc, 4), Some(last));
    let between = [
        0x0800_0000,
        0x0900_1000,
        0x0901_1000,
        0x090b_fffc,
        0x090c_1000,
        0x0a00_4000,
        0x4000_0000,
        1 << 39,
        u64::MAX - 3,
    ];
    for ipa in between {
        assert_eq!(at(ipa, 4), None, "{ipa:#x}");
    }
}

#[test]
fn an_access_over_a_device_s_end_finds_nothing() {
    for end in [0x0800_0000, 0x0900_1000, 0x0a00_0200, 0x0a00_4000] {
        assert_eq!(at(end - 2, 4), None, "{end:#x}");
        assert!(at(end - 2, 2).is_some(), "{end:#x}");
    }
    assert_eq!(at(0x0900_0000, u64::MAX - 0x0900_0000), None);
}
