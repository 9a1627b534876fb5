//! The PL011 serial port (ARM DDI 0183G), as QEMU's `virt` board has it.
//!
//! Bytes that the guest sends wait in the transmit FIFO until the line takes them. A guest that
//! waits for room (UARTFR.TXFF, or the transmit interrupt) loses none. Only a read by the guest
//! takes a byte out of the receive FIFO, and [`Pl011::receive`] refuses a byte for which there is
//! no room.
//!
//! Where the manual and QEMU differ:
//!
//! - Bytes are sent and received whether or not UARTCR enables that, as on QEMU: an early console
//!   writes before any driver has set up the port.
//! - The manual raises the receive interrupt at a watermark, and the receive timeout after 32 bit
//!   periods of silence. QEMU has no timeout, and raises the receive interrupt for the first byte.
//!   Here each byte that arrives raises the receive interrupt, so that a driver which uses only
//!   that interrupt works as on QEMU, and UARTIFLS.RXIFLSEL has no effect. The timeout is raised
//!   while the receive FIFO holds a byte, as on a line that falls silent after each byte, so that
//!   no order of reads and clears leaves a byte unnoticed.
//! - The transmit interrupt is raised when a byte was sent and the transmit FIFO is at or below its
//!   watermark. While the line takes every byte at once, that is after each write, as on QEMU. The
//!   manual requires that the FIFO crosses the watermark, which then never happens.
//! - A change of UARTLCR_H.FEN drops no byte. The manual flushes the transmit FIFO, QEMU flushes
//!   both. A guest cannot notice that for bytes that it sends, and received bytes are worth
//!   keeping.

mod fifo;
mod registers;
#[cfg(test)]
mod tests;

use crate::device::{Model, Notice, World};
use crate::lanes::{read_words, write_words};
use crate::primecell;
use crate::{Access, Unknown};
use fifo::Fifo;
use hanok_hal::{LineFull, SerialPort};
use hanok_types::Width;
use registers::{Control, FifoLevels, Flags, Interrupts, LineControl, errors};

/// The interrupts that say that a byte was received.
const RECEIVED: Interrupts = Interrupts::RX.union(Interrupts::RT);

/// Bytes in a FIFO, of the revision r1p4 that the identification registers name.
const DEPTH: usize = 16;

/// The receive FIFO has no room for a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoFull;

/// The port's registers and FIFOs.
#[derive(Clone, Debug)]
pub struct Pl011 {
    receive: Fifo,
    transmit: Fifo,
    control: Control,
    line_control: LineControl,
    levels: FifoLevels,
    mask: Interrupts,
    /// The interrupts that were raised and not yet cleared. The receive timeout is a level and is
    /// never in here.
    latched: Interrupts,
    /// Whether there was no room for the newest received byte (UARTDR.OE).
    overrun: bool,
    receive_status: u32,
    low_power: u32,
    baud_integer: u32,
    baud_fraction: u32,
    dma: u32,
    dropped: u32,
    unknown: Unknown,
}

impl Default for Pl011 {
    fn default() -> Self {
        Self::new()
    }
}

