//! What the payload says, over the PL011.

use crate::mmio;
use core::fmt;
use hanok_types::platform;

const DR: u64 = 0x00;
const FR: u64 = 0x18;
const TXFF: u32 = 1 << 5;

/// The serial port, as a place to print to.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                send(b'\r');
            }
            send(byte);
        }
        Ok(())
    }
}

/// Sends one byte, once there is room.
pub fn send(byte: u8) {
    let uart = platform::UART.get();
    while mmio::read32(uart + FR) & TXFF != 0 {}
    mmio::write32(uart + DR, byte.into());
}

macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // The console never fails.
        let _ = writeln!($crate::console::Console, $($argument)*);
    }};
}
