//! Each register, and each rule of the FIFOs and interrupts.

use super::registers::*;
use super::*;
use hanok_hal::fake::FakeSerialPort;

/// A port and its line.
struct Bench {
    uart: Pl011,
    line: FakeSerialPort,
}

impl Bench {
    fn new() -> Self {
        let line = FakeSerialPort {
            room: usize::MAX,
            ..FakeSerialPort::default()
        };
        let uart = Pl011::new();
        Self { uart, line }
    }

    /// A port with FIFOs enabled, and a line that takes `room` bytes.
    fn fifo(room: usize) -> Self {
        let mut bench = Self::new();
        bench.line.room = room;
        bench.set(LCR_H, 0x70);
        bench
    }

    fn get(&mut self, offset: u64) -> u64 {
        self.uart.read(offset, Width::Word, &mut self.line)
    }

    fn set(&mut self, offset: u64, value: u64) {
        self.uart.write(offset, Width::Word, value, &mut self.line);
    }

    fn flag(&mut self, flag: Flags) -> bool {
        self.get(FR) & u64::from(flag.bits()) != 0
    }

    fn raw(&mut self, interrupt: Interrupts) -> bool {
        self.get(RIS) & u64::from(interrupt.bits()) != 0
    }

    fn clear(&mut self, interrupt: Interrupts) {
        self.set(ICR, interrupt.bits().into());
    }
}

#[test]
fn a_reset_port_has_the_manual_s_values() {
    let mut bench = Bench::new();
    let expected = [
        (RSR, 0),
        (FR, 0x90),
        (ILPR, 0),
        (IBRD, 0),
        (FBRD, 0),
        (LCR_H, 0),
        (CR, 0x300),
        (IFLS, 0x12),
        (IMSC, 0),
        (RIS, 0),
        (MIS, 0),
        (ICR, 0),
        (DMACR, 0),
    ];
    for (offset, value) in expected {
        assert_eq!(bench.get(offset), value, "{offset:#x}");
    }
    assert_eq!(bench.uart.unknown(), Unknown::default());
}

#[test]
fn the_identification_registers_are_qemu_s() {
    let mut bench = Bench::new();
    let ids = [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];
    for (index, id) in (0..).zip(ids) {
        bench.set(0xfe0 + 4 * index, 0xff);
        assert_eq!(bench.get(0xfe0 + 4 * index), id);
    }
}

#[test]
fn registers_keep_the_bits_they_have() {
    for (offset, mask) in [
        (ILPR, 0xff),
        (IBRD, 0xffff),
        (FBRD, 0x3f),
        (LCR_H, 0xff),
        (CR, 0xff87),
        (IFLS, 0x3f),
        (IMSC, 0x7ff),
        (DMACR, 7),
    ] {
        let mut bench = Bench::new();
        bench.set(offset, 0xffff_ffff);
        assert_eq!(bench.get(offset), mask, "{offset:#x}");
        bench.set(offset, 0);
        assert_eq!(bench.get(offset), 0, "{offset:#x}");
    }
}

#[test]
fn an_unset_port_sends() {
    let mut bench = Bench::new();
    bench.set(CR, 0);
    bench.set(DR, 0x141);
    assert_eq!(bench.line.sent, [0x41]);
    assert!(bench.flag(Flags::TXFE));
}

#[test]
fn a_full_transmit_fifo_says_so_and_loses_nothing() {
    let mut bench = Bench::fifo(0);
    for byte in 0..16 {
        assert!(!bench.flag(Flags::TXFF));
        bench.set(DR, byte);
    }
    assert!(bench.flag(Flags::TXFF) && bench.flag(Flags::BUSY));
    bench.set(DR, 99);
    assert_eq!(bench.uart.dropped(), 1);
    bench.line.room = usize::MAX;
    assert_eq!(bench.uart.transmit_ready(&mut bench.line), Ok(()));
    assert!(bench.line.sent.iter().copied().eq(0..16));
}

