//! A PS/2 keyboard with the scan codes of set 2, or a mouse, behind a PL050 (Arm DDI 0143, chapter 3).
//!
//! A mouse with a wheel tells of it only when it was asked for sample rates of 200, 100 and 80 one after the other. It then
//! says that it is of another kind, and its packets have a fourth byte.

use super::{Event, RELATIVE, key};
use crate::machine::{mmio, timer};

const CONTROL: u64 = 0x00;
const STATUS: u64 = 0x04;
const DATA: u64 = 0x08;
/// The clock's divisor: the reference clock has 24 MHz on Arm's boards, and the interface needs 8.
const DIVISOR: u64 = 0x0c;

/// [`CONTROL`]: the interface is on, and what comes interrupts.
const ON: u32 = 1 << 2 | 1 << 4;
const EIGHT_MHZ: u32 = 2;
/// [`STATUS`]: a byte has come, and one can be sent.
const FULL: u32 = 1 << 4;
const EMPTY: u32 = 1 << 6;
/// The commands to send what is typed, or pointed at, and to be quiet.
const REPORT: u8 = 0xf4;
const BE_QUIET: u8 = 0xf5;
/// The commands that set a sample rate, and that ask for the kind of device.
const SET_RATE: u8 = 0xf3;
const WHICH_KIND: u8 = 0xf2;
/// What asks a mouse with a wheel to tell of it.
const ASK_FOR_WHEEL: [u8; 6] = [SET_RATE, 200, SET_RATE, 100, SET_RATE, 80];
/// The kind of a mouse that tells of its wheel.
const HAS_WHEEL: u8 = 3;
/// How many microseconds an answer may take: a byte needs one thousand, and a device has twenty thousand to begin.
const PATIENCE: u64 = 25_000;
/// The answer to a command.
const ACKNOWLEDGED: u8 = 0xfa;
/// The most bytes that are taken in one go.
const MOST: usize = 64;

/// The codes of a release and of keys that came later.
const RELEASE: u8 = 0xf0;
const MORE: u8 = 0xe0;
/// The first byte of a mouse's packet: always set, and the signs of the two that follow.
const FIRST: u8 = 1 << 3;
const LEFTWARD: u8 = 1 << 4;
const DOWNWARD: u8 = 1 << 5;
/// The axis of a wheel, by Linux's input-event-codes.h.
const WHEEL: u16 = 8;

/// A keyboard or a mouse.
pub struct Ps2 {
    registers: u64,
    is_mouse: bool,
    release: bool,
    more: bool,
    /// The bytes of a mouse that belong together, how many of them there are, and how many have come.
    packet: [u8; 4],
    size: usize,
    count: usize,
    /// The last packet's first byte; none if this is the first one.
    buttons: Option<u8>,
}

impl Ps2 {
    /// Starts the one at `registers`.
    pub fn start(registers: u64, is_mouse: bool) -> Self {
        mmio::write32(registers + DIVISOR, EIGHT_MHZ);
        mmio::write32(registers + CONTROL, ON);
        let own = Self {
            registers,
            is_mouse,
            release: false,
            more: false,
            packet: [0; 4],
            size: if is_mouse && has_wheel(registers) {
                4
            } else {
                3
            },
            count: 0,
            buttons: None,
        };
        mmio::write32(registers + DATA, REPORT.into());
        own
    }

    /// Takes what has come.
    pub fn take(&mut self, hear: &mut impl FnMut(Event)) {
        for _ in 0..MOST {
            if !is_full(self.registers) {
                return;
            }
            let byte = mmio::read32(self.registers + DATA) as u8;
            if self.is_mouse {
                self.pointed(byte, hear);
            } else {
                self.typed(byte, hear);
            }
        }
    }

    fn typed(&mut self, byte: u8, hear: &mut impl FnMut(Event)) {
        match byte {
            RELEASE => self.release = true,
            MORE => self.more = true,
            code => {
                let down = !core::mem::take(&mut self.release);
                let more = core::mem::take(&mut self.more);
                if let Some(code) = of_set_2(code, more) {
                    hear(Event::key(code, down));
                    hear(Event::END);
                }
            }
        }
    }

