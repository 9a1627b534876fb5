//! The board's keyboard, whose combinations choose who is shown: Ctrl, Alt and a digit.

mod ps2;
mod virtio;

use crate::memory::ScreenMemory;
use crate::tree::{BoardDevice, Served};
use hanok_guest_runtime::{gic, mmio};
use ps2::Ps2;
use virtio::VirtioKeyboard;

/// The digit that was pressed with Ctrl and Alt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination(pub usize);

/// Keys, by the numbers of Linux's input-event-codes.h, which are virtio's, too (virtio 1.2, 5.8).
mod key {
    pub const DIGIT_1: u16 = 2;
    pub const DIGIT_9: u16 = 10;
    pub const DIGIT_0: u16 = 11;
    pub const LEFT_CTRL: u16 = 29;
    pub const LEFT_ALT: u16 = 56;
    pub const RIGHT_CTRL: u16 = 97;
    pub const RIGHT_ALT: u16 = 100;
}

/// What comes first in the registers of a virtio device.
const VIRTIO: u32 = u32::from_le_bytes(*b"virt");

/// The ways to a keyboard.
enum Device {
    Ps2(Ps2),
    Virtio(VirtioKeyboard),
}

/// A keyboard.
pub struct Keyboard {
    device: Device,
    interrupt: u32,
    held: Held,
    chosen: Option<Combination>,
}

impl Keyboard {
    /// Starts it.
    pub fn start(
        device: &BoardDevice,
        served: &Served,
        memory: &'static ScreenMemory,
    ) -> Result<Self, &'static str> {
        let registers = device.registers;
        let to_board = served.to_board;
        let to_board = to_board.ok_or("the board's keyboard cannot reach memory")?;
        let way = if mmio::read32(registers) == VIRTIO {
            Device::Virtio(VirtioKeyboard::start(registers, to_board, memory)?)
        } else {
            Device::Ps2(Ps2::start(registers)?)
        };
        let own = Self {
            device: way,
            interrupt: device.interrupt,
            held: Held::default(),
            chosen: None,
        };
        gic::enable(device.interrupt);
        Ok(own)
    }

    /// The combination that was pressed last.
    pub fn work(&mut self) -> Option<Combination> {
        self.chosen.take()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id != self.interrupt {
            return;
        }
        let Self { held, chosen, .. } = self;
        let hear = |code, down| {
            if let Some(combination) = held.changed(code, down) {
                *chosen = Some(combination);
            }
        };
        match &mut self.device {
            Device::Ps2(device) => device.take(hear),
            Device::Virtio(device) => device.take(hear),
        }
    }
}

/// Which of the keys of a combination are held.
#[derive(Default)]
struct Held {
    ctrl: bool,
    alt: bool,
}

impl Held {
    /// A key was pressed or released.
    fn changed(&mut self, code: u16, down: bool) -> Option<Combination> {
        match code {
            key::LEFT_CTRL | key::RIGHT_CTRL => self.ctrl = down,
            key::LEFT_ALT | key::RIGHT_ALT => self.alt = down,
            _ if !down || !self.ctrl || !self.alt => {}
            key::DIGIT_0 => return Some(Combination(0)),
            key::DIGIT_1..=key::DIGIT_9 => {
                return Some(Combination(usize::from(code - key::DIGIT_1 + 1)));
            }
            _ => {}
        }
        None
    }
}
