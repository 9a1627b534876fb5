//! The panel controller PL111 (Arm DDI 0293, chapter 3), with a panel of TFTs.

use crate::machine::mmio;
use crate::wanted::WantedScreen;

/// The timing of lines, and the number of their pixels.
const TIMING_0: u64 = 0x00;
/// The timing of pictures, and the number of their lines.
const TIMING_1: u64 = 0x04;
/// Polarities, and the clocks of a line.
const TIMING_2: u64 = 0x08;
/// Where the picture is.
const UPPER_BASE: u64 = 0x10;
const CONTROL: u64 = 0x18;
/// Which interrupts are enabled.
const INTERRUPTS: u64 = 0x1c;
/// The identification as a PrimeCell, and as this one: the low byte of each of four words.
const PERIPHERAL_ID: u64 = 0xfe0;
const PART: u32 = 0x111;

/// Bits of [`CONTROL`]: the controller runs, pixels of 16 bits (5, 6, 5) or 24, a panel of TFTs, red in the highest bits,
/// and the panel has power.
const ENABLE: u32 = 1;
const BITS_565: u32 = 6 << 1;
const BITS_24: u32 = 5 << 1;
const TFT: u32 = 1 << 5;
const RED_HIGH: u32 = 1 << 8;
const POWER: u32 = 1 << 11;
/// Porches and pulses of some panel; QEMU takes any.
const PORCHES: u32 = 0x0f;
/// [`TIMING_2`]: the clock as it comes (BCD), both pulses active low.
const NO_DIVISION: u32 = 1 << 26 | 1 << 12 | 1 << 11;

/// The controller.
pub struct Pl111 {
    registers: u64,
    control: u32,
}

impl Pl111 {
    /// Makes it ready. It is dark until it is turned on.
    pub fn start(wanted: &WantedScreen) -> Result<Self, &'static str> {
        let registers = wanted.device.registers;
        let id = (0..2).fold(0, |id, byte| {
            let word = mmio::read32(registers + PERIPHERAL_ID + 4 * byte) & 0xff;
            id | word << (8 * byte)
        });
        if id & 0xfff != PART {
            return Err("the board's display is neither a PL111 nor virtio's");
        }
        if wanted.board + wanted.picture() * wanted.clients as u64 > 1 << 32 {
            return Err("the pictures are where a PL111 cannot reach them");
        }
        let write = |offset, value| mmio::write32(registers + offset, value);
        let porches = PORCHES << 24 | PORCHES << 16 | PORCHES << 8;
        write(INTERRUPTS, 0);
        write(TIMING_0, porches | (wanted.width / 16 - 1) << 2);
        write(TIMING_1, wanted.height - 1);
        write(TIMING_2, NO_DIVISION | (wanted.width - 1) << 16);
        write(UPPER_BASE, wanted.board as u32);
        let bits = match wanted.stride / wanted.width {
            2 => BITS_565,
            _ => BITS_24,
        };
        let control = ENABLE | POWER | TFT | RED_HIGH | bits;
        Ok(Self { registers, control })
    }

    /// Turns it on, when it is known what it shows: QEMU may forget an address that it gets while it draws its first picture.
    pub fn turn_on(&self) {
        mmio::write32(self.registers + CONTROL, self.control);
    }

    /// Shows what is at this address of the board from the next picture on.
    pub fn show(&self, at: u64) {
        mmio::write32(self.registers + UPPER_BASE, at as u32);
    }
}