#[test]
fn without_fifos_one_byte_waits() {
    let mut bench = Bench::new();
    bench.line.room = 0;
    bench.set(DR, 1);
    assert!(bench.flag(Flags::TXFF) && bench.uart.transmit_pending());
    bench.line.room = 1;
    assert!(bench.flag(Flags::TXFE), "a look at the flags sends");
    assert!(bench.raw(Interrupts::TX));
    assert_eq!(bench.uart.receive(1), Ok(()));
    assert_eq!(bench.uart.receive(2), Err(FifoFull));
}

#[test]
fn the_transmit_interrupt_comes_at_its_watermark() {
    for (select, watermark) in [(0, 2), (1, 4), (2, 8), (3, 12), (4, 14), (7, 14)] {
        let mut bench = Bench::fifo(0);
        bench.set(IFLS, select);
        (0..16).for_each(|byte| bench.set(DR, byte));
        assert!(!bench.raw(Interrupts::TX));
        bench.line.room = 16 - watermark - 1;
        assert!(!bench.raw(Interrupts::TX));
        bench.line.room = 1;
        bench.get(FR);
        assert!(bench.raw(Interrupts::TX), "{select}");
        bench.clear(Interrupts::TX);
        assert!(!bench.raw(Interrupts::TX));
    }
}

#[test]
fn filling_the_transmit_fifo_takes_its_interrupt_back() {
    let mut bench = Bench::fifo(1);
    bench.set(DR, 0);
    assert!(bench.raw(Interrupts::TX));
    (0..9).for_each(|byte| bench.set(DR, byte));
    assert!(!bench.raw(Interrupts::TX));
}

/// DDI 0183G, 3.4: the interrupt is raised while the FIFO holds the watermark or less.
#[test]
fn a_byte_beyond_the_watermark_takes_the_transmit_interrupt_back() {
    for (select, watermark) in [(0, 2), (1, 4), (2, 8), (3, 12), (4, 14)] {
        let mut bench = Bench::fifo(1);
        bench.set(IFLS, select);
        bench.set(DR, 0);
        assert!(!bench.uart.transmit_pending());
        for byte in 1..=watermark {
            bench.set(DR, byte);
            assert!(bench.raw(Interrupts::TX), "{byte} of {watermark}");
        }
        bench.set(DR, 99);
        assert!(!bench.raw(Interrupts::TX), "beyond {watermark}");
        assert!(bench.uart.transmit_pending());
    }
}

#[test]
fn a_received_byte_interrupts_until_it_is_read() {
    let mut bench = Bench::fifo(0);
    bench.set(IMSC, Interrupts::RT.bits().into());
    assert_eq!(bench.uart.receive(b'a'), Ok(()));
    assert_eq!(bench.uart.receive(b'b'), Ok(()));
    assert!(bench.uart.interrupt());
    bench.clear(Interrupts::all());
    assert!(bench.uart.interrupt(), "a byte is never stranded");
    assert_eq!(bench.get(DR), u64::from(b'a'));
    assert!(bench.uart.interrupt());
    assert_eq!(bench.get(DR), u64::from(b'b'));
    assert!(!bench.uart.interrupt());
    assert_eq!(bench.get(DR), 0);
}

#[test]
fn the_receive_interrupt_alone_serves_too() {
    let mut bench = Bench::fifo(0);
    bench.set(IMSC, Interrupts::RX.bits().into());
    assert_eq!(bench.uart.receive(1), Ok(()));
    assert!(bench.uart.interrupt());
    bench.clear(Interrupts::RX);
    assert!(!bench.uart.interrupt());
    assert_eq!(bench.uart.receive(2), Ok(()));
    assert!(bench.uart.interrupt());
    bench.get(DR);
    bench.get(DR);
    assert!(!bench.uart.interrupt());
}

