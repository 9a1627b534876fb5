//! The console: a PL011, or Xen's console hypercall.

use crate::{mmio, xen};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use hanok_types::platform;

const DR: u64 = 0x00;
const FR: u64 = 0x18;
const LCRH: u64 = 0x2c;
const CR: u64 = 0x30;
/// FR: no room to send.
const TXFF: u32 = 1 << 5;
/// LCRH: 8 bits, with FIFOs.
const WORD_8_FIFO: u32 = 3 << 5 | 1 << 4;
/// CR: on, for sending and receiving.
const ENABLED: u32 = 1 | 1 << 8 | 1 << 9;

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The PL011 at this address.
    Pl011(u64),
    /// The part of a PL011 at this address that sends and receives and is always on (Arm BSA, appendix B, "Generic UART"):
    /// what Xen gives a domain.
    SbsaUart(u64),
    /// Xen's console.
    Xen,
}

/// The PL011's address; zero for Xen's console. Until [`install`] it is the virtual platform's.
static UART: AtomicUsize = AtomicUsize::new(platform::UART.get() as usize);
/// Whether the UART has registers that turn it on.
static CAN_BE_OFF: AtomicBool = AtomicBool::new(true);

/// Sends text to `sink` from now on.
pub fn install(sink: Sink) {
    let uart = match sink {
        Sink::Pl011(address) | Sink::SbsaUart(address) => address,
        Sink::Xen => 0,
    };
    CAN_BE_OFF.store(matches!(sink, Sink::Pl011(_)), Relaxed);
    UART.store(uart as usize, Relaxed);
}

/// Turns the PL011 on, where the boot loader did not. Its speed stays as it is.
pub fn turn_on() {
    let uart = UART.load(Relaxed) as u64;
    if !CAN_BE_OFF.load(Relaxed) {
        return;
    }
    if mmio::read32(uart + CR) & ENABLED != ENABLED {
        mmio::write32(uart + LCRH, WORD_8_FIFO);
        mmio::write32(uart + CR, ENABLED);
    }
}

/// The console, as a place to print to.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if UART.load(Relaxed) == 0 {
            xen::console_write(text);
            return Ok(());
        }
        for byte in text.bytes() {
            if byte == b'\n' {
                send(b'\r');
            }
            send(byte);
        }
        Ok(())
    }
}

/// Sends one byte over the PL011, once it has space.
pub fn send(byte: u8) {
    let uart = UART.load(Relaxed) as u64;
    while mmio::read32(uart + FR) & TXFF != 0 {}
    mmio::write32(uart + DR, byte.into());
}

/// Prints a line on the console.
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // The console never fails.
        let _ = writeln!($crate::console::Console, $($argument)*);
    }};
}
