//! A PS/2 keyboard behind a PL050 (Arm DDI 0143, chapter 3), with the scan codes of set 2.

use super::key;
use hanok_guest_runtime::mmio;

const CONTROL: u64 = 0x00;
const STATUS: u64 = 0x04;
const DATA: u64 = 0x08;
/// The clock's divisor: the reference clock has 24 MHz on Arm's boards, and the interface needs 8.
const DIVISOR: u64 = 0x0c;

/// [`CONTROL`]: the interface is on, and what comes interrupts.
const ON: u32 = 1 << 2 | 1 << 4;
const EIGHT_MHZ: u32 = 2;
/// [`STATUS`]: a byte has come.
const FULL: u32 = 1 << 4;
/// The keyboard's command to send what is typed.
const SEND_KEYS: u32 = 0xf4;
/// The most bytes that are taken in one go.
const MOST: usize = 64;

/// The codes of a release and of keys that came later.
const RELEASE: u8 = 0xf0;
const MORE: u8 = 0xe0;

/// A keyboard.
pub struct Ps2 {
    registers: u64,
    release: bool,
    more: bool,
}

impl Ps2 {
    /// Starts the one at `registers`.
    pub fn start(registers: u64) -> Result<Self, &'static str> {
        mmio::write32(registers + DIVISOR, EIGHT_MHZ);
        mmio::write32(registers + CONTROL, ON);
        mmio::write32(registers + DATA, SEND_KEYS);
        Ok(Self {
            registers,
            release: false,
            more: false,
        })
    }

    /// Takes what has come: the code of each key, and whether it was pressed.
    pub fn take(&mut self, mut hear: impl FnMut(u16, bool)) {
        for _ in 0..MOST {
            if mmio::read32(self.registers + STATUS) & FULL == 0 {
                return;
            }
            match mmio::read32(self.registers + DATA) as u8 {
                RELEASE => self.release = true,
                MORE => self.more = true,
                code => {
                    let down = !core::mem::take(&mut self.release);
                    let more = core::mem::take(&mut self.more);
                    if let Some(code) = of_set_2(code, more) {
                        hear(code, down);
                    }
                }
            }
        }
    }
}

/// The key with this code of set 2, perhaps behind [`MORE`].
fn of_set_2(code: u8, more: bool) -> Option<u16> {
    Some(match (code, more) {
        (0x14, false) => key::LEFT_CTRL,
        (0x14, true) => key::RIGHT_CTRL,
        (0x11, false) => key::LEFT_ALT,
        (0x11, true) => key::RIGHT_ALT,
        (0x16, false) => 2,
        (0x1e, false) => 3,
        (0x26, false) => 4,
        (0x25, false) => 5,
        (0x2e, false) => 6,
        (0x36, false) => 7,
        (0x3d, false) => 8,
        (0x3e, false) => 9,
        (0x46, false) => 10,
        (0x45, false) => key::DIGIT_0,
        _ => return None,
    })
}