    fn pointed(&mut self, byte: u8, hear: &mut impl FnMut(Event)) {
        if self.count == 0 && (byte == ACKNOWLEDGED || byte & FIRST == 0) {
            return;
        }
        if let Some(place) = self.packet.get_mut(self.count) {
            *place = byte;
        }
        self.count += 1;
        if self.count < self.size {
            return;
        }
        self.count = 0;
        let [first, across, up, wheel] = self.packet;
        let moved = |byte: u8, sign: u8| i32::from(byte) - i32::from(first & sign != 0) * 256;
        let (across, down) = (moved(across, LEFTWARD), -moved(up, DOWNWARD));
        // Away from the person is positive for a client, and negative here.
        let away = -i32::from(wheel as i8);
        for (code, moved) in [(0, across), (1, down), (WHEEL, away)] {
            if moved != 0 {
                let (kind, value) = (RELATIVE, moved as u32);
                hear(Event { kind, code, value });
            }
        }
        // Left, right, middle. Who was told what by an earlier life of this VM is not known: the first packet tells of all.
        let changed = self.buttons.map_or(u8::MAX, |buttons| first ^ buttons);
        for button in 0..3_u8 {
            let bit = 1 << button;
            if changed & bit != 0 {
                let code = key::LEFT_BUTTON + u16::from(button);
                hear(Event::key(code, first & bit != 0));
            }
        }
        self.buttons = Some(first);
        hear(Event::END);
    }
}

/// Whether the mouse at `registers` has a wheel, and tells of it from now on. One that does not answer has none.
fn has_wheel(registers: u64) -> bool {
    // An earlier life may have left it telling of moves, which may look like answers.
    for _ in 0..MOST {
        if !is_full(registers) {
            break;
        }
        let _ = mmio::read32(registers + DATA);
    }
    let mut asked = [BE_QUIET]
        .into_iter()
        .chain(ASK_FOR_WHEEL)
        .chain([WHICH_KIND]);
    asked.all(|byte| is_taken(registers, byte)) && next(registers) == Some(HAS_WHEEL)
}

/// Sends a byte. Returns whether the device has acknowledged it; what came before that is lost.
fn is_taken(registers: u64, byte: u8) -> bool {
    let is_empty = || mmio::read32(registers + STATUS) & EMPTY != 0;
    if !is_empty() && !timer::wait_until_us(PATIENCE, is_empty) {
        return false;
    }
    mmio::write32(registers + DATA, byte.into());
    let came = core::iter::from_fn(|| next(registers));
    came.take(MOST).any(|byte| byte == ACKNOWLEDGED)
}

/// The next byte that comes in time.
fn next(registers: u64) -> Option<u8> {
    let there = is_full(registers) || timer::wait_until_us(PATIENCE, || is_full(registers));
    there.then(|| mmio::read32(registers + DATA) as u8)
}

/// Whether a byte has come.
fn is_full(registers: u64) -> bool {
    mmio::read32(registers + STATUS) & FULL != 0
}

/// The keys by their codes of set 2, from code 1 on; 0 is none.
#[rustfmt::skip]
const KEYS: [u8; 0x83] = [
    67, 0, 63, 61, 59, 60, 88, 0, 68, 66, 64, 62, 15, 41, 0,
    0, 56, 42, 0, 29, 16, 2, 0, 0, 0, 44, 31, 30, 17, 3, 0,
    0, 46, 45, 32, 18, 5, 4, 0, 0, 57, 47, 33, 20, 19, 6, 0,
    0, 49, 48, 35, 34, 21, 7, 0, 0, 0, 50, 36, 22, 8, 9, 0,
    0, 51, 37, 23, 24, 11, 10, 0, 0, 52, 53, 38, 39, 25, 12, 0,
    0, 0, 40, 0, 26, 13, 0, 0, 58, 54, 28, 27, 0, 43, 0, 0,
    0, 86, 0, 0, 0, 0, 14, 0, 0, 79, 0, 75, 71, 0, 0, 0,
    82, 83, 80, 76, 77, 72, 1, 69, 87, 78, 81, 74, 55, 73, 70, 0,
    0, 0, 0, 65,
];
/// Those behind [`MORE`].
const LATER_KEYS: [(u8, u16); 17] = [
    (0x11, key::RIGHT_ALT),
    (0x14, key::RIGHT_CTRL),
    (0x1f, 125),
    (0x27, 126),
    (0x2f, 127),
    (0x4a, 98),
    (0x5a, 96),
    (0x69, 107),
    (0x6b, 105),
    (0x6c, 102),
    (0x70, 110),
    (0x71, 111),
    (0x72, 108),
    (0x74, 106),
    (0x75, 103),
    (0x7a, 109),
    (0x7d, 104),
];

/// The key with this code of set 2, perhaps behind [`MORE`].
fn of_set_2(code: u8, more: bool) -> Option<u16> {
    if more {
        let mut keys = LATER_KEYS.iter();
        return keys.find(|(own, _)| *own == code).map(|(_, key)| *key);
    }
    let key = KEYS.get(usize::from(code).checked_sub(1)?)?;
    Some(u16::from(*key)).filter(|key| *key != 0)
}