#[test]
fn a_full_receive_fifo_leaves_the_byte_with_the_caller() {
    let mut bench = Bench::fifo(0);
    assert_eq!(bench.uart.room(), 16);
    assert!((0..16).all(|byte| bench.uart.receive(byte).is_ok()));
    assert!(bench.flag(Flags::RXFF));
    assert_eq!(bench.uart.receive(16), Err(FifoFull));
    assert!(!bench.raw(Interrupts::OE));
    bench.set(LCR_H, 0);
    assert!(bench.flag(Flags::RXFF), "smaller now, and nothing is lost");
    assert!((0..16).all(|byte| bench.get(DR) == byte));
    assert!(bench.flag(Flags::RXFE));
}

#[test]
fn loopback_receives_what_it_sends_and_overruns() {
    let mut bench = Bench::fifo(usize::MAX);
    bench.set(CR, 0x381);
    assert_eq!(
        bench.uart.receive(0),
        Err(FifoFull),
        "the line is disconnected"
    );
    (0..17).for_each(|byte| bench.set(DR, byte));
    assert!(bench.raw(Interrupts::OE));
    assert_eq!(bench.get(RSR), 8);
    assert_eq!(bench.get(DR), 1 << 11);
    bench.set(RSR, 0);
    assert_eq!(bench.get(RSR), 0);
    bench.set(DR, 17);
    assert!((1..16).chain([17]).all(|byte| bench.get(DR) == byte));
}

#[test]
fn loopback_connects_the_modem_s_lines() {
    let mut bench = Bench::new();
    bench.set(CR, 0x380);
    for (out, flag, interrupt) in [
        (Control::RTS, Flags::CTS, Interrupts::CTS),
        (Control::DTR, Flags::DSR, Interrupts::DSR),
        (Control::OUT1, Flags::DCD, Interrupts::DCD),
        (Control::OUT2, Flags::RI, Interrupts::RI),
    ] {
        bench.set(CR, 0x380 | u64::from(out.bits()));
        assert!(bench.flag(flag) && bench.raw(interrupt));
        bench.clear(interrupt);
        bench.set(CR, 0x380);
        assert!(!bench.flag(flag) && bench.raw(interrupt));
        bench.clear(interrupt);
    }
}

#[test]
fn a_reset_sends_what_waits_and_forgets_what_came() {
    let mut bench = Bench::fifo(0);
    bench.set(DR, 5);
    bench.set(IMSC, 0x7ff);
    assert_eq!(bench.uart.receive(6), Ok(()));
    bench.uart.reset();
    assert!(!bench.uart.interrupt());
    assert!(bench.flag(Flags::RXFE));
    bench.line.room = 1;
    assert_eq!(bench.uart.transmit_ready(&mut bench.line), Ok(()));
    assert_eq!(bench.line.sent, [5]);
}

#[test]
fn narrow_and_wide_accesses_are_qemu_s() {
    let mut bench = Bench::new();
    bench
        .uart
        .write(DR + 1, Width::Byte, 0x1241, &mut bench.line);
    assert_eq!(bench.line.sent, [0x41]);
    let flags = bench.uart.read(FR + 3, Width::Byte, &mut bench.line);
    assert_eq!(flags, 0x90);
    bench
        .uart
        .write(IBRD, Width::Double, 3 << 32 | 2, &mut bench.line);
    assert_eq!((bench.get(IBRD), bench.get(FBRD)), (2, 3));
    let both = bench.uart.read(IBRD, Width::Double, &mut bench.line);
    assert_eq!(both, 3 << 32 | 2);
}

#[test]
fn unknown_registers_are_counted() {
    let mut bench = Bench::new();
    for offset in [0x08, 0x14, 0x1c, 0x4c, 0x80, 0xfdc] {
        assert_eq!(bench.get(offset), 0);
        bench.set(offset, 1);
    }
    // These registers exist, and cannot be written.
    for offset in [FR, RIS, MIS, 0xfe0, 0xff0, 0xffc] {
        bench.set(offset, 1);
    }
    let counted = Unknown {
        reads: 6,
        writes: 6,
    };
    assert_eq!(bench.uart.unknown(), counted);
}
