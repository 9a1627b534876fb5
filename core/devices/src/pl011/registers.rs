//! The PL011's registers: their offsets, and the bits that the model uses.

use bitfield_struct::bitfield;
use bitflags::bitflags;

/// Data.
pub(super) const DR: u64 = 0x00;
/// Receive status, and error clear.
pub(super) const RSR: u64 = 0x04;
/// Flags.
pub(super) const FR: u64 = 0x18;
/// IrDA low-power counter.
pub(super) const ILPR: u64 = 0x20;
/// Integer baud rate divisor.
pub(super) const IBRD: u64 = 0x24;
/// Fractional baud rate divisor.
pub(super) const FBRD: u64 = 0x28;
/// Line control.
pub(super) const LCR_H: u64 = 0x2c;
/// Control.
pub(super) const CR: u64 = 0x30;
/// Interrupt FIFO level select.
pub(super) const IFLS: u64 = 0x34;
/// Interrupt mask: a set bit enables the interrupt.
pub(super) const IMSC: u64 = 0x38;
/// Raw interrupt status.
pub(super) const RIS: u64 = 0x3c;
/// Masked interrupt status.
pub(super) const MIS: u64 = 0x40;
/// Interrupt clear.
pub(super) const ICR: u64 = 0x44;
/// DMA control.
pub(super) const DMACR: u64 = 0x48;

/// PeriphID0 to PeriphID3 (DDI 0183G, 3.3.15), as on QEMU: revision r1p4.
pub(super) const PERIPHERAL_ID: [u8; 4] = [0x11, 0x10, 0x14, 0x00];

bitflags! {
    /// UARTFR (DDI 0183G, 3.3.3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Flags: u32 {
        const CTS = 1 << 0;
        const DSR = 1 << 1;
        const DCD = 1 << 2;
        const BUSY = 1 << 3;
        const RXFE = 1 << 4;
        const TXFF = 1 << 5;
        const RXFF = 1 << 6;
        const TXFE = 1 << 7;
        const RI = 1 << 8;
    }
}

bitflags! {
    /// UARTCR (DDI 0183G, 3.3.8).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Control: u32 {
        const UARTEN = 1 << 0;
        const SIREN = 1 << 1;
        const SIRLP = 1 << 2;
        const LBE = 1 << 7;
        const TXE = 1 << 8;
        const RXE = 1 << 9;
        const DTR = 1 << 10;
        const RTS = 1 << 11;
        const OUT1 = 1 << 12;
        const OUT2 = 1 << 13;
        const RTSEN = 1 << 14;
        const CTSEN = 1 << 15;
    }
}

bitflags! {
    /// UARTIMSC, UARTRIS, UARTMIS and UARTICR share one layout (DDI 0183G, 3.3.10 to 13).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Interrupts: u32 {
        const RI = 1 << 0;
        const CTS = 1 << 1;
        const DCD = 1 << 2;
        const DSR = 1 << 3;
        /// Receive.
        const RX = 1 << 4;
        /// Transmit.
        const TX = 1 << 5;
        /// Receive timeout.
        const RT = 1 << 6;
        const FE = 1 << 7;
        const PE = 1 << 8;
        const BE = 1 << 9;
        /// Overrun.
        const OE = 1 << 10;
    }
}

/// UARTLCR_H (DDI 0183G, 3.3.7). The format of a character matters only on a wire.
#[bitfield(u8)]
pub(super) struct LineControl {
    pub brk: bool,
    #[bits(3)]
    parity_and_stop: u8,
    /// Whether the FIFOs are enabled; else they are holding registers of one byte.
    pub fen: bool,
    #[bits(3)]
    length_and_stick: u8,
}

/// UARTIFLS (DDI 0183G, 3.3.9).
#[bitfield(u8)]
pub(super) struct FifoLevels {
    /// The level of the transmit FIFO at or below which its interrupt is raised.
    #[bits(3)]
    pub transmit: u8,
    #[bits(3)]
    receive: u8,
    #[bits(2)]
    __: u8,
}

impl FifoLevels {
    /// After a reset both watermarks are half of the FIFO.
    pub(super) const RESET: Self = Self::from_bits(0x12);

    /// The number of bytes in the transmit FIFO at its watermark: 1/8, 1/4, 1/2, 3/4 or 7/8 of 16.
    /// Reserved values count as 7/8.
    pub(super) fn transmit_watermark(self) -> usize {
        match self.transmit() {
            0 => 2,
            1 => 4,
            2 => 8,
            3 => 12,
            _ => 14,
        }
    }
}

/// UARTDR and UARTRSR: the error bits of a character. Of these errors, only overruns occur.
pub(super) mod errors {
    /// The overrun bit in UARTDR (DDI 0183G, 3.3.1).
    pub(in super::super) const DR_OVERRUN: u32 = 1 << 11;
    /// The overrun bit in UARTRSR (DDI 0183G, 3.3.2).
    pub(in super::super) const RSR_OVERRUN: u32 = 1 << 3;
}
