//! Measures what a byte over the PL011 (DDI 0183G) costs, out and in.

use crate::measure::Stretch;
use core::fmt::Write;
use hanok_bench_plan::Figure;
use hanok_guest_runtime::console::Console;
use hanok_guest_runtime::{cpu, gic, marker, mmio};
use hanok_types::platform;

const UART: u64 = platform::UART.get();
const DR: u64 = UART;
const FR: u64 = UART + 0x18;
const LCR_H: u64 = UART + 0x2c;
const IMSC: u64 = UART + 0x38;
const RXFE: u32 = 1 << 4;
const TXFF: u32 = 1 << 5;
/// UARTLCR_H: eight bits (WLEN), FIFOs on (FEN).
const FIFOS: u32 = 3 << 5 | 1 << 4;
/// UARTIMSC: a byte was received (RXIM), or is waiting (RTIM).
const RECEIVED: u32 = 1 << 4 | 1 << 6;

/// The number of bytes in a FIFO.
pub const DEPTH: u64 = 16;
/// The number of bytes of one sample.
const BYTES: u64 = 1024;
/// The number of bytes that are awaited.
const AWAITED: u64 = 512;

/// Prints the cost of a byte, with one check for space before every `group` bytes.
pub fn send(figure: Figure, group: u64, repeat: u32) {
    mmio::write32(LCR_H, FIFOS);
    let stretch = Stretch {
        figure,
        repeat,
        rounds: BYTES,
    };
    stretch.compare(|| send_all(group), || {});
}

fn send_all(group: u64) {
    let mut sent = 0;
    while sent < BYTES {
        while mmio::read32(FR) & TXFF != 0 {}
        for _ in 0..group {
            sent += 1;
            let byte = if sent.is_multiple_of(64) { b'\n' } else { b'.' };
            mmio::write32(DR, byte.into());
        }
    }
}

/// Receives [`AWAITED`] bytes as a driver does: sleeps until the port interrupts, then reads until
/// it is empty. The cost in the hypervisor is counted from outside, because the sender determines
/// how many bytes come with each interrupt.
pub fn receive() {
    let id = platform::UART_IRQ.get();
    mmio::write32(LCR_H, FIFOS);
    gic::enable(id);
    // The sender begins as soon as it has read this far: what comes then counts.
    let _ = write!(Console, "bench-info: send {AWAITED} byte");
    marker::begin();
    println!("s");
    let mut received = 0;
    while received < AWAITED {
        mmio::write32(IMSC, RECEIVED);
        cpu::wait_for_interrupt();
        cpu::with_interrupts(|| {});
        while mmio::read32(FR) & RXFE == 0 {
            mmio::read32(DR);
            received += 1;
        }
    }
    marker::end();
    mmio::write32(IMSC, 0);
    gic::disable(id);
    let name = Figure::Receive.name();
    println!("bench-info: {name} 1 stretches of {AWAITED} rounds");
    println!("bench: {name} counted");
}