impl Pl011 {
    /// A port after a reset.
    pub const fn new() -> Self {
        Self {
            receive: Fifo::new(),
            transmit: Fifo::new(),
            control: Control::TXE.union(Control::RXE),
            line_control: LineControl::from_bits(0),
            levels: FifoLevels::RESET,
            mask: Interrupts::empty(),
            latched: Interrupts::empty(),
            overrun: false,
            receive_status: 0,
            low_power: 0,
            baud_integer: 0,
            baud_fraction: 0,
            dma: 0,
            dropped: 0,
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// Resets the port. Bytes that the guest has sent are still transmitted: its last words before
    /// a reboot are worth reading. Bytes that it has not read are dropped.
    pub fn reset(&mut self) {
        let former = core::mem::take(self);
        self.transmit = former.transmit;
        self.dropped = former.dropped;
        self.unknown = former.unknown;
    }

    /// Reads the register at `offset`.
    pub fn read(&mut self, offset: u64, width: Width, port: &mut impl SerialPort) -> u64 {
        // What is left waits for the line.
        let _ = self.transmit_ready(port);
        read_words(offset, width, |offset| self.read_register(offset))
    }

    /// Writes the register at `offset`. Bytes that the guest sends go to `port` as far as `port`
    /// takes them.
    pub fn write(&mut self, offset: u64, width: Width, value: u64, port: &mut impl SerialPort) {
        // What is left waits for the line.
        let _ = self.transmit_ready(port);
        write_words(offset, width, value, |offset, value| {
            self.write_register(offset, value, port);
        });
    }

    /// A load of a register that drivers load for each byte, UARTFR or UARTDR, if the load has no effect
    /// but its value, or that it takes a byte out: no byte waits to be sent, the interrupt line keeps its
    /// level, and if further bytes wait (`more_waits`), the guest has not read all that it has. The outcome
    /// is that of [`Self::read`]. In all other cases nothing is changed, and the answer is `None`.
    #[inline]
    pub fn load_alone(&mut self, offset: u64, more_waits: bool) -> Option<u32> {
        if self.is_odd() {
            return None;
        }
        let received = self.receive.len();
        match offset {
            registers::FR if received > 0 => {
                let full = if received >= self.depth() {
                    Flags::RXFF
                } else {
                    Flags::empty()
                };
                Some((Flags::TXFE | full).bits())
            }
            registers::FR if !more_waits => Some((Flags::TXFE | Flags::RXFE).bits()),
            // The last byte takes its interrupts with it.
            registers::DR if received > 1 || !more_waits && !self.mask.intersects(RECEIVED) => {
                Some(self.take_received())
            }
            _ => None,
        }
    }

    /// A store of a byte to UARTDR that has no effect but that `port` takes the byte: as
    /// [`Self::load_alone`], with `more` as `more_waits`. In all other cases nothing is changed, and the answer is `None`.
    #[inline]
    pub fn send_alone(&mut self, byte: u8, more: bool, port: &mut impl SerialPort) -> Option<()> {
        let rises = !self.latched.contains(Interrupts::TX) && self.mask.contains(Interrupts::TX);
        if rises || self.is_odd() || more && self.receive.is_empty() {
            return None;
        }
        port.try_send(byte).ok()?;
        self.latched |= Interrupts::TX;
        Some(())
    }

    /// Whether bytes wait to be sent, or, in loopback, come in.
    #[inline(always)]
    fn is_odd(&self) -> bool {
        !self.transmit.is_empty() || self.control.contains(Control::LBE)
    }

    /// Whether the guest has read all received bytes, and there is room for more: then the bytes that
    /// arrived meanwhile are handed on. To hand on one byte for each byte read would be much more work.
    fn wants_more(&self) -> bool {
        self.receive.is_empty() && !self.control.contains(Control::LBE)
    }

    /// Puts a byte for the guest into the receive FIFO. If the FIFO is full, the caller keeps the
    /// byte.
    pub fn receive(&mut self, byte: u8) -> Result<(), FifoFull> {
        if self.room() == 0 {
            return Err(FifoFull);
        }
        self.put_received(byte);
        Ok(())
    }

    /// The number of bytes that [`Self::receive`] accepts now. It is zero in loopback, which
    /// disconnects the line.
    pub fn room(&self) -> usize {
        if self.control.contains(Control::LBE) {
            return 0;
        }
        self.depth().saturating_sub(self.receive.len())
    }

    /// Sends as much of the transmit FIFO as `port` takes. It is to be called when the line takes
    /// bytes again. Some bytes are left if the line becomes full.
    pub fn transmit_ready(&mut self, port: &mut impl SerialPort) -> Result<(), LineFull> {
        let before = self.transmit.len();
        while let Some(byte) = self.transmit.front() {
            if port.try_send(byte).is_err() {
                break;
            }
            self.transmit.pop();
        }
        let left = self.transmit.len();
        if left < before && left <= self.transmit_watermark() {
            self.latched |= Interrupts::TX;
        }
        if left == 0 { Ok(()) } else { Err(LineFull) }
    }

    /// Whether bytes wait for the line.
    pub fn transmit_pending(&self) -> bool {
        !self.transmit.is_empty()
    }

    /// The level of the interrupt line.
    pub fn interrupt(&self) -> bool {
        !self.masked_status().is_empty()
    }

    /// The counts of accesses to registers that do not exist.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// The number of bytes that were lost because the guest sent them while UARTFR.TXFF was set.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    fn read_register(&mut self, offset: u64) -> u32 {
        match offset & !3 {
            registers::DR => self.take_received(),
            registers::RSR => self.receive_status,
            registers::FR => self.flags().bits(),
            registers::ILPR => self.low_power,
            registers::IBRD => self.baud_integer,
            registers::FBRD => self.baud_fraction,
            registers::LCR_H => self.line_control.into_bits().into(),
            registers::CR => self.control.bits(),
            registers::IFLS => self.levels.into_bits().into(),
            registers::IMSC => self.mask.bits(),
            registers::RIS => self.raw_status().bits(),
            registers::MIS => self.masked_status().bits(),
            registers::ICR => 0,
            registers::DMACR => self.dma,
            _ => primecell::id(registers::PERIPHERAL_ID, offset)
                .unwrap_or_else(|| self.unknown.read()),
        }
    }

    fn write_register(&mut self, offset: u64, value: u32, port: &mut impl SerialPort) {
        match offset & !3 {
            registers::DR => self.send(value as u8, port),
            registers::RSR => self.receive_status = 0,
            registers::ILPR => self.low_power = value & 0xff,
            registers::IBRD => self.baud_integer = value & 0xffff,
            registers::FBRD => self.baud_fraction = value & 0x3f,
            registers::LCR_H => self.set_line_control(value),
            registers::CR => self.set_control(Control::from_bits_truncate(value)),
            registers::IFLS => self.levels = FifoLevels::from_bits(value as u8 & 0x3f),
            registers::IMSC => self.mask = Interrupts::from_bits_truncate(value),
            registers::ICR => self.latched.remove(Interrupts::from_bits_truncate(value)),
            registers::DMACR => self.dma = value & 7,
            registers::FR | registers::RIS | registers::MIS => {}
            _ if primecell::id(registers::PERIPHERAL_ID, offset).is_some() => {}
            _ => self.unknown.write(),
        }
    }

    fn send(&mut self, byte: u8, port: &mut impl SerialPort) {
        if self.transmit.len() >= self.depth() || !self.transmit.push(byte) {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        if self.transmit.len() > self.transmit_watermark() {
            self.latched.remove(Interrupts::TX);
        }
        if self.control.contains(Control::LBE) {
            self.loop_back(byte);
        }
        // What is left waits for the line.
        let _ = self.transmit_ready(port);
    }

    /// In loopback, a byte that is sent is also received.
    fn loop_back(&mut self, byte: u8) {
        if self.receive.len() < self.depth() {
            self.put_received(byte);
        } else {
            self.overrun = true;
            self.receive_status |= errors::RSR_OVERRUN;
            self.latched |= Interrupts::OE;
        }
    }

    fn put_received(&mut self, byte: u8) {
        if self.receive.push(byte) {
            self.overrun = false;
            self.latched |= Interrupts::RX;
        }
    }

    #[inline]
    fn take_received(&mut self) -> u32 {
        let overrun = if self.overrun { errors::DR_OVERRUN } else { 0 };
        let byte = self.receive.pop().unwrap_or(0);
        if self.receive.is_empty() {
            self.latched.remove(Interrupts::RX);
        }
        u32::from(byte) | overrun
    }

    fn set_line_control(&mut self, value: u32) {
        self.line_control = LineControl::from_bits(value as u8);
    }

    /// In loopback the modem's outputs are its inputs, and a change of an input raises an
    /// interrupt.
    fn set_control(&mut self, control: Control) {
        let before = self.modem();
        self.control = control;
        let changed = before.symmetric_difference(self.modem());
        for (flag, interrupt) in [
            (Flags::CTS, Interrupts::CTS),
            (Flags::DSR, Interrupts::DSR),
            (Flags::DCD, Interrupts::DCD),
            (Flags::RI, Interrupts::RI),
        ] {
            if changed.contains(flag) {
                self.latched |= interrupt;
            }
        }
    }

    /// The modem's inputs. They are connected only in loopback (DDI 0183G, 3.3.8).
    fn modem(&self) -> Flags {
        if !self.control.contains(Control::LBE) {
            return Flags::empty();
        }
        let loops = [
            (Control::RTS, Flags::CTS),
            (Control::DTR, Flags::DSR),
            (Control::OUT1, Flags::DCD),
            (Control::OUT2, Flags::RI),
        ];
        let on = loops.iter().filter(|(out, _)| self.control.contains(*out));
        on.fold(Flags::empty(), |flags, (_, flag)| flags | *flag)
    }

    fn flags(&self) -> Flags {
        let mut flags = self.modem();
        flags.set(Flags::RXFE, self.receive.is_empty());
        flags.set(Flags::RXFF, self.receive.len() >= self.depth());
        flags.set(Flags::TXFE, self.transmit.is_empty());
        flags.set(Flags::TXFF, self.transmit.len() >= self.depth());
        flags.set(Flags::BUSY, !self.transmit.is_empty());
        flags
    }

    fn raw_status(&self) -> Interrupts {
        let mut raw = self.latched;
        raw.set(Interrupts::RT, !self.receive.is_empty());
        raw
    }

    fn masked_status(&self) -> Interrupts {
        self.raw_status() & self.mask
    }

    fn depth(&self) -> usize {
        if self.line_control.fen() { DEPTH } else { 1 }
    }

    fn transmit_watermark(&self) -> usize {
        if self.line_control.fen() {
            self.levels.transmit_watermark()
        } else {
            0
        }
    }
}

impl Model for Pl011 {
    #[inline]
    fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64 {
        if access.write {
            self.write(offset, access.width, access.value, world);
            return 0;
        }
        self.read(offset, access.width, world)
    }

    fn reset(&mut self) {
        Pl011::reset(self);
    }

    fn level(&self) -> bool {
        self.interrupt()
    }

    fn notice(&self) -> Notice {
        Notice::Serial {
            room: self.wants_more(),
            waiting: self.transmit_pending(),
        }
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}
