//! A 16550 whose registers are four bytes apart (PC16550D data sheet; an Allwinner A10's is of this kind).

use core::ptr::NonNull;
use hanok_hal::{HostLine, LineFull, ReceiveInterrupt, SerialPort};
use hanok_types::Hva;
use safe_mmio::fields::{ReadOnly, ReadPureWrite, ReadWrite};
use safe_mmio::{UniqueMmioPointer, field};

/// The registers, with the divisor's latch closed.
#[repr(C)]
struct Registers {
    /// RBR when it is read, THR when it is written.
    data: ReadWrite<u32>,
    /// IER.
    interrupts: ReadPureWrite<u32>,
    /// IIR when it is read, FCR when it is written.
    cause: ReadWrite<u32>,
    /// LCR.
    format: ReadPureWrite<u32>,
    /// MCR.
    modem: ReadPureWrite<u32>,
    /// LSR, whose errors are cleared when it is read.
    status: ReadOnly<u32>,
}

/// IER: bytes have come.
const RECEIVED: u32 = 1 << 0;
/// IER: there is room to send.
const WRITABLE: u32 = 1 << 1;
/// IIR: the cause is that bytes have come, by number or by time.
const CAUSE_RECEIVED: u32 = 1 << 2;
/// FCR: FIFOs are in use, and one byte is enough for an interrupt.
const FIFOS: u32 = 1;
/// LCR: eight bits, one stop bit, no parity.
const EIGHT_BITS: u32 = 0b11;
/// LSR: there is a byte.
const READY: u32 = 1 << 0;
/// LSR: the byte has an error of parity or framing, or is a break.
const ERRORS: u32 = 0b111 << 2;
/// LSR: all was sent that waited.
const EMPTY: u32 = 1 << 5;

/// A 16550, whose speed the firmware has set. An emulator's needs none.
pub struct Ns16550(UniqueMmioPointer<'static, Registers>);

impl Ns16550 {
    /// The port at `base`; `None` if that is no usable address.
    ///
    /// # Safety
    /// `base` is such a port's register frame, mapped as device memory for ever, and no other code drives it.
    pub(crate) unsafe fn new(base: Hva) -> Option<Self> {
        let registers = NonNull::new(base.get() as *mut Registers)?;
        // SAFETY: by this function's contract.
        let registers = unsafe { UniqueMmioPointer::new(registers) };
        Some(Self(registers)).filter(|_| base.get().is_multiple_of(4))
    }

    /// Enables the interrupts for received bytes, and both FIFOs.
    pub(crate) fn listen(&mut self) {
        if field!(self.0, format).read() == 0 {
            field!(self.0, format).write(EIGHT_BITS);
        }
        field!(self.0, cause).write(FIFOS);
        field!(self.0, interrupts).write(RECEIVED);
    }

    fn enable(&mut self, interrupt: u32, on: bool) {
        let mut interrupts = field!(self.0, interrupts);
        let others = interrupts.read() & !interrupt;
        interrupts.write(if on { others | interrupt } else { others });
    }
}

impl SerialPort for Ns16550 {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        if field!(self.0, status).read() & EMPTY == 0 {
            return Err(LineFull);
        }
        field!(self.0, data).write(byte.into());
        Ok(())
    }
}

impl HostLine for Ns16550 {
    fn interrupt_when_writable(&mut self, on: bool) {
        self.enable(WRITABLE, on);
    }

    fn interrupt_when_received(&mut self, on: bool) {
        self.enable(RECEIVED, on);
    }

    /// Reading IIR clears the interrupt for room, if that is the cause.
    fn acknowledge(&mut self) -> ReceiveInterrupt {
        if field!(self.0, cause).read() & CAUSE_RECEIVED != 0 {
            ReceiveInterrupt::Pending
        } else {
            ReceiveInterrupt::Idle
        }
    }

    /// Some ports say that time has passed with no byte there, until the data register is read.
    fn acknowledge_in_vain(&mut self) {
        let _none = field!(self.0, data).read();
    }

    fn receive(&mut self) -> Option<u8> {
        let status = field!(self.0, status).read();
        if status & READY == 0 {
            return None;
        }
        let byte = field!(self.0, data).read() as u8;
        // As with a PL011.
        Some(if status & ERRORS == 0 { byte } else { b'?' })
    }
}
