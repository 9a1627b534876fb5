//! A PL011.

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart};
use core::ptr::NonNull;
use hanok_hal::{HostLine, LineFull, ReceiveInterrupt, SerialPort};
use safe_mmio::UniqueMmioPointer;

/// The clock and the speed for a port that has not been set up. Only an emulator starts the hypervisor so,
/// and ignores them. A boot loader sets the port up as its user wants it.
const ASSUMED_CLOCK: u32 = 24_000_000;
const ASSUMED_SPEED: u32 = 115_200;
/// Offset of UARTCR, and its UARTEN (DDI 0183, 3.3.8).
const CONTROL: u64 = 0x30;
const ENABLED: u32 = 1;

/// The interrupts that say that bytes were received. Reading the bytes clears them (DDI 0183, 3.4).
const RECEIVED: Interrupts = Interrupts::RXI.union(Interrupts::RTI);

/// A PL011, which the firmware has set up, or else the hypervisor.
pub struct Pl011 {
    uart: Uart<'static>,
}

impl Pl011 {
    /// The PL011 at `port`, which is its address; `None` if that cannot be used.
    ///
    /// # Safety
    /// It is a PL011's register frame, mapped as device memory for ever, and no other
    /// code drives it.
    pub unsafe fn new(port: u64) -> Option<Self> {
        let registers = NonNull::new(port as *mut PL011Registers)?;
        if !registers.is_aligned() {
            return None;
        }
        // SAFETY: UARTCR of the frame; reading it has no effect.
        let control = unsafe { ((port + CONTROL) as *const u32).read_volatile() };
        // SAFETY: by this function's contract.
        let mut uart = Uart::new(unsafe { UniqueMmioPointer::new(registers) });
        if control & ENABLED == 0 {
            let line = LineConfig {
                data_bits: DataBits::Bits8,
                parity: Parity::None,
                stop_bits: StopBits::One,
            };
            uart.enable(line, ASSUMED_SPEED, ASSUMED_CLOCK).ok()?;
        }
        Some(Self { uart })
    }

    /// Enables the interrupts for received bytes, and clears those that were pending before.
    pub fn listen(&mut self) {
        self.uart.clear_interrupts(Interrupts::all());
        self.uart.set_interrupt_masks(RECEIVED);
    }
}

impl SerialPort for Pl011 {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        if self.uart.is_tx_fifo_full() {
            return Err(LineFull);
        }
        self.uart.write_word(byte);
        Ok(())
    }
}

impl HostLine for Pl011 {
    fn interrupt_when_writable(&mut self, on: bool) {
        let mut masks = self.uart.interrupt_masks();
        masks.set(Interrupts::TXI, on);
        self.uart.set_interrupt_masks(masks);
    }

    fn interrupt_when_received(&mut self, on: bool) {
        let mut masks = self.uart.interrupt_masks();
        masks.set(RECEIVED, on);
        self.uart.set_interrupt_masks(masks);
    }

    fn acknowledge(&mut self) -> ReceiveInterrupt {
        let pending = self.uart.masked_interrupt_status();
        self.uart.clear_interrupts(pending - RECEIVED);
        if pending.intersects(RECEIVED) {
            ReceiveInterrupt::Pending
        } else {
            ReceiveInterrupt::Idle
        }
    }

    fn acknowledge_in_vain(&mut self) {
        self.uart.clear_interrupts(RECEIVED);
    }

    fn receive(&mut self) -> Option<u8> {
        // A byte with a line error is read as a question mark.
        self.uart.read_word().unwrap_or(Some(b'?'))
    }
}
