//! The PL011 (DDI 0183) with polled output: whatever prints may wait.

use crate::mmio::Registers;
use crate::state::Once;
use core::fmt;

const DR: usize = 0x00;
const FR: usize = 0x18;
const LCRH: usize = 0x2c;
const CR: usize = 0x30;
/// FR: the transmit FIFO is full.
const TXFF: u32 = 1 << 5;
/// LCRH: 8 bits, with FIFOs.
const WORD_8_FIFO: u32 = 3 << 5 | 1 << 4;
/// CR: on, for sending and receiving.
const ENABLED: u32 = 1 | 1 << 8 | 1 << 9;

static UART: Once<Registers> = Once::new();

/// Prints to this port from now on. Its speed stays as the boot loader set it.
pub fn install(uart: &Registers) {
    if uart.read(CR) & ENABLED != ENABLED {
        uart.write(LCRH, WORD_8_FIFO);
        uart.write(CR, ENABLED);
    }
    UART.set(*uart);
}

/// The serial port, for printing; nothing is printed before [`install`].
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Some(uart) = UART.get() else {
            return Ok(());
        };
        for byte in text.bytes() {
            if byte == b'\n' {
                send(uart, b'\r');
            }
            send(uart, byte);
        }
        Ok(())
    }
}

fn send(uart: &Registers, byte: u8) {
    while uart.read(FR) & TXFF != 0 {}
    uart.write(DR, byte.into());
}

macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // The console never fails.
        let _ = writeln!($crate::console::Console, $($argument)*);
    }};
}
