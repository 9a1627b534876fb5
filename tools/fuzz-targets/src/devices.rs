//! Targets for device models under any sequence of accesses, and for the lookup of devices.

use crate::bytes::Bytes;
use hanok_config::firmware_slots;
use hanok_devices::{Pl011, Pl031, Slots};
use hanok_hal::fake::FakeSerialPort;
use hanok_types::{Ipa, Span, Width};

/// Mostly an offset of a register that exists.
fn offset(input: &mut Bytes<'_>) -> u64 {
    match input.byte() {
        0..=239 => u64::from(input.byte() % 0x14) * 4,
        240..=250 => u64::from(input.half()),
        _ => input.double(),
    }
}

/// No read returns more bits than its width; the interrupt line is the masked status; the
/// characters that the port accepted went out.
pub fn pl011(data: &[u8]) {
    let mut input = Bytes(data);
    let mut uart = Pl011::new();
    let mut line = FakeSerialPort::default();
    while !input.is_empty() {
        match input.byte() % 8 {
            0..=2 => {
                let (at, width) = (offset(&mut input), input.width());
                assert_eq!(uart.read(at, width, &mut line) & !width.mask(), 0);
            }
            3..=5 => {
                let (at, width) = (offset(&mut input), input.width());
                uart.write(at, width, input.double(), &mut line);
            }
            6 => {
                let room = uart.room();
                assert_eq!(uart.receive(input.byte()).is_ok(), room > 0);
            }
            _ => {
                line.room = usize::from(input.byte());
                let done = uart.transmit_ready(&mut line).is_ok();
                assert!(done || line.room == 0);
                assert_eq!(uart.transmit_pending(), !done);
            }
        }
        let [raw, mask, masked] =
            [0x3c, 0x38, 0x40].map(|at| uart.read(at, Width::Word, &mut line));
        assert_eq!(masked, raw & mask);
        assert_eq!(uart.interrupt(), masked != 0);
    }
}

/// No read returns more bits than its width; the line is the masked status; the next alarm is
/// neither past nor early nor late.
pub fn pl031(data: &[u8]) {
    let mut input = Bytes(data);
    let mut rtc = Pl031::new(input.word());
    let mut now = 0u64;
    while !input.is_empty() {
        match input.byte() % 4 {
            0 => {
                let (at, width) = (offset(&mut input), input.width());
                assert_eq!(rtc.read(at, width, now) & !width.mask(), 0);
            }
            1 => {
                let (at, width) = (offset(&mut input), input.width());
                rtc.write(at, width, input.double(), now);
            }
            2 => now = now.saturating_add(input.number() % (1 << 34)),
            _ => {
                if input.byte() == 0 {
                    rtc.reset();
                }
            }
        }
        rtc.update(now);
        let [masked, raw, mask] = [0x18, 0x14, 0x10].map(|at| rtc.read(at, Width::Word, now));
        assert_eq!(masked, raw & mask);
        assert_eq!(rtc.interrupt(), masked != 0);
        if let Some(due) = rtc.next_alarm() {
            assert!(due > now);
            let mut later = rtc.clone();
            later.update(due - 1);
            assert_eq!(later.interrupt(), rtc.interrupt());
            later.update(due);
            assert!(later.interrupt());
        }
    }
}

/// A device that is found holds the first and the last byte of the access.
pub fn bus(data: &[u8]) {
    let mut input = Bytes(data);
    let slots = Slots::new(&firmware_slots(), 0, &[], &[]);
    while !input.is_empty() {
        let at = if input.flag() {
            u64::from(input.word() % 0x0b00_0000)
        } else {
            input.number()
        };
        let bytes = input.number();
        let find = |at, bytes| {
            let access = Span::new(Ipa::new(at), bytes)?;
            let (slot, offset) = slots.find(&access)?;
            Some((slot.index(), offset))
        };
        let Some((slot, offset)) = find(at, bytes).filter(|_| bytes > 0) else {
            continue;
        };
        assert_eq!(find(at - offset, 1), Some((slot, 0)));
        let last = at.checked_add(bytes - 1).expect("inside a device");
        assert_eq!(find(last, 1), Some((slot, offset + bytes - 1)));
    }
}
